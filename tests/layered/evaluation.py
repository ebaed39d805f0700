"""Outputs of a program's layered circuit, computed gate by gate."""

from __future__ import annotations

from collections.abc import Sequence

from quod.errors import MismatchError
from quod.layered import LayeredCircuit, Layout, Program, Random, Wire


def outputs(
    circuit: LayeredCircuit, inputs: list[int], public: Sequence[int] = (), seed: int = 5,
    challenges: Sequence[int] | None = None,
) -> list[int]:  # fmt: skip
    """The asserted values, with challenges that are 5, 6, ... if no others are given."""
    challenge_values = range(seed, seed + circuit.randoms) if challenges is None else challenges
    coefficients = [
        challenge_values[c.number] if isinstance(c, Random) else c for c in circuit.coefficients
    ]
    plain = LayeredCircuit(
        circuit.field, circuit.log_inputs, coefficients, circuit.layers, public=circuit.public,
        zeros=circuit.zeros,
    )  # fmt: skip
    return plain.evaluate(inputs, list(public))[-1][: circuit.zeros]


def holds(layout: Layout, values: dict[str, object]) -> bool:
    """Return whether all asserted values are 0; the names of assertions must say the same."""
    inputs, public = layout.inputs(values, check=False), layout.public(values)
    all_zero = not any(outputs(layout.circuit, inputs, public))
    try:
        layout.inputs(values)
        named = True
    except MismatchError:
        named = False
    assert all_zero == named
    return all_zero


def finished(program: Program, wires: Sequence[Wire], name: str = "result") -> Layout:
    """The program with its results as public inputs."""
    program.assert_equal(list(wires), program.public_inputs(name, len(wires)), name)
    return program.finished()


def gates(circuit: LayeredCircuit) -> dict[str, int]:
    """Count the gates of each kind."""
    counts: dict[str, int] = {}
    for layer in circuit.layers:
        for kind, layer_gates in layer.gates.items():
            if len(layer_gates):
                counts[kind] = counts.get(kind, 0) + len(layer_gates)
    return counts

"""What a layered circuit of a program gives, computed gate by gate."""

from __future__ import annotations

from collections.abc import Sequence

from quod.errors import MismatchError
from quod.layered import LayeredCircuit, Layout, Program, Random, Wire


def outputs(
    circuit: LayeredCircuit, inputs: list[int], public: Sequence[int] = (), seed: int = 5,
    challenges: Sequence[int] | None = None,
) -> list[int]:  # fmt: skip
    """The asserted values, with challenges that are 5, 6, ... if no others are given."""
    known = range(seed, seed + circuit.randoms) if challenges is None else challenges
    coefficients = [known[c.number] if isinstance(c, Random) else c for c in circuit.coefficients]
    plain = LayeredCircuit(
        circuit.field, circuit.log_inputs, coefficients, circuit.layers, public=circuit.public,
        zeros=circuit.zeros,
    )  # fmt: skip
    return plain.evaluate(inputs, list(public))[-1][: circuit.zeros]


def holds(layout: Layout, values: dict[str, object]) -> bool:
    """Whether all asserted values are 0; the names of assertions must say the same."""
    inputs, public = layout.inputs(values, check=False), layout.public(values)
    found = not any(outputs(layout.circuit, inputs, public))
    try:
        layout.inputs(values)
        named = True
    except MismatchError:
        named = False
    assert found == named
    return found


def finished(program: Program, wires: Sequence[Wire], name: str = "result") -> Layout:
    """The program with its results as public inputs."""
    program.assert_equal(list(wires), program.public_inputs(name, len(wires)), name)
    return program.finished()


def gates(circuit: LayeredCircuit) -> dict[str, int]:
    """How many gates of each kind there are."""
    found: dict[str, int] = {}
    for layer in circuit.layers:
        for kind, own in layer.gates.items():
            if len(own):
                found[kind] = found.get(kind, 0) + len(own)
    return found

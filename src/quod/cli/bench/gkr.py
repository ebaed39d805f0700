"""Proofs of layered circuits by GKR, from inputs on the host to the last byte, and verification."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any

import numpy as np

from quod.circuit.gadgets.keccak import STATE, keccak_f
from quod.circuit.layered import KINDS, Gates, Layer, LayeredCircuit
from quod.circuit.program import Program
from quod.cli.bench.harness import Case, Parameter
from quod.commitment.named import scheme_named
from quod.device.discovery import open_device
from quod.device.timeline import Timeline
from quod.field.array import Words, from_integers, random_elements
from quod.field.moduli import Modulus
from quod.field.spec import FieldSpec
from quod.gkr.checker.device_verifier import Verifier
from quod.gkr.key import VerifyingKey
from quod.gkr.prover.prover import Prover
from quod.gkr.reduction import Reduction

Draw = Callable[[int], Words]
"""Random inputs of so many instances."""


def cases(
    device: str, field: FieldSpec, circuit: str, instances: Sequence[int], *, batch: int,
    commitment: str, reduction: Reduction,
) -> Iterator[Case]:  # fmt: skip
    """Cases for each number of instances: `batch` proofs of as many, and their verification."""
    found = open_device(device)
    made, draw = CIRCUITS[circuit](field.modulus)
    key = VerifyingKey.of(
        made, field, commitment=scheme_named(commitment), allow_bits=0, reduction=reduction
    )
    for count in instances:
        prover = Prover(found, key, made, instances=count, batch=batch)
        inputs = [draw(count) for _ in range(batch)]
        public: list[Sequence[object]] = [()] * batch

        def prove(
            timeline: Timeline | None = None, *, prover: Prover = prover,
            inputs: list[Any] = inputs, public: list[Sequence[object]] = public,
        ) -> list[bytes]:  # fmt: skip
            return prover.prove_many(inputs, public, check=False, timeline=timeline)

        proofs = prove()
        parameters: dict[str, Parameter] = {
            "circuit": circuit, "field": field.name, "instances": count, "batch": batch,
            "commitment": commitment, "reduction": reduction.value, "bytes": len(proofs[0]),
            "what": "prove",
        }  # fmt: skip
        yield Case(parameters, prove, "ms/instance", operations=count * batch, traced=prove)

        verifier = Verifier(found, key, made, instances=count, batch=batch)

        def verify(
            timeline: Timeline | None = None, *, verifier: Verifier = verifier,
            proofs: list[bytes] = proofs, public: list[Sequence[object]] = public,
        ) -> None:  # fmt: skip
            verifier.verify_many(public, proofs, timeline=timeline)

        yield Case(
            {**parameters, "what": "verify"}, verify, "ms/proof", operations=batch, traced=verify
        )


@cache
def keccak(field: Modulus) -> tuple[LayeredCircuit, Draw]:
    """One Keccak-f[1600] an instance, whose result is asserted to be signs."""
    program = Program(field)
    state = keccak_f(program, program.inputs("state", STATE))
    for number, value in enumerate(state):
        program.assert_equal(value * value, program.constant(1), f"sign[{number}]")
    circuit = program.finished().circuit
    signs = from_integers(field, [1, -1])

    def draw(instances: int) -> Words:
        generator = np.random.default_rng(instances)
        found = np.zeros((instances, 1 << circuit.log_inputs, field.words), np.uint32)
        found[:, :STATE] = signs[generator.integers(0, 2, (instances, STATE))]
        return found

    return circuit, draw


_LAYERS, _LOG_SIZE = 16, 16


@cache
def wide(field: Modulus) -> tuple[LayeredCircuit, Draw]:
    """2^20 products in 16 layers of 2^16 values, at random, and as many sums; the last is 0."""
    generator = np.random.default_rng(1)

    def gates(kind: str, count: int) -> Gates:
        output, *inputs = (
            generator.integers(0, 1 << _LOG_SIZE, count).astype(np.uint32)
            for _ in range(1 + KINDS[kind])
        )
        return Gates(output, tuple(inputs), np.zeros(count, np.uint32))

    layers = []
    for number in range(_LAYERS + 1):
        is_last = number == _LAYERS
        sizes = {} if is_last else dict.fromkeys(("add", "multiply"), 1 << _LOG_SIZE)
        layers.append(Layer(_LOG_SIZE, {kind: gates(kind, sizes.get(kind, 0)) for kind in KINDS}))
    circuit = LayeredCircuit(field, _LOG_SIZE, [1], layers)

    def draw(instances: int) -> Words:
        found = random_elements(field, instances << _LOG_SIZE, seed=instances)
        return found.reshape(instances, 1 << _LOG_SIZE, field.words)

    return circuit, draw


CIRCUITS = {"keccak": keccak, "wide": wide}
"""The circuits that are measured, by name."""

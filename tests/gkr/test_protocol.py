"""Protocol steps: order, offsets, and verifiers that take each of them."""

from __future__ import annotations

import pytest

from quod.field import EXTENSIONS
from quod.gkr import Prover, Reduction, VerifyingKey, verify
from quod.gkr.protocol import (
    Challenges,
    Delay,
    ProtocolSteps,
    Rounds,
    Step,
    StepsInOrder,
    Values,
    protocol_steps,
)
from quod.gkr.verifier.step_reader import StepReader
from quod.layered import CircuitBuilder, LayeredCircuit, Random
from tests.gkr.circuits import satisfied

FIELD = EXTENSIONS["m31.4"]
BOTH = pytest.mark.parametrize("reduction", Reduction)


def three_layers(*, randoms: bool) -> LayeredCircuit:
    """From the inputs: products, cubes, and sums that are to be 0."""
    builder = CircuitBuilder(FIELD.modulus, 2)
    products = builder.layer(1)
    products.multiply(0, 2, 3, Random(0) if randoms else 1)
    products.add(1, 0)
    builder.layer(2).power(0, 1, 3)
    builder.layer(1).add(0, 2)
    return builder.finished(zeros=1)


def shown(step: Step) -> tuple[object, ...]:
    """A step as plain values."""
    if isinstance(step, Delay):
        return ("delay",)
    if isinstance(step, Challenges):
        return ("challenges", step.count)
    if isinstance(step, Rounds):
        return ("rounds", step.first, step.wires, step.instances, step.degree)
    return ("values", step.first, step.count, step.by_runs)


def test_the_steps_of_two_phases() -> None:
    steps = protocol_steps(three_layers(randoms=True), Reduction.TWO_PHASE, 3)
    assert [shown(step) for step in steps.steps] == [
        ("delay",), ("challenges", 1),
        ("delay",), ("challenges", 1), ("challenges", 3),
        # The sums: over the four wires below.
        ("rounds", 0, 2, 0, 2), ("values", 4, 1, False), ("challenges", 0),
        # The cubes: over two wires and eight instances.
        ("rounds", 5, 1, 3, 4), ("values", 21, 1, False), ("challenges", 0),
        # The products: over four inputs and eight instances, then over the second inputs.
        ("rounds", 22, 2, 3, 2), ("values", 32, 2, False),
        ("rounds", 34, 2, 0, 2), ("values", 38, 1, False), ("challenges", 0),
    ]  # fmt: skip
    assert steps.elements == 39
    assert (steps.round_degrees, steps.combining_challenges) == (4 + 16 + 10 + 4, 0)


def test_the_steps_of_data_parallel_proofs() -> None:
    steps = protocol_steps(three_layers(randoms=False), Reduction.DATA_PARALLEL, 3)
    assert [shown(step) for step in steps.steps] == [
        ("delay",), ("challenges", 1), ("challenges", 3),
        # The sums: no rounds, and the one wire that they take.
        ("rounds", 0, 0, 0, 1), ("values", 0, 1, True), ("challenges", 2),
        ("rounds", 1, 0, 3, 3), ("values", 10, 1, True), ("challenges", 1),
        # All inputs are sent.
        ("rounds", 11, 0, 3, 2), ("values", 17, 4, True), ("challenges", 2),
    ]  # fmt: skip
    assert steps.elements == 21
    assert (steps.round_degrees, steps.combining_challenges) == (9 + 6, 5)


def test_two_input_claims_are_combined() -> None:
    builder = CircuitBuilder(FIELD.modulus, 2)
    for _ in range(2):
        builder.layer(2).multiply(0, 1, 2)
    steps = protocol_steps(builder.finished(zeros=1), Reduction.TWO_PHASE, 0)
    assert [layer.challenges.count for layer in steps.layers] == [1, 0]


@BOTH
@pytest.mark.parametrize("log_instances", [0, 2])
def test_offsets_are_consecutive(reduction: Reduction, log_instances: int) -> None:
    for seed in range(8):
        circuit, *_ = satisfied(FIELD.modulus, seed, layers=1 + seed % 4, randoms=seed % 2 == 0)
        steps = protocol_steps(circuit, reduction, log_instances)
        offset = 0
        for step in steps.steps:
            if isinstance(step, Rounds):
                assert step.first == offset
                offset += step.elements
            if isinstance(step, Values):
                assert step.first == offset
                offset += step.count
        assert steps.elements == offset
        assert [layer.number for layer in steps.layers] == [*reversed(range(len(circuit.layers)))]
        assert all(steps.layer(layer.number) is layer for layer in steps.layers)


def test_every_step_is_taken_exactly_once() -> None:
    steps = protocol_steps(three_layers(randoms=True), Reduction.TWO_PHASE, 1)
    every = list(steps.steps)
    order = StepsInOrder(steps)
    for step in every:
        order.take(step)
    order.end()
    for number in range(len(every)):
        for wrong in ([*every[:number], *every[number + 1 :]], [*every[: number + 1], every[0]]):
            order = StepsInOrder(steps)
            with pytest.raises(AssertionError, match="the protocol goes on with"):
                for step in wrong:
                    order.take(step)
                order.end()


@BOTH
def test_a_verifier_reads_every_step(reduction: Reduction, monkeypatch: pytest.MonkeyPatch) -> None:
    circuit, inputs, public = satisfied(FIELD.modulus, 2, layers=2, randoms=True)
    key = VerifyingKey.of(circuit, FIELD, reduction=reduction)
    proof = Prover("cpu", key, circuit).prove(inputs, public, check=False)
    verify(key, circuit, public, proof)

    def leave_out(self: StepReader, step: Challenges) -> list[tuple[int, ...]]:
        return [(0,) * FIELD.degree] * step.count

    monkeypatch.setattr(StepReader, "challenges", leave_out)
    with pytest.raises(AssertionError, match="the protocol goes on with"):
        verify(key, circuit, public, proof)


def test_steps_are_cached_per_circuit() -> None:
    circuit = three_layers(randoms=False)
    steps: list[ProtocolSteps] = [
        protocol_steps(circuit, reduction, log_instances)
        for reduction in Reduction for log_instances in (0, 1)
    ]  # fmt: skip
    assert len({id(each) for each in steps}) == 4
    assert protocol_steps(circuit, Reduction.TWO_PHASE, 0) is steps[0]

"""Witnesses of circuits with `ConstraintSystem.repeat`, computed block by block, against steps."""

from __future__ import annotations

import random
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from quod import r1cs
from quod.device.emulated.device import EmulatedDevice
from quod.device.protocol import AnyDevice
from quod.errors import InputError
from quod.field.array import words_to_integers
from quod.r1cs import ConstraintSystem, Signal, witnesses
from quod.r1cs.executor import plans
from quod.r1cs.names import name_here
from quod.r1cs.repetition import row_checks, schedule
from quod.r1cs.witness_program import lowering
from tests.support.thorough import one_and_others

CURVES = ("bn254", "bls12_381", "bls12_377")


@pytest.fixture(autouse=True)
def _small_circuits_are_large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compile the circuits of this file block by block, although they are small."""
    monkeypatch.setattr(witnesses, "_MIN_COMPILED_STEPS", 10)
    monkeypatch.setattr(witnesses, "_MIN_WAVE_STEPS", 0)


def random_function(chance: random.Random, depth: int) -> Callable[..., Any]:
    """Return a function of two signals to repeat, with random steps and calls; see `repeat`."""
    callees = [random_function(chance, depth - 1) for _ in range(2 * (depth > 0))]
    seed, kinds = chance.random(), [chance.randrange(9) for _ in range(9)]

    def function(system: ConstraintSystem, x: Signal, y: Signal) -> list[Signal]:
        chance = random.Random(seed)
        signals = [x, y, x - y]

        def some() -> Signal:
            signal = chance.choice(signals[-4:] if chance.random() < 0.7 else signals)
            return signal * chance.choice((1, 1, 2, -1)) + chance.choice((0, 0, 7))

        for index, kind in enumerate(kinds):
            with system.namespace(f"step[{index}]"):
                if kind == 0:
                    signals.append(some() / (some() + some() + 5))
                elif kind == 1:
                    signals.append(system.is_zero(some() - chance.choice((0, some()))))
                elif kind == 2:
                    signals.append(system.hint_bit(some(), chance.randrange(250)))
                elif kind == 3:
                    signals += system.hint(lambda a, b: (a ^ b, a >> 3), [some(), some()], 2)
                elif kind == 4:
                    signals.append(system.private(name_here(system, "z")) * some())
                elif kind == 5:
                    bits = system.private_bits(name_here(system, "b"), 3)
                    signals.append(system.output(name_here(system, "out"), some() * bits[1]))
                elif kind > 6 and callees:
                    signals += system.repeat(chance.choice(callees), some(), some())
                else:
                    wire = system.wire()
                    system.enforce(some(), some() + wire, some())
                    signals.append(wire)
        return signals[-2:]

    return function


def random_circuit(seed: int) -> r1cs.Circuit:
    chance = random.Random(seed)
    function = random_function(chance, 2)

    def circuit(system: ConstraintSystem) -> None:
        x, y = system.private("x"), system.public("y")
        for index in range(3):
            with system.namespace(f"call[{index}]"):
                x, y = system.repeat(function, x + index, y)
        system.output("last", x)

    return r1cs.trace(circuit, CURVES[seed % len(CURVES)])


def random_inputs(circuit: r1cs.Circuit, seed: int) -> dict[str, Any]:
    chance, prime = random.Random(seed), circuit.field.value
    return {
        name: chance.randrange(8)
        if declared.bits
        else chance.choice((0, 1, prime - 1, chance.randrange(prime)))
        for name, declared in circuit.inputs.items()
    }


@pytest.mark.parametrize("seed", one_and_others(range(12), range(4)))
def test_blocks_give_the_witness_of_the_steps(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lowering, "_MAX_STRETCH", 3 + seed)
    circuit = random_circuit(seed)
    assert len(circuit.program.schedule.stages) > 1
    inputs = [random_inputs(circuit, number) for number in range(5)]
    expected = [circuit.values(values) for values in inputs]
    computed = circuit.witnesses(inputs, check=False)
    assert [words_to_integers(circuit.field, witness.values) for witness in computed] == expected
    single = circuit.witness(inputs[1], check=False)
    assert words_to_integers(circuit.field, single.values) == expected[1]


@pytest.mark.parametrize("seed", one_and_others(range(3)))
def test_devices_give_the_witness_of_the_steps(
    gpu_device: AnyDevice, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Several launches for a stage.
    monkeypatch.setattr(plans, "_MAX_BYTES", 1 << 14)
    circuit = random_circuit(seed)
    inputs = [random_inputs(circuit, number) for number in range(8)]
    computed = circuit.witnesses(inputs, check=False, device=gpu_device)
    for witness, values in zip(computed, inputs, strict=True):
        assert words_to_integers(circuit.field, witness.values) == circuit.values(values)


@pytest.mark.thorough
def test_emitted_code_gives_the_witness_of_the_steps() -> None:
    circuit = random_circuit(1)
    inputs = [random_inputs(circuit, number) for number in range(2)]
    computed = circuit.witnesses(inputs, check=False, device=EmulatedDevice(executor="ptx"))
    for witness, values in zip(computed, inputs, strict=True):
        assert words_to_integers(circuit.field, witness.values) == circuit.values(values)


def square_roots(system: ConstraintSystem) -> None:
    """Constrain the second input of each of 40 calls to be the square of the first."""

    def is_square(inner: ConstraintSystem, x: Signal, y: Signal) -> Signal:
        with inner.namespace("square"):
            inner.assert_equal(x * x, y)
        return x

    def pair(inner: ConstraintSystem, x: list[Signal], y: list[Signal]) -> None:
        for index in range(2):
            with inner.namespace(f"half[{index}]"):
                inner.repeat(is_square, x[index], y[index])

    x, y = system.private("x", 40), system.private("y", 40)
    for index in range(0, 40, 2):
        with system.namespace(f"pair[{index // 2}]"):
            system.repeat(pair, x[index : index + 2], y[index : index + 2])


@pytest.mark.parametrize("device", ["cpu", "emulated"])
def test_a_failing_row_is_named_without_its_neighbours(
    device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(r1cs.circuit, "flattened", None)
    monkeypatch.setattr(row_checks, "_MAX_INSTANCES", 7)
    monkeypatch.setattr(row_checks, "_MAX_CHECKS", 33)
    circuit = r1cs.trace(square_roots)
    x = list(range(40))
    inputs = {"x": x, "y": [value * value for value in x]}
    wrong = {"x": x, "y": [value * value + (value in (13, 38)) for value in x]}
    circuit.witnesses([inputs, inputs], device=device)
    with pytest.raises(r1cs.UnsatisfiedError) as raised:
        circuit.witnesses([inputs, wrong], device=device)
    assert str(raised.value).startswith(
        "inputs[1]: constraint 27 `pair[6]/half[1]/square` (test_repeated_witnesses.py:"
    )
    assert str(raised.value).endswith("169 * 1 != 170, and 1 more of 80 constraints")
    assert [failure.constraint for failure in raised.value.failures] == [27, 77]
    monkeypatch.undo()
    flat = r1cs.trace(square_roots)
    assert [str(failure) for failure in flat.check(flat.values(wrong))] == [
        str(failure) for failure in raised.value.failures
    ]


def test_a_copy_that_divides_by_zero_has_the_values_of_the_steps(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = []

    def halved(value: int) -> int:
        asked.append(value)
        assert value != 5
        return value // 2

    def quotient(system: ConstraintSystem, x: Signal, y: Signal) -> Signal:
        result = system.divide(x, y)
        (half,) = system.hint(halved, [result + x])
        return result + half

    def function(system: ConstraintSystem) -> None:
        x, y = system.private("x", 8), system.private("y", 8)
        for first, second in zip(x, y, strict=True):
            system.repeat(quotient, system.repeat(quotient, first, second), second + 1)

    circuit = r1cs.trace(function)
    circuit.prepare()
    inputs: list[dict[str, Any]] = [
        {"x": [2 * y for y in range(2, 10)], "y": list(range(2, 10))},
        {"x": [0, 0, 9, 4, 0, 0, 0, 1], "y": [1, 2, 0, 2, 1, 1, 1, 1]},
    ]
    for device in ("cpu", "emulated"):
        computed = circuit.witnesses(inputs, check=False, device=device)
        for witness, values in zip(computed, inputs, strict=True):
            assert words_to_integers(circuit.field, witness.values) == circuit.values(values)
    monkeypatch.setattr(witnesses, "MAX_ROWS", 10)
    with pytest.raises(InputError, match=r"^inputs\[1\]: the circuit divides by 0"):
        circuit.witnesses(inputs, check=False)


def test_a_chain_of_small_blocks_is_one_program(monkeypatch: pytest.MonkeyPatch) -> None:
    """A wave for each would take longer to launch than to compute."""
    monkeypatch.setattr(witnesses, "_MIN_WAVE_STEPS", 100)

    def function(system: ConstraintSystem) -> None:
        x = system.private("x")
        for _ in range(20):
            x = system.repeat(lambda inner, value: value * value + 3, x)
        system.output("y", x)

    circuit = r1cs.trace(function)
    witness = circuit.witness({"x": 5})
    assert len(circuit.program.schedule.stages) == 1
    assert words_to_integers(circuit.field, witness.values) == circuit.values({"x": 5})


def test_calls_that_do_not_depend_on_each_other_share_waves() -> None:
    def function(system: ConstraintSystem) -> None:
        def link(inner: ConstraintSystem, x: Signal) -> Signal:
            return x * x

        for index in range(5):
            x = system.private(f"x{index}")
            for _ in range(3):
                x = system.repeat(link, x)

    plan = r1cs.trace(function).program.schedule
    assert [[len(run.copies) for run in wave.stages] for wave in plan.waves] == [[5], [5], [5]]
    assert isinstance(plan, schedule.Schedule)


def test_memory_grows_with_the_witness_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Further copies of a block add its values, and a byte for each to find unwritten ones."""
    monkeypatch.setattr(row_checks, "_MAX_INSTANCES", 256)

    def peak(count: int) -> tuple[int, int]:
        def step(system: ConstraintSystem, x: Signal) -> Signal:
            for _ in range(4000):
                x = x * x + 1
            return x

        def function(system: ConstraintSystem) -> None:
            for x in system.private("x", count):
                system.repeat(step, x)

        circuit = r1cs.trace(function)
        circuit.witness({"x": [1] * count})
        tracemalloc.start()
        try:
            witness = circuit.witness({"x": [1] * count})
            return tracemalloc.get_traced_memory()[1], witness.values.nbytes
        finally:
            tracemalloc.stop()

    (small, small_bytes), (large, large_bytes) = peak(20), peak(60)
    assert large - small < 1.04 * (large_bytes - small_bytes)


def test_several_launches_compute_many_copies() -> None:
    def function(system: ConstraintSystem) -> None:
        x = system.private("x", 101)
        squares = [system.repeat(lambda inner, value: value * value * value, each) for each in x]
        system.output("sum", system.sum(squares))

    circuit = r1cs.trace(function)
    witness = circuit.witness({"x": list(range(101))})
    assert words_to_integers(circuit.field, witness.values[1:2]) == [5050**2]
    assert np.array_equal(
        circuit.witnesses([{"x": list(range(101))}], device="cpu")[0].values, witness.values
    )

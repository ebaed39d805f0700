"""Calculators of circuits in Python: hints, divisions, repetition, messages, refusals."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from quod import r1cs
from quod.errors import InputError
from quod.r1cs import portable_hints
from quod.r1cs.calculator.circuit_module import calculator_module
from quod.r1cs.gadgets import choose_at, sha256
from quod.witness import WitnessCalculator
from quod.witness.errors import CircuitError
from tests.r1cs.calculator.agreement import agree

System = r1cs.ConstraintSystem
CURVES = ("bn254", "bls12_381", "bls12_377")


@pytest.mark.parametrize("curve", CURVES)
def test_native_hints(curve: str) -> None:
    """Portable hints equal Python's, at the limits too."""

    def circuit_of(system: System) -> None:
        x, y = system.private("x"), system.public("y")
        results = system.hint(portable_hints.quotient_and_remainder, [x, y], 2)
        results += system.hint(portable_hints.one_hot, [x, 5], 5)
        results += system.hint(portable_hints.integer_root, [x * x])
        for function in (
            portable_hints.bitwise_and,
            portable_hints.bitwise_or,
            portable_hints.bitwise_xor,
        ):
            results += system.hint(function, [x, y])
        results += system.hint(portable_hints.quotient_and_remainder, [results[0] * y, 1000], 2)
        for index, result in enumerate(results):
            system.output(f"out{index}", result + 1)

    circuit = r1cs.trace(circuit_of, curve)
    draw, prime = random.Random(3), circuit.field.value
    limits = (0, 1, 2, 4, 5, (1 << 32) + 3, prime - 1, prime // 2)
    pairs = [(x, y) for x in limits for y in limits]
    pairs += [
        (draw.randrange(1 << draw.randrange(1, 253)), draw.randrange(1 << draw.randrange(1, 253)))
        for _ in range(200)
    ]
    assert agree(circuit, [{"x": x, "y": y} for x, y in pairs]) == (len(pairs), 0)


@pytest.mark.parametrize("curve", CURVES)
def test_divisions_without_a_divisor(curve: str) -> None:
    """A quotient of 0 and 0 is 0, also within a chain of divisions; other quotients fail."""

    def circuit_of(system: System) -> None:
        x, y, z = (system.private(name) for name in "xyz")
        first = x / y
        second = (first + z) / (y + z)
        system.output("out", second / (x - z) + first * second)

    circuit = r1cs.trace(circuit_of, curve)
    cases = [{"x": x, "y": y, "z": z} for x in range(4) for y in range(4) for z in (0, -1, -2, 3)]
    witnesses, refusals = agree(circuit, cases)
    assert witnesses > 20
    assert refusals > 10


def test_repeated_blocks() -> None:
    """Hashes of three blocks: their calls follow one another, and shortcuts are not used."""

    def circuit_of(system: System) -> None:
        for index, bit in enumerate(sha256(system, system.private_bits("x", 1200))):
            system.output(f"out{index}", bit)

    circuit, draw = r1cs.trace(circuit_of), random.Random(1)
    assert agree(circuit, [{"x": draw.getrandbits(1200)} for _ in range(2)]) == (2, 0)


def test_large_numbers_in_streams() -> None:
    """Streams have units of 4 bytes if a number does not fit in 2."""

    def circuit_of(system: System) -> None:
        numbers = system.private("x", 66_000)
        system.output("out", system.multiply(system.sum(numbers, range(66_000)), numbers[0]))

    circuit = r1cs.trace(circuit_of)
    draw = random.Random(1)
    inputs = {"x": [draw.randrange(circuit.field.value) for _ in range(66_000)]}
    assert agree(circuit, [inputs]) == (1, 0)


def test_circuits_without_inputs_and_without_rows_to_check() -> None:
    circuit = r1cs.trace(lambda system: system.output("out", system.constant(5)))
    assert agree(circuit, [{}]) == (1, 0)
    circuit = r1cs.trace(lambda system: system.output("out", system.private("x") * 2))
    assert agree(circuit, [{"x": 7}, {"x": -1}]) == (2, 0)


def test_calculators_are_used_again(tmp_path: Path) -> None:
    circuit = r1cs.trace(lambda system: system.output("out", system.private("x") ** 5))
    circuit.write_wasm(tmp_path / "power.wasm")
    calculator = WitnessCalculator.open(tmp_path / "power.wasm")
    for x in range(5):
        expected = circuit.witness({"x": x}).values
        assert np.array_equal(calculator.witness({"x": x}).values, expected)
    assert (calculator.curve, calculator.variables, calculator.inputs) == ("bn254", 6, 1)


def test_messages_name_the_line_and_no_value() -> None:
    def circuit_of(system: System) -> None:
        x = system.private("x")
        with system.namespace("range"):
            system.bits(x, 8)
        system.assert_equal(system.multiply(x, x), 49)

    circuit = r1cs.trace(circuit_of)
    calculator = WitnessCalculator(circuit.wasm())
    first = circuit_of.__code__.co_firstlineno
    for x, line in ((123_456_789, first + 3), (77, first + 4)):
        with pytest.raises(CircuitError) as error:
            calculator.calculate({"x": x})
        assert error.value.lines == (("test_calculators.py", line),)
        assert str(x) not in str(error.value)
    with pytest.raises(InputError, match="takes 1 number, and 2 are given"):
        calculator.calculate({"x": [1, 2]})
    with pytest.raises(InputError, match='has no input "y"'):
        calculator.calculate({"x": 1, "y": 2})


def test_hints_in_python_are_refused() -> None:
    def halved(value: int) -> int:
        return value // 2

    line = halved.__code__.co_firstlineno
    circuit = r1cs.trace(lambda system: system.hint(halved, [system.private("x")]))
    message = rf"halved \(test_calculators.py:{line}\) is a Python function"
    with pytest.raises(InputError, match=message):
        circuit.wasm()


@pytest.mark.parametrize(
    ("function", "arguments", "count"),
    [
        (portable_hints.one_hot, ["x", 3, 4], 3), (portable_hints.one_hot, ["x", 4], 3),
        (portable_hints.one_hot, ["x", "x"], 3), (portable_hints.integer_root, ["x", 3], 1),
        (portable_hints.quotient_and_remainder, ["x", 3], 1), (portable_hints.bitwise_and, [], 1),
    ],
)  # fmt: skip
def test_portable_hints_with_other_numbers_are_refused(
    function: Any, arguments: list[Any], count: int
) -> None:
    def circuit_of(system: System) -> None:
        x = system.private("x")
        system.hint(function, [x if each == "x" else each for each in arguments], count)

    with pytest.raises(InputError, match=f"the hint {function.__name__} .* are declared"):
        r1cs.trace(circuit_of).wasm()


def test_hints_in_repeated_blocks() -> None:
    def block(system: System, x: Any, y: Any) -> Any:
        quotient, remainder = system.hint(portable_hints.quotient_and_remainder, [x * y, 7], 2)
        return choose_at(system, remainder, [x, y, quotient, 4, 5, 6, x + y])

    def circuit_of(system: System) -> None:
        value, other = system.private("x"), system.private("y")
        for _ in range(5):
            value, other = other, system.repeat(block, value, other)
        system.output("out", value * other)

    circuit, draw = r1cs.trace(circuit_of), random.Random(1)
    inputs = [{name: draw.randrange(1 << 50) for name in "xy"} for _ in range(20)]
    assert agree(circuit, inputs) == (20, 0)


def test_circuits_that_are_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    circuit = r1cs.trace(lambda system: system.output("out", system.private("x") ** 5))
    name = "quod.r1cs.calculator.circuit_module.MAX_BYTES"
    for limit in (64, 500):
        monkeypatch.setattr(name, limit)
        with pytest.raises(InputError, match="too large for a calculator"):
            calculator_module(circuit)

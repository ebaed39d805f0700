"""Compiled programs of witnesses against their steps on plain integers."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from quod import r1cs
from quod.errors import InputError
from quod.field.array import words_to_integers
from quod.r1cs.traced import Block
from quod.r1cs.witness_program.instructions import Op
from quod.r1cs.witness_program.lowering import lowered
from tests.r1cs.test_circuit import CURVE_NAMES, mixed
from tests.support.thorough import one_and_others


def random_circuit(seed: int) -> r1cs.Circuit:
    """Forty operations on what was made before, all kinds of them, over one of the curves."""
    chance = random.Random(seed)

    def function(system: r1cs.ConstraintSystem) -> None:
        signals = [*system.private("x", 3), *system.private_bits("b", 40), system.public("y")]

        def some() -> r1cs.Signal:
            signal = chance.choice(signals[-6:] if chance.random() < 0.7 else signals)
            return signal * chance.choice((1, 1, 2, 3, -1)) + chance.choice((0, 0, 1, 7))

        for _ in range(40):
            match chance.randrange(9):
                case 0 | 1:
                    signals.append(some() / (some() + some() + 5))
                case 2 | 3:
                    signals.append(some() * some())
                case 4:
                    signals.append(some() + some() - some())
                case 5:
                    signals.append(system.is_zero(some() - chance.choice((0, some()))))
                case 6:
                    signals.append(system.hint_bit(some(), chance.randrange(250)))
                case 7:
                    signals += system.hint(lambda a, b: (a ^ b, a >> 3), [some(), some()], 2)
                case 8:
                    wire = system.wire()
                    parts = [some(), some(), some()]
                    parts[chance.randrange(3)] += wire * chance.choice((1, -1, 3))
                    system.enforce(*parts)
                    signals.append(wire)
        for at, signal in enumerate(signals[-3:]):
            system.output(f"out{at}", signal)

    return r1cs.trace(function, CURVE_NAMES[seed % len(CURVE_NAMES)])


@pytest.mark.parametrize("seed", one_and_others(range(9), range(4)))
def test_programs_match_step_by_step_evaluation(seed: int) -> None:
    circuit, chance = random_circuit(seed), random.Random(seed)
    prime = circuit.field.value
    inputs = [
        {
            "x": [chance.choice((0, 1, prime - 1, chance.randrange(prime))) for _ in range(3)],
            "b": chance.getrandbits(40), "y": chance.randrange(prime),
        }
        for _ in range(11)
    ]  # fmt: skip
    expected = [circuit.values(values) for values in inputs]
    circuit.prepare()
    witnesses = circuit.witnesses(inputs, check=False)
    assert [words_to_integers(circuit.field, witness.values) for witness in witnesses] == expected
    alone = circuit.witness(inputs[4], check=False)
    assert words_to_integers(circuit.field, alone.values) == expected[4]
    wrong = list(expected[3])
    wrong[chance.randrange(1, len(wrong))] += 1
    prepared = [str(failure) for failure in circuit.check(wrong)]
    assert prepared == [str(failure) for failure in random_circuit(seed).check(wrong)]


@pytest.mark.parametrize("curve", one_and_others(CURVE_NAMES))
def test_many_witnesses_at_once(curve: str) -> None:
    circuit = r1cs.trace(mixed, curve)
    inputs = [{"x": at, "y": at % 5, "amounts": [at % 256, at * 7, at]} for at in range(21)]
    witnesses = circuit.witnesses(inputs)
    assert [words_to_integers(circuit.field, witness.values) for witness in witnesses] == [
        circuit.values(values) for values in inputs
    ]
    assert circuit.witnesses([]) == []
    with pytest.raises(r1cs.UnsatisfiedError, match=r"^inputs\[1\]: .*`bits`"):
        circuit.witnesses([inputs[0], {"x": 1, "y": 2, "amounts": [256, 0, 0]}])
    with pytest.raises(InputError, match=r"^inputs\[1\]: the input 'y' is missing"):
        circuit.witnesses([inputs[0], {"x": 1}])
    with pytest.raises(InputError, match=r"^the input 'y' is missing"):
        circuit.witnesses([{"x": 1}])


def test_quotient_chain_needs_one_inversion() -> None:
    def function(system: r1cs.ConstraintSystem) -> None:
        u, v = system.private("u"), system.private("v")
        for _ in range(60):
            u, v = (u + 2 * v) / (1 + u * v), (v - u) / (1 - u * v)
        system.output("out", u)

    circuit = r1cs.trace(function)
    program = lowered(Block(circuit.system, 0, None), circuit.system.steps)
    ops = program.instructions[:, 0].tolist()
    assert ops.count(Op.INVERT) == 1
    assert ops.count(Op.GUARD) == 120
    assert len(ops) < 40 * 120
    # Registers are used again.
    assert program.registers < len(ops) // 2
    circuit.prepare()
    inputs = {"u": 5, "v": 9}
    assert words_to_integers(circuit.field, circuit.witness(inputs).values) == circuit.values(
        inputs
    )


def test_division_by_zero_matches_step_by_step_evaluation() -> None:
    def function(system: r1cs.ConstraintSystem) -> None:
        x = system.private("x")
        quotient = (x + 1) / (x - 3)
        system.output("y", quotient * quotient + 1 / (quotient + 4))

    circuit = r1cs.trace(function)
    circuit.prepare()
    words = [witness.values for witness in circuit.witnesses([{"x": 3}, {"x": 4}], check=False)]
    for values, x in zip(words, (3, 4), strict=True):
        assert words_to_integers(circuit.field, values) == circuit.values({"x": x})
    with pytest.raises(r1cs.UnsatisfiedError, match=r": 0 \* 0 != 4$"):
        circuit.witness({"x": 3})
    assert np.array_equal(circuit.witness({"x": 4}).values, words[1])


def test_witnesses_one_by_one_reuse_their_launches() -> None:
    """Each result is a copy, after a division by 0 too, and threads have memory of their own."""

    def function(system: r1cs.ConstraintSystem) -> None:
        x = system.private("x")
        quotient = (x + 1) / (x - 3)
        for _ in range(20):
            quotient = quotient * quotient + 1 / (quotient + 4)
        system.output("y", quotient)

    circuit = r1cs.trace(function)
    circuit.prepare()
    numbers = [5, 3, 4, 5, *range(10, 40)]
    expected = [circuit.values({"x": x}) for x in numbers]
    singles = [circuit.witness({"x": x}, check=False).values for x in numbers]
    with ThreadPoolExecutor(4) as pool:
        threaded = list(pool.map(lambda x: circuit.witness({"x": x}, check=False).values, numbers))
    for values in (singles, threaded):
        assert [words_to_integers(circuit.field, words) for words in values] == expected

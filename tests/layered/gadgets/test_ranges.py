"""Ranges by bits and by limbs: exactly the numbers in range satisfy the constraints."""

from __future__ import annotations

import itertools

import pytest

from quod.errors import InputError, MismatchError
from quod.field import NAMED, Modulus
from quod.layered import Program
from quod.layered.gadgets import assert_range, limbs_of_number
from tests.layered.evaluation import finished, gates, holds, outputs

TOY = Modulus("toy", 17)
M31 = NAMED["m31"]


@pytest.mark.parametrize(
    ("count", "limb"), [(1, None), (3, None), (4, None), (1, 1), (3, 1), (3, 2), (4, 2), (2, 3)]
)
def test_only_numbers_in_range_satisfy_toy_field_constraints(count: int, limb: int | None) -> None:
    program = Program(TOY)
    assert_range(program, program.input("x"), count, limb=limb)
    layout = program.finished()
    for value in range(17):
        inputs = layout.inputs({"x": value}, check=False)
        # For all challenges, or not.
        holding = not any(any(outputs(layout.circuit, inputs, seed=c)) for c in range(17))
        assert holding == (value < 1 << count)
        if not holding:
            with pytest.raises(MismatchError, match="range/"):
                layout.inputs({"x": value})


def test_exactly_one_claimed_limb_decomposition_passes() -> None:
    """Limbs of two bits, of a number of three bits: the last one, which has one bit, is advice."""
    program = Program(TOY)
    low, high = limbs_of_number(program, program.input("x"), 3, 2)
    circuit = finished(program, [low, high]).circuit
    assert circuit.degree_in_randoms == 3 + 4 - 1
    for number, claimed in itertools.product(range(17), range(17)):
        looked = [(number - 4 * claimed) % 17, claimed, claimed * 2 % 17]
        counts = [looked.count(row) for row in range(4)]
        inputs = [number, claimed, *counts]
        inputs += [0] * ((1 << circuit.log_inputs) - len(inputs))
        public = looked[:2]
        holding = not any(any(outputs(circuit, inputs, public, seed=c)) for c in range(17))
        assert holding == (number < 8 and claimed == number >> 2)


@pytest.mark.parametrize(
    ("field", "count", "limb"),
    [
        (M31, 16, 8),
        (M31, 16, 5),
        (M31, 8, 8),
        (M31, 6, 8),
        (NAMED["goldilocks"], 31, 8),
        (Modulus("toy", 8191), 9, 8),
    ],
)
def test_limbs_of_numbers(field: Modulus, count: int, limb: int) -> None:
    """Also a single remaining bit of 9: shifted by 7 it would wrap around 2**13 - 1."""
    program = Program(field)
    limbs = limbs_of_number(program, program.input("x"), count, limb)
    layout = finished(program, limbs)
    for number in (0, 1, (1 << count) - 1, 0x5A5A5A5A & (1 << count) - 1):
        result = [number >> at & (1 << limb) - 1 for at in range(0, count, limb)]
        assert holds(layout, {"x": number, "result": result})
    wrong = {"x": 1 << count, "result": [0] * (len(limbs) - 1) + [1 << (count - 1) % limb + 1]}
    assert not holds(layout, wrong)
    assert not holds(layout, {"x": -1, "result": [0] * len(limbs)})


def test_all_ranges_share_one_table() -> None:
    program = Program(M31)
    for number, wire in enumerate(program.inputs("x", 100)):
        assert_range(program, wire, 16, f"range[{number}]", limb=8)
    circuit = program.finished().circuit
    # 100 numbers, a limb of each that is advice, 256 counts.
    assert circuit.log_inputs == 9
    assert circuit.degree_in_randoms == 200 + 256 - 1
    assert gates(circuit)["multiply"] == pytest.approx(3 * 256 + 2 * 200, abs=12)
    with pytest.raises(MismatchError, match=r"range\[7\]/limb\[0\]"):
        layout = program.finished()
        layout.inputs({"x": [1 << 16 if at == 7 else at for at in range(100)]})


def test_wrong_sizes_are_refused() -> None:
    program = Program(TOY)
    x = program.input("x")
    with pytest.raises(InputError, match="5 bits are not unique"):
        limbs_of_number(program, x, 5, 2)
    for limb in (0, 17, -1, "8"):
        with pytest.raises(InputError, match="bits of a limb"):
            limbs_of_number(program, x, 4, limb)  # type: ignore[arg-type]

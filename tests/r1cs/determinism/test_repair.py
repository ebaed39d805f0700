"""Repairs of witnesses: the nodes that follow from a changed one, in small systems."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from quod.errors import InputError
from quod.r1cs.determinism.normal_form import NormalForm
from quod.r1cs.determinism.propagation import Propagation
from quod.r1cs.determinism.report import counterexample
from quod.r1cs.determinism.rows import Combination, Rows, rows_of
from quod.r1cs.determinism.search.positional import decompositions, digits_of
from quod.r1cs.determinism.search.repair import Repair

PRIME = 10007
FOREVER = float("inf")


def bit(wire: int) -> tuple[Combination, Combination, Combination]:
    return {wire: 1}, {wire: 1, 0: -1}, {}


def repair_of(rows: Rows, values: Sequence[int]) -> Repair:
    """A repair that starts from a witness; the inputs determine as much as the rules derive."""
    assert not rows.failing(values)
    facts = Propagation(rows, NormalForm(rows))
    facts.run()
    repair = Repair(facts)
    repair.start(facts.form.values(values))
    return repair


def test_later_wires_follow() -> None:
    """y = x * h, z = y * y, z + h = t: a change of the hint h changes y, z and t, but not x."""
    constraints = [
        ({1: 1}, {2: 1}, {3: 1}),
        ({3: 1}, {3: 1}, {4: 1}),
        ({4: 1, 2: 1}, {0: 1}, {5: 1}),
    ]
    rows = rows_of(PRIME, 6, constraints, [1], [5])
    repair = repair_of(rows, [1, 3, 2, 6, 36, 38])
    assert repair.attempt(2, 5, FOREVER)
    assert repair.values[:6] == [1, 3, 5, 15, 225, 230]
    repair.undo()
    assert repair.values[:6] == [1, 3, 2, 6, 36, 38]


def test_carries_of_sums_that_share_a_constraint() -> None:
    """h + a = b + 2c and c + d = e + 2f in one constraint: a change of h ripples to f."""
    weights = {1: 1, 2: 1, 3: -1, 4: -2 + 16, 5: 16, 6: -16, 7: -32}
    constraints = [(weights, {0: 1}, {}), *(bit(wire) for wire in range(1, 8))]
    # Wire 8 keeps the inputs from determining the bits.
    rows = rows_of(PRIME, 9, constraints, [8], [7])
    repair = repair_of(rows, [1, 0, 1, 1, 0, 1, 1, 0, 0])
    assert repair.attempt(1, 1, FOREVER)
    assert repair.values[1:8] == [1, 1, 0, 1, 1, 0, 1]
    assert not rows.failing(repair.values[:9])


def test_bit_without_its_constraint_compensates() -> None:
    """x = a + 2b + 4c, and only a and c are bits: with another c, b is no bit."""
    constraints = [({2: 1, 3: 2, 4: 4}, {0: 1}, {1: 1}), bit(2), bit(4)]
    rows = rows_of(PRIME, 5, constraints, [1], [4])
    repair = repair_of(rows, [1, 3, 1, 1, 0])
    assert repair.attempt(4, 1, FOREVER)
    assert repair.values[:5] == [1, 3, 1, PRIME - 1, 1]


def test_number_plus_modulus() -> None:
    """Four bits over 11 elements: 2 is also 13, which has another top bit."""
    constraints = [({2: 1, 3: 2, 4: 4, 5: 8}, {0: 1}, {1: 1}), *(bit(wire) for wire in range(2, 6))]
    rows = rows_of(11, 6, constraints, [1], [2])
    repair = repair_of(rows, [1, 2, 0, 1, 0, 0])
    assert repair.attempt(5, 1, FOREVER)
    assert repair.values[:6] == [1, 2, 1, 0, 1, 1]


def test_attempt_without_a_repair() -> None:
    """A node does not leave its range, and constraints of determined nodes do not hold again."""
    constraints = [({2: 1, 3: 2}, {0: 1}, {1: 1}), bit(2), bit(3), ({4: 1}, {4: 1}, {1: 1})]
    rows = rows_of(PRIME, 5, constraints, [1], [4])
    repair = repair_of(rows, [1, 1, 1, 0, 1])
    assert not repair.attempt(4, 3, FOREVER)
    assert not repair.attempt(2, 2, FOREVER)
    assert repair.attempt(4, PRIME - 1, FOREVER)


def test_constraints_that_move_each_other_end() -> None:
    """y = 2x + 1 and x = 3y: each repair of a constraint breaks the other one."""
    constraints = [
        ({1: 2, 0: 1}, {3: 1}, {2: 1}),
        ({2: 3}, {3: 1}, {1: 1}),
        ({1: 1}, {2: 1}, {4: 1}),
    ]
    y = -pow(5, -1, PRIME) % PRIME
    rows = rows_of(PRIME, 5, constraints, [3], [4])
    repair = repair_of(rows, [1, 3 * y % PRIME, y, 1, 3 * y * y % PRIME])
    assert not repair.attempt(4, 5, FOREVER)
    repair.undo()
    assert not rows.failing(repair.values[:5])


@pytest.mark.parametrize("number", range(13))
def test_decompositions(number: int) -> None:
    """Digits with weights 1, -3 and 6: all values whose sum is congruent to a number."""
    digits = digits_of([(2, 1, (0, 2)), (3, 10, (-1, 0)), (4, 6, (0, 1))], 1, 13)
    solutions = [dict(values) for values in decompositions(digits, number, 13)]
    expected = [
        {2: a, 3: b, 4: c}
        for a in range(3)
        for b in (-1, 0)
        for c in range(2)
        if (a - 3 * b + 6 * c - number) % 13 == 0
    ]
    assert sorted(solutions, key=str) == sorted(expected, key=lambda each: str({**each}))


def test_weights_that_overlap_are_no_digits() -> None:
    assert digits_of([(1, 1, (0, 2)), (2, 2, (0, 1))], 1, 101) == []


def test_counterexample_from_a_witness() -> None:
    """The search keeps the inputs of the witness that it starts from; a false one is refused."""
    rows = rows_of(PRIME, 3, [({2: 1}, {2: 1}, {1: 1})], [1], [2])
    pair = counterexample(rows, witnesses=[[1, 4, 2]])
    assert pair is not None
    assert (list(pair.first), list(pair.second)) == ([1, 4, 2], [1, 4, PRIME - 2])
    assert counterexample(rows_of(PRIME, 3, [({2: 1}, {0: 1}, {1: 1})], [1], [2])) is None
    with pytest.raises(InputError, match="does not satisfy constraint 0"):
        counterexample(rows, witnesses=[[1, 4, 3]])

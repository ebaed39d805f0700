"""Repairs of witnesses: the nodes that follow from a changed one, in small systems."""

from __future__ import annotations

import random
from collections.abc import Sequence
from time import process_time

import numpy as np
import pytest

from quod.errors import InputError
from quod.field.moduli import NAMED
from quod.r1cs import ConstraintSystem, trace
from quod.r1cs.determinism.normal_form import NormalForm
from quod.r1cs.determinism.propagation import Propagation
from quod.r1cs.determinism.report import check, counterexample
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


def test_an_equation_without_wires_is_no_obstacle() -> None:
    """a and b are bits and 2a = 2b, which splits into the bits of a - b and an empty equation."""

    def equal_bits(system: ConstraintSystem) -> None:
        a, b = system.hint(lambda values: [0, 0], [system.private("x")], 2)
        for bit_ in (a, b):
            system.assert_equal(bit_ * (bit_ - 1), 0)
        system.assert_equal(2 * a, 2 * b)
        system.output("o", a)

    report = trace(equal_bits).check()
    assert [verdict.kind for verdict in report.verdicts] == ["ambiguous"]


def test_values_that_are_taken_for_bits_are_no_defect() -> None:
    prime = NAMED["bn254.fr"].value
    rows = rows_of(
        prime, 4,
        [
            ({2: 3, 1: 8, 0: 1}, {2: 3, 1: 8, 0: -6}, {}),
            ({2: 3, 3: 2, 0: -1}, {2: 3, 3: 2, 0: 2}, {}),
            ({0: 2}, {3: 1}, {1: 8, 2: -1}),
        ],
        [2], [1],
    )  # fmt: skip
    (verdict,) = check(rows).verdicts
    assert verdict.kind in {"ambiguous", "unknown"}


def test_values_of_a_pair_are_canonical() -> None:
    """x(x + 1) = 0 has the roots 0 and -1."""
    prime = NAMED["bn254.fr"].value
    report = check(rows_of(prime, 2, [({1: 1}, {1: 1, 0: 1}, {})], [], [1]), witness=[1, 0])
    (pair,) = report.pairs.values()
    assert {pair.first[1], pair.second[1]} == {0, prime - 1}


@pytest.mark.parametrize("value", [PRIME, PRIME + 5, -1, True, 1.0, np.uint32(1)])
def test_values_of_a_witness_must_be_canonical(value: object) -> None:
    rows = rows_of(PRIME, 2, [({1: 1}, {0: 1}, {1: 1})], [], [1])
    with pytest.raises(InputError, match="value 1 of the witness is no integer from 0 to p - 1"):
        check(rows, witness=[1, value])  # type: ignore[list-item]


def test_the_time_limit_interrupts_the_linear_part_of_a_core() -> None:
    """Dense equations of many wires, whose elimination takes many seconds."""
    rng, count, wires = random.Random(5), 250, 600
    constraints: list[tuple[Combination, Combination, Combination]] = [
        ({wire: rng.randrange(1, PRIME) for wire in range(1, wires)}, {0: 1}, {})
        for _ in range(count)
    ]
    begin = process_time()
    report = check(rows_of(PRIME, wires, constraints, [], [1]), seconds=0.5)
    assert process_time() - begin < 8
    assert [verdict.kind for verdict in report.verdicts] == ["unknown"]

"""Each constraint of each gadget removed: some output is ambiguous, or the row is redundant.

`python -m tools.determinism --removed` has all of them.
"""

from __future__ import annotations

import random

import pytest

from quod.r1cs.determinism.normal_form import NormalForm
from quod.r1cs.determinism.propagation import Propagation
from quod.r1cs.determinism.report import check
from quod.r1cs.determinism.rows import rows_of
from quod.r1cs.determinism.search.assignment import Assignment, Conflict
from tests.r1cs.determinism.all_gadgets import GADGETS, gadget_rows, gadget_witnesses
from tests.r1cs.determinism.removal import verdict_without, with_difference, without
from tools import determinism

SAMPLE = 3
"""The constraints of each gadget that are removed in `make test`."""
LARGE = ("EdwardsPoints.multiply", "merkle_root")
"""Gadgets whose search takes seconds for each constraint."""


@pytest.mark.parametrize(
    "name", [name for name in GADGETS if GADGETS[name].is_small and name not in LARGE]
)
def test_sampled_constraint_matters(name: str) -> None:
    rows = gadget_rows(name)
    count = rows.count - len(rows.targets)
    for row in random.Random(1).sample(range(count), min(SAMPLE, count)):
        assert verdict_without(rows, row) != "unknown", row


@pytest.mark.parametrize(
    ("name", "row"), [("EdwardsPoints.assert_not_small_order", 7), ("assert_less", 15)]
)
def test_search_finds_second_witness(name: str, row: int) -> None:
    """Inputs are coordinates of a point; or a digit without a range has few other values."""
    assert verdict_without(gadget_rows(name), row) == "ambiguous"


BITS = [({wire: 1}, {wire: 1, 0: -1}, {}) for wire in range(2, 7)]
"""Wires 2 to 6 are bits."""


def test_low_digits_follow_before_the_high_ones() -> None:
    """x + 4y = a + 2b + 4c + 8d of bits but x, for a later y: x determines a and b alone."""
    total = ({1: 1, 6: 4}, {0: 1}, {2: 1, 3: 2, 4: 4, 5: 8})
    rows = rows_of(101, 7, [*BITS, total], [1], [2])
    facts = Propagation(rows, NormalForm(rows))
    facts.run()
    assignment = Assignment(facts)
    assignment.extend([(0, 1), (1, 2)])
    assert assignment.values[2:6] == [0, 1, None, None]
    assignment.extend([(6, 1)])
    assert assignment.values[2:6] == [0, 1, 1, 0]
    assignment.undo((0, 0))
    with pytest.raises(Conflict):
        assignment.extend([(0, 1), (1, 50)])


def test_digits_of_several_equations_at_once() -> None:
    """x = a + 2b, x = b + 2a + c - 1 for bits: the second equation uses the digits of the first."""
    first = ({1: 1}, {0: 1}, {2: 1, 3: 2})
    second = ({1: 1}, {0: 1}, {3: 1, 2: 2, 4: 1, 0: -1})
    rows = rows_of(101, 7, [*BITS, first, second], [1], [2])
    facts = Propagation(rows, NormalForm(rows))
    facts.run()
    for x, digits in ((0, [0, 0, 1]), (1, [1, 0, 0]), (3, [1, 1, 1])):
        assignment = Assignment(facts)
        assignment.extend([(0, 1), (1, x)])
        assert assignment.values[2:5] == digits


def test_second_witness_of_packed_sums() -> None:
    """x + y = a + 2b and a + b * c = d + 2e share a constraint, and no other one has c."""
    shared = ({1: 1, 2: 1, 3: 4, 8: 4}, {0: 1}, {3: 1, 4: 2, 6: 4, 7: 8})
    product = ({4: 1}, {5: 1}, {8: 1})
    bits = [({wire: 1}, {wire: 1, 0: -1}, {}) for wire in (1, 2, 3, 4, 6, 7)]
    rows = rows_of(10007, 9, [*bits, shared, product], [1, 2], [6])
    (verdict,) = check(rows).verdicts
    assert verdict.kind == "ambiguous"


def test_table_of_removed_constraints(capsys: pytest.CaptureFixture[str]) -> None:
    determinism.main(["--removed", "is_zero", "exclusive_or"])
    lines = capsys.readouterr().out.splitlines()
    assert lines[2].startswith("| is_zero | 2 | 2 | 2 | 0 | 0 | 0 | ")
    assert lines[3].startswith("| exclusive_or | 3 | 3 | 1 | 0 | 2 | 0 | ")
    assert lines[-1] == (
        "5 removed: 3 ambiguous, 0 needed, 2 redundant, 0 unknown; decided 100.0 %"
    )


def test_systems_without_a_constraint() -> None:
    """x * y = z, x * x = 1, z + 2 = y with one of them removed, and with its difference."""
    constraints = [
        ({1: 1}, {2: 1}, {3: 1}),
        ({1: 1}, {1: 1}, {0: 1}),
        ({3: 1, 0: 2}, {0: 1}, {2: 1}),
    ]
    rows = rows_of(101, 4, constraints, [1], [3])
    for removed in range(3):
        smaller, larger = without(rows, removed), with_difference(rows, removed)
        expected = [each for index, each in enumerate(constraints) if index != removed]
        for index, (a, b, c) in enumerate(expected):
            assert [dict(zip(*smaller.side(side, index))) for side in range(3)] == [a, b, c]
        assert smaller.count == 2
        for index in range(3):
            a, b, c = constraints[index]
            with_wire = {**c, 4: 1} if index == removed else c
            assert [dict(zip(*larger.side(side, index))) for side in range(3)] == [a, b, with_wire]
        assert larger.targets == (4,)


def test_verdicts_without_a_constraint() -> None:
    """An assertion about a hint is ambiguous without it; a duplicate is redundant."""
    hint = ({1: 1}, {2: 1}, {0: 1})
    assertion = rows_of(101, 3, [hint], [1], [])
    assert verdict_without(assertion, 0) == "ambiguous"
    assert verdict_without(rows_of(101, 3, [hint, hint], [1], [2]), 1) == "redundant"
    assert verdict_without(rows_of(101, 3, [hint, hint], [1], []), 1) == "redundant"
    assert verdict_without(rows_of(101, 3, [hint], [1], [2]), 0) == "ambiguous"


def test_assertion_about_inputs_is_needed() -> None:
    """x * x = y without outputs: the inputs determine the difference, and may violate it."""
    square = ({1: 1}, {1: 1}, {2: 1})
    rows = rows_of(101, 3, [square, square], [1, 2], [])
    assert verdict_without(rows, 0, witnesses=[[1, 3, 9]]) == "redundant"
    assert verdict_without(rows_of(101, 3, [square], [1, 2], []), 0, 60.0, [[1, 3, 9]]) == "needed"


@pytest.mark.parametrize(
    ("name", "row"),
    [
        ("bits of the field", 32), ("bits of the field", 119), ("MontgomeryPoints.multiply", 48),
        ("MontgomeryPoints.multiply", 63),
    ],
)  # fmt: skip
def test_search_from_a_witness_finds_another_one(name: str, row: int) -> None:
    """A bit without its constraint, a product in a comparison, a double, and a sum of points."""
    rows = gadget_rows(name)
    witnesses = gadget_witnesses(name, 3)
    assert verdict_without(rows, row, witnesses=witnesses) == "ambiguous"
    assert all(not rows.failing(witness) for witness in witnesses)

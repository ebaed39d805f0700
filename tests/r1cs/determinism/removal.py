"""Systems without one of their constraints, and the verdicts about them."""

from __future__ import annotations

from collections.abc import Sequence

from quod.r1cs.determinism.report import (
    AMBIGUOUS,
    UNIQUE,
    UNKNOWN,
    check,
    counterexample,
)
from quod.r1cs.determinism.rows import Matrix, Rows

REDUNDANT = "redundant"
NEEDED = "needed"


def without(rows: Rows, removed: int) -> Rows:
    """A system without one of its constraints."""
    a, b, c = (_without(rows, matrix, removed) for matrix in range(3))
    return _copy(rows, (a, b, c), rows.wires, rows.targets)


def _without(rows: Rows, matrix: int, removed: int) -> Matrix:
    entries = rows.matrices[matrix]
    start, end = entries.ends[removed - 1] if removed else 0, entries.ends[removed]
    ends = [*entries.ends[:removed], *(each - end + start for each in entries.ends[removed + 1 :])]
    return Matrix(
        ends, [*entries.wires[:start], *entries.wires[end:]],
        [*entries.coefficients[:start], *entries.coefficients[end:]],
    )  # fmt: skip


def with_difference(rows: Rows, row: int) -> Rows:
    """A system in which a constraint defines the difference of its sides, a wire and the target."""
    a, b, c = rows.matrices
    end = c.ends[row]
    matrix = Matrix(
        [*c.ends[:row], *(each + 1 for each in c.ends[row:])],
        [*c.wires[:end], rows.wires, *c.wires[end:]],
        [*c.coefficients[:end], 1, *c.coefficients[end:]],
    )
    return _copy(rows, (a, b, matrix), rows.wires + 1, [rows.wires])


def _copy(
    rows: Rows, matrices: tuple[Matrix, Matrix, Matrix], wires: int, targets: Sequence[int],
    inputs: frozenset[int] | None = None,
) -> Rows:  # fmt: skip
    return Rows(
        rows.prime, wires, matrices, rows.inputs if inputs is None else inputs, tuple(targets),
        lambda wire: rows.name(wire) if wire < rows.wires else "difference", rows.place,
        public=rows.public,
    )  # fmt: skip


def with_free_inputs(rows: Rows) -> Rows:
    """A system without inputs: two witnesses need not have any equal values."""
    return _copy(rows, rows.matrices, rows.wires, rows.targets, frozenset())


def verdict_without(
    rows: Rows, row: int, seconds: float = 60.0, witnesses: Sequence[Sequence[int]] = ()
) -> str:  # fmt: skip
    """The verdict about a system without a constraint.

    ambiguous: an output has two values for equal inputs; or there are no outputs, and the
        difference of the constraint's sides has.
    needed: there are no outputs, and a witness of the other constraints violates this one.
    redundant: the inputs determine the outputs, or that difference.
    witnesses: of the system, from which searches start.
    """
    smaller = without(rows, row)
    if rows.targets and witnesses:
        if counterexample(smaller, witnesses=witnesses, seconds=seconds) is not None:
            return AMBIGUOUS
    kinds = {verdict.kind for verdict in check(smaller, seconds=seconds).verdicts}
    if AMBIGUOUS in kinds:
        return AMBIGUOUS
    if kinds == {UNIQUE}:
        return REDUNDANT
    # The difference is 0 in a witness of the whole system.
    larger = with_difference(rows, row)
    extended = [[*witness, 0] for witness in witnesses]
    (verdict,) = check(
        larger, seconds=seconds, witness=extended[0] if extended else None
    ).verdicts  # fmt: skip
    if not kinds and verdict.kind != AMBIGUOUS and extended:
        free = with_free_inputs(larger)
        if counterexample(free, witnesses=extended, seconds=seconds) is not None:
            return NEEDED
    if verdict.kind == UNIQUE:
        # It is 0 for all inputs of the gadget, as if the constraint were there.
        return REDUNDANT
    return UNKNOWN if kinds else verdict.kind

"""Cases: the values of a wire for all combinations of values of the other wires of a row."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import product as cartesian

from quod.r1cs.determinism.arithmetic import Range, centred, inverse, quadratic_roots
from quod.r1cs.determinism.rows import Rows
from quod.r1cs.determinism.rules import Terms

MAX_CASE_WIRES = 4
MAX_CASES = 64
"""The number of combinations, and the greatest width of the derived range."""


Sources = tuple[tuple[int, int | Terms], ...]
"""Constraints with multipliers, as of `Step`."""


def case_range(
    rows: Rows, row: int, wire: int, ranges: list[Range | None], other_rows: Iterable[int]
) -> tuple[Range, Sources] | None:
    """Return the range of a wire in a row for all values of the other wires, with its sources.

    other_rows: rows of which one may define another wire of the row as a product of its wires, if
        the row has a wire too many. The majority of three bits has such rows.
    """
    wires = rows.wires_of(row)
    if len(wires) <= MAX_CASE_WIRES:
        values = _case_values(rows, row, wire, wires - {wire}, ranges)
        return _range(values, ((row, 1),), rows.prime)
    for other in other_rows:
        target = _product_wire(rows, other)
        others = wires - {wire, target}
        if target in wires - {wire} and rows.wires_of(other) - {target} <= others:
            multiplier = _coefficient(rows, row, target)
            if multiplier is not None:
                scale = inverse(rows.side(2, other)[1][0], rows.prime)
                scaled = tuple((m, k * scale % rows.prime) for m, k in multiplier)
                values = _case_values(rows, row, wire, others, ranges, other)
                return _range(values, ((row, 1), (other, scaled)), rows.prime)
    return None


def _range(
    values: set[int] | None, sources: Sources, prime: int
) -> tuple[Range, Sources] | None:  # fmt: skip
    bounds = hull(values, prime) if values else None
    return (bounds, sources) if bounds and bounds[1] - bounds[0] <= MAX_CASES else None


def _product_wire(rows: Rows, row: int) -> int:
    """Return the wire that is C of a row, alone and not in A or B; 0 if there is none."""
    wires, coefficients = rows.side(2, row)
    if len(wires) != 1 or not coefficients[0] % rows.prime:
        return 0
    is_factor = wires[0] in (*rows.side(0, row)[0], *rows.side(1, row)[0])
    return 0 if is_factor else wires[0]


def _coefficient(rows: Rows, row: int, wire: int) -> Terms | None:
    """Return the coefficient of a wire in a·b - c, a polynomial; None if a and b contain it."""
    a, b, c = (_side_terms(rows, matrix, row) for matrix in range(3))
    if (wire,) in a and (wire,) in b:
        return None
    factor, other = (a.get((wire,), 0), b) if (wire,) in a else (b.get((wire,), 0), a)
    terms: dict[tuple[int, ...], int] = {m: k * factor for m, k in other.items()}
    terms[()] = terms.get((), 0) - c.get((wire,), 0)
    return tuple((m, k % rows.prime) for m, k in terms.items() if k % rows.prime)


def _side_terms(rows: Rows, matrix: int, row: int) -> dict[tuple[int, ...], int]:
    """Return a side of a row as coefficients by monomial."""
    terms: dict[tuple[int, ...], int] = {}
    for wire, k in zip(*rows.side(matrix, row)):
        monomial = (wire,) if wire else ()
        terms[monomial] = terms.get(monomial, 0) + k
    return terms


def _case_values(
    rows: Rows, row: int, wire: int, others: Iterable[int], ranges: list[Range | None],
    product_row: int | None = None,
) -> set[int] | None:  # fmt: skip
    """Return the values of a wire in a row for all combinations of values of the other wires.

    product_row: a row of which C is a further wire, a product of other wires.
    None if the combinations are too many, or if the wire may have any value for one of them.
    """
    values: set[int] = set()
    for assignment in _assignments(others, ranges):
        if assignment is None:
            return None
        if product_row is not None:
            a, b = (
                sum(assignment[each] * k for each, k in zip(*rows.side(matrix, product_row)))
                for matrix in range(2)
            )
            (target,), (k,) = rows.side(2, product_row)
            assignment[target] = a * b * inverse(k, rows.prime) % rows.prime
        roots = quadratic_roots(*coefficients_of_wire(rows, row, wire, assignment), rows.prime)
        if roots is None:
            return None
        values.update(roots)
    return values


def _assignments(
    wires: Iterable[int], ranges: list[Range | None]
) -> Iterator[dict[int, int] | None]:  # fmt: skip
    """Yield all combinations of values of wires; None if they are too many."""
    numbers, count = [], 1
    for wire in sorted(wires):
        bounds = ranges[wire]
        assert bounds is not None
        count *= bounds[1] - bounds[0] + 1
        if count > MAX_CASES:
            yield None
            return
        numbers.append([(wire, value) for value in range(bounds[0], bounds[1] + 1)])
    for choice in cartesian(*numbers):
        yield {0: 1, **dict(choice)}


def hull(values: Iterable[int], prime: int) -> Range | None:
    """Return the range from the least to the greatest centred value; None if it has all values."""
    signed = [centred(value, prime) for value in values]
    low, high = min(signed), max(signed)
    return (low, high) if high - low < prime - 1 else None


def coefficients_of_wire(
    rows: Rows, row: int, wire: int, values: Mapping[int, int]
) -> tuple[int, int, int]:  # fmt: skip
    """Return the coefficients, from the square on, of a·b - c in a wire for values of the others.

    values: by wire; that of the wire itself does not matter.
    """
    (ka, ca), (kb, cb), (kc, cc) = (
        (
            sum(k for each, k in zip(*side) if each == wire),
            sum(values[each] * k for each, k in zip(*side) if each != wire),
        )
        for side in (rows.side(matrix, row) for matrix in range(3))
    )
    return ka * kb, ka * cb + kb * ca - kc, ca * cb - cc

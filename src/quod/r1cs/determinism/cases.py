"""Cases: the values of a wire for all combinations of values of the other wires of a row."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import product as cartesian

from quod.r1cs.determinism.arithmetic import Range, centred, quadratic_roots
from quod.r1cs.determinism.rows import Rows

MAX_CASE_WIRES = 4
MAX_CASES = 64
"""The number of combinations, and the greatest width of the derived range."""


def case_values(
    rows: Rows, row: int, wire: int, ranges: list[Range | None]
) -> set[int] | None:  # fmt: skip
    """Return the values of a wire in a row for all combinations of values of the other wires.

    None if the combinations are too many, or if the wire may have any value for one of them.
    """
    prime, others, count = rows.prime, [], 1
    for other in sorted(rows.wires_of(row) - {wire}):
        bounds = ranges[other]
        assert bounds is not None
        count *= bounds[1] - bounds[0] + 1
        if count > MAX_CASES:
            return None
        others.append((other, range(bounds[0], bounds[1] + 1)))
    values: set[int] = set()
    for choice in cartesian(*[numbers for _, numbers in others]):
        assignment = {0: 1, **{other: value for (other, _), value in zip(others, choice)}}
        roots = quadratic_roots(*coefficients_of_wire(rows, row, wire, assignment), prime)
        if roots is None:
            return None
        values.update(roots)
    return values


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

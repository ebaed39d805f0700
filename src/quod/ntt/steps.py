"""Butterflies over a few rows in registers, and the steps of a pass.

Ascending steps are decimation in time (Cooley and Tukey, 1965): ``a + T*b, a - T*b`` over pairs
whose distance doubles from level to level. Descending steps are decimation in frequency (Gentleman
and Sande, 1966): ``a + b, (a - b)*T``, while the distance halves. With the inverse twiddles they
undo the ascending ones, up to the factor 2 per level.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from quod.field.element import Element
    from quod.field.prime import PrimeField

Direction = Literal["ascending", "descending"]

# The twiddle of level u and position p within a step; None stands for 1.
Twiddle = Callable[[int, int], "Element | None"]

STEP_LEVELS = 3
"""The maximum number of levels of a step, which then holds eight rows in registers."""


def butterflies(
    f: PrimeField, direction: Direction, rows: list[Element], twiddle: Twiddle, levels: int
) -> list[Element]:
    """Compute the butterflies of `levels` levels over 2**levels rows."""
    rows = list(rows)
    order = range(levels) if direction == "ascending" else reversed(range(levels))
    for level in order:
        half = 1 << level
        lows = [low for low in range(1 << levels) if not low & half]
        factors = [twiddle(level, low & (half - 1)) for low in lows]
        if direction == "ascending":
            _multiply(f, rows, [low + half for low in lows], factors)
        for low in lows:
            a, b = rows[low], rows[low + half]
            rows[low], rows[low + half] = a + b, a - b
        if direction == "descending":
            _multiply(f, rows, [low + half for low in lows], factors)
    return rows


def _multiply(
    f: PrimeField, rows: list[Element], indices: list[int], factors: list[Element | None]
) -> None:
    """Multiply rows by their factors in one batch; None stands for 1."""
    pairs = [
        (index, factor)
        for index, factor in zip(indices, factors, strict=True)
        if factor is not None
    ]
    products = f.multiply_many([(rows[index], factor) for index, factor in pairs])
    for (index, _), product in zip(pairs, products, strict=True):
        rows[index] = product


def twiddles_of_step(levels: int) -> list[tuple[int, int]]:
    """Return the (level, position) of all twiddles of a step of `levels` levels."""
    return [(level, position) for level in range(levels) for position in range(1 << level)]


def steps_of(log_rows: int, most: int = STEP_LEVELS) -> list[tuple[int, int]]:
    """Return (first level, levels) of each step of a pass, ascending; the highest may be short.

    A short step costs the fewest products if it is the highest one.
    """
    return [(first, min(most, log_rows - first)) for first in range(0, log_rows, most)]


def records_before(level: int) -> int:
    """Count the rows of twiddles of the steps below a level: 2**(first level) per step."""
    return sum(1 << start for start, _ in steps_of(level))

"""Butterflies over a few rows in registers, and the steps of a pass.

Ascending steps are decimation in time (Cooley and Tukey, 1965): ``a + T*b, a - T*b`` over pairs
whose distance doubles from level to level. Descending steps are decimation in frequency (Gentleman
and Sande, 1966): ``a + b, (a - b)*T``, the distance halving; with the inverse twiddles they undo
the ascending ones, up to the factor 2 a level.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from quod.field.element import Element
from quod.field.prime import PrimeField

Direction = Literal["ascending", "descending"]

# The twiddle of level u and position p within a step; None stands for 1.
Twiddle = Callable[[int, int], Element | None]

STEP_LEVELS = 3
"""The most levels of a step, which holds eight rows in registers."""


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
    f: PrimeField, rows: list[Element], places: list[int], factors: list[Element | None]
) -> None:
    """Multiply rows by their factors in one batch; None stands for 1."""
    pairs = [
        (place, factor) for place, factor in zip(places, factors, strict=True) if factor is not None
    ]
    products = f.multiply_many([(rows[place], factor) for place, factor in pairs])
    for (place, _), product in zip(pairs, products, strict=True):
        rows[place] = product


def twiddles_of_step(levels: int) -> list[tuple[int, int]]:
    """Return the (level, position) of all twiddles of a step of `levels` levels."""
    return [(level, position) for level in range(levels) for position in range(1 << level)]


def steps_of(log_rows: int, most: int = STEP_LEVELS) -> list[tuple[int, int]]:
    """Return (first level, levels) of each step of a pass, ascending; the highest may be short.

    A short step costs the fewest products at the top.
    """
    return [(first, min(most, log_rows - first)) for first in range(0, log_rows, most)]


def records_before(level: int) -> int:
    """Count the rows of twiddles of the steps below a level; a step has 2**(first level)."""
    return sum(1 << start for start, _ in steps_of(level))

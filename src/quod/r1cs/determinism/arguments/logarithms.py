"""Discrete logarithms of the points of tables in a circuit."""

from __future__ import annotations

from collections.abc import Sequence

from quod.r1cs.determinism.arithmetic import Multiples

_MAX_FACTOR = 16
"""The odd part of the factor that yields a point of a table."""


class Logarithms:
    """The factors that yield points from a point: small numbers times powers of 2."""

    def __init__(self, multiples: Multiples, *factors: int) -> None:
        """Start with further factors."""
        self._multiples = multiples
        self._factors = {point[0]: abs(k) for k in factors if (point := multiples[k]) is not None}
        self._levels = 0

    def of(self, points: Sequence[tuple[int, int]], levels: int | None = None) -> list[int] | None:
        """Return the factors of points, or None if one has no factor.

        levels: a bound of the exponent of the power of 2.
        """
        multiples, factors = self._multiples, self._factors
        levels = multiples.order.bit_length() if levels is None else levels
        while any(x not in factors for x, _ in points):
            if self._levels >= levels:
                return None
            for odd in range(1, _MAX_FACTOR, 2):
                factor = odd << self._levels
                if factor < multiples.order and (point := multiples[factor]) is not None:
                    factors.setdefault(point[0], factor)
            self._levels += 1
        return [k if multiples[k := factors[x]] == (x, y) else -k for x, y in points]

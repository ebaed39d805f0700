"""Discrete logarithms of the points of tables in a circuit."""

from __future__ import annotations

from collections.abc import Sequence

from quod.r1cs.determinism.arithmetic import Subgroup

_MAX_ODD = 16
"""The odd part of the scalar that yields a point of a table."""


class Logarithms:
    """The scalars of points of a subgroup: small numbers times powers of 2."""

    def __init__(self, group: Subgroup, *scalars: int) -> None:
        """Start with the points of some scalars."""
        self._group = group
        self._scalars = {point[0]: abs(k) for k in scalars if (point := group[k]) is not None}
        self._levels = 0

    def of(self, points: Sequence[tuple[int, int]], levels: int | None = None) -> list[int] | None:
        """Return the scalars of points, or None if the scalar of one is not among them.

        levels: a bound of the exponent of the power of 2.
        """
        group, scalars = self._group, self._scalars
        levels = group.order.bit_length() if levels is None else levels
        while any(x not in scalars for x, _ in points):
            if self._levels >= levels:
                return None
            for odd in range(1, _MAX_ODD, 2):
                scalar = odd << self._levels
                if scalar < group.order and (point := group[scalar]) is not None:
                    scalars.setdefault(point[0], scalar)
            self._levels += 1
        return [k if group[k := scalars[x]] == (x, y) else -k for x, y in points]

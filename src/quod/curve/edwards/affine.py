"""Single points of twisted Edwards curves as plain integers: the group law, multiples, sums.

Points are pairs (x, y), the neutral element is (0, 1). The addition law is complete (see
`EdwardsCurve`), so every function is right for all points of the curve, whatever their order.
Nothing here runs in constant time. For arrays of points use `quod.curve.edwards.operations`.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

from quod.curve.edwards.curve import EdwardsCurve
from quod.errors import InputError
from quod.frozen import frozen
from quod.validation import whole_number

EdwardsPair = tuple[int, int]

_Extended = tuple[int, int, int, int]
"""X, Y, Z, T with x = X/Z, y = Y/Z and T = XY/Z: Hisil, Wong, Carter, Dawson (ASIACRYPT 2008)."""

_NEUTRAL: _Extended = (0, 1, 1, 0)
_WINDOW = 4


@frozen
class EdwardsGroup:
    """The group of points of a curve; `edwards_group` returns it."""

    curve: EdwardsCurve

    def contains(self, point: EdwardsPair) -> bool:
        """Return whether coordinates are below q and the point is on the curve."""
        q = self.curve.fq.value
        return all(0 <= part < q for part in point) and self.curve.contains(point)

    def add(self, left: EdwardsPair, right: EdwardsPair) -> EdwardsPair:
        """left + right."""
        q = self.curve.fq.value
        (x1, y1), (x2, y2) = left, right
        cross = self.curve.d * x1 * x2 % q * y1 * y2 % q
        inverse = pow((1 + cross) * (1 - cross), -1, q)
        x = (x1 * y2 + y1 * x2) * (1 - cross) * inverse % q
        return x, (y1 * y2 - self.curve.a * x1 * x2) * (1 + cross) * inverse % q

    def double(self, point: EdwardsPair) -> EdwardsPair:
        """2 * point."""
        return self.add(point, point)

    def negate(self, point: EdwardsPair) -> EdwardsPair:
        """-point."""
        return -point[0] % self.curve.fq.value, point[1]

    def multiply(self, scalar: int, point: EdwardsPair) -> EdwardsPair:
        """Return scalar * point; the integer is not reduced, so the point may have any order."""
        if scalar < 0:
            scalar, point = -scalar, self.negate(point)
        extended_point = self._extended(point)
        multiples = [_NEUTRAL]
        for _ in range((1 << _WINDOW) - 1):
            multiples.append(self._sum(multiples[-1], extended_point))
        result = _NEUTRAL
        for digit in reversed(_digits(scalar, _WINDOW)):
            for _ in range(_WINDOW):
                result = self._doubled(result)
            result = self._sum(result, multiples[digit])
        return self._affine(result)

    def multiply_fixed(self, scalar: int, point: EdwardsPair) -> EdwardsPair:
        """Return scalar * point for a point used often, such as a generator; caches its table."""
        if not 0 <= scalar < 1 << self.curve.fq.bits:
            return self.multiply(scalar, point)
        table = _multiples(self, point)
        return self.sum(
            row[digit] for row, digit in zip(table, _digits(scalar, _WINDOW), strict=False) if digit
        )

    def sum(self, points: Iterable[EdwardsPair]) -> EdwardsPair:
        """Return the sum of points, the neutral element if there are none; costs one inversion."""
        result = _NEUTRAL
        for point in points:
            result = self._sum(result, self._extended(point))
        return self._affine(result)

    def has_small_order(self, point: EdwardsPair) -> bool:
        """Return whether the order of a point divides the cofactor."""
        # Without an inversion, and without the table of `multiply`.
        base, q = self._extended(point), self.curve.fq.value
        result = _NEUTRAL
        for bit in bin(self.curve.cofactor)[2:]:
            result = self._doubled(result)
            if bit == "1":
                result = self._sum(result, base)
        x, y, z, _ = result
        return (x % q, (y - z) % q) == (0, 0)

    def in_subgroup(self, point: EdwardsPair) -> bool:
        """Test whether a point of the curve is in the subgroup of prime order, or neutral."""
        return self.multiply(self.curve.fr.value, point) == (0, 1)

    def add_montgomery(self, left: EdwardsPair, right: EdwardsPair) -> EdwardsPair:
        """Return the sum of points (u, v) of the Montgomery form.

        Raises InputError for points with equal u, to which the chord formula does not apply.
        """
        q, form = self.curve.fq.value, self.curve.montgomery
        (u1, v1), (u2, v2) = left, right
        if (u1 - u2) % q == 0:
            raise InputError(
                f"{self.curve.name}: the two points have the same u; use double_montgomery for "
                "equal points"
            )
        slope = (v2 - v1) * pow(u2 - u1, -1, q) % q
        u = (form.b * slope * slope - form.a - u1 - u2) % q
        return u, (slope * (u1 - u) - v1) % q

    def double_montgomery(self, point: EdwardsPair) -> EdwardsPair:
        """Return 2 * (u, v) on the Montgomery form; raises InputError for a point of order two."""
        q, form = self.curve.fq.value, self.curve.montgomery
        u1, v1 = point
        if v1 % q == 0:
            raise InputError(
                f"{self.curve.name}: the point has v = 0, so its double is infinity, which the "
                "Montgomery form does not represent"
            )
        slope = (3 * u1 * u1 + 2 * form.a * u1 + 1) * pow(2 * form.b * v1, -1, q) % q
        u = (form.b * slope * slope - form.a - 2 * u1) % q
        return u, (slope * (u1 - u) - v1) % q

    def _extended(self, point: EdwardsPair) -> _Extended:
        x, y = point
        return x, y, 1, x * y % self.curve.fq.value

    def _affine(self, point: _Extended) -> EdwardsPair:
        q = self.curve.fq.value
        inverse = pow(point[2], -1, q)
        return point[0] * inverse % q, point[1] * inverse % q

    def _sum(self, left: _Extended, right: _Extended) -> _Extended:
        """Return left + right by add-2008-hwcd of the Explicit-Formulas Database."""
        q = self.curve.fq.value
        (x1, y1, z1, t1), (x2, y2, z2, t2) = left, right
        a, b = x1 * x2 % q, y1 * y2 % q
        c, d = t1 * t2 % q * self.curve.d % q, z1 * z2 % q
        e = (x1 + y1) * (x2 + y2) - a - b
        return self._completed(e, d - c, d + c, b - self.curve.a * a)

    def _doubled(self, point: _Extended) -> _Extended:
        """Return 2 * point by dbl-2008-hwcd."""
        x, y, z, _ = point
        a, b = x * x, y * y
        e, scaled = (x + y) * (x + y) - a - b, self.curve.a * a
        g = scaled + b
        return self._completed(e, g - 2 * z * z, g, scaled - b)

    def _completed(self, e: int, f: int, g: int, h: int) -> _Extended:
        q = self.curve.fq.value
        e, f, g, h = e % q, f % q, g % q, h % q
        return e * f % q, g * h % q, f * g % q, e * h % q


def _digits(scalar: int, bits: int) -> list[int]:
    mask = (1 << bits) - 1
    return [scalar >> position & mask for position in range(0, scalar.bit_length(), bits)]


@cache
def _multiples(group: EdwardsGroup, point: EdwardsPair) -> list[list[EdwardsPair]]:
    """Return a table of multiples: row i has digit * 16**i * point at index digit, 0 to 15."""
    rows = []
    for _ in range(0, group.curve.fq.bits, _WINDOW):
        row = [(0, 1)]
        for _ in range((1 << _WINDOW) - 1):
            row.append(group.add(row[-1], point))
        rows.append(row)
        point = group.add(row[-1], point)
    return rows


@cache
def _group(curve: EdwardsCurve) -> EdwardsGroup:
    return EdwardsGroup(curve)


def edwards_group(curve: EdwardsCurve) -> EdwardsGroup:
    """Return the group of points of a curve such as ``EDWARDS["jubjub"]``."""
    return _group(curve)


def edwards_pair(name: str, curve: EdwardsCurve, value: object) -> EdwardsPair:
    """Return a caller's point; raises InputError unless it is on the curve, with coordinates < q.

    name: how the message names the point.
    """
    group = edwards_group(curve)
    if not isinstance(value, tuple) or len(value) != 2:
        raise InputError(f"{name} must be a point (x, y) of {curve.name}")
    x, y = (whole_number(f"a coordinate of {name}", part, 0, curve.fq.value - 1) for part in value)
    if not group.contains((x, y)):
        raise InputError(f"{name} is not on {curve.name}")
    return x, y

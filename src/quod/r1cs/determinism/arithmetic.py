"""Arithmetic modulo a prime: roots, ranges of residues, polynomials, subgroups.

A range (low, high) of two integers contains a residue if it is that of an integer between them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from math import prod
from typing import Self

from quod.curve.coordinates import FqCoordinates
from quod.field.primality import is_prime

Range = tuple[int, int]
Polynomial = dict[tuple[int, ...], int]
"""Coefficients by monomial: the nodes of the monomial in ascending order."""
Point = tuple[int, int] | None
"""A point of a Montgomery curve; None is the point at infinity."""


def centred(number: int, prime: int) -> int:
    """Return the representative of a residue between -prime/2 and prime/2."""
    number %= prime
    return number - prime if number > prime >> 1 else number


def contains(bounds: Range, value: int, prime: int) -> bool:
    """Return whether a range contains the residue of a value."""
    low, high = bounds
    return (value - low) % prime <= high - low


def narrowed(bounds: Range | None, derived: Range, prime: int) -> Range:
    """Return the residues of both ranges as a range, or the smaller range if they are not one.

    Disjoint ranges, which only contradictory constraints have, leave the first as it is.
    """
    if bounds is None:
        return derived
    overlaps = []
    for shift in (-prime, 0, prime):
        low, high = max(bounds[0], derived[0] + shift), min(bounds[1], derived[1] + shift)
        if low <= high:
            overlaps.append((low, high))
    if len(overlaps) == 1:
        return overlaps[0]
    smaller = derived[1] - derived[0] < bounds[1] - bounds[0]
    return derived if smaller and overlaps else bounds


@lru_cache(maxsize=1 << 14)
def inverse(number: int, prime: int) -> int:
    """Return the inverse of a residue; circuits have few different coefficients."""
    return pow(number, -1, prime)


def quadratic_roots(a: int, b: int, c: int, prime: int) -> list[int] | None:
    """Return the distinct roots of a·x² + b·x + c; None if every residue is a root."""
    roots = _roots(a % prime, b % prime, c % prime, prime)
    return None if roots is None else list(roots)


@lru_cache(maxsize=1 << 12)
def _roots(a: int, b: int, c: int, prime: int) -> tuple[int, ...] | None:
    if not a:
        if not b:
            return () if c else None
        return (-c * inverse(b, prime) % prime,)
    if prime == 2:
        return tuple(x for x in (0, 1) if not (a * x + b * x + c) % 2)
    root = _field(prime).square_root((b * b - 4 * a * c) % prime)
    if root is None:
        return ()
    half = inverse(2 * a % prime, prime)
    return tuple(dict.fromkeys([(-b + root) * half % prime, (-b - root) * half % prime]))


@lru_cache(maxsize=16)
def _field(prime: int) -> FqCoordinates:
    return FqCoordinates(prime)


class IntegerPolynomial(dict[tuple[int, ...], int]):
    """A `Polynomial` with arithmetic; `+=` and `-=` change it."""

    @classmethod
    def of(cls, terms: Iterable[tuple[tuple[int, ...], int]]) -> Self:
        """Return the sum of terms."""
        total = cls()
        for monomial, k in terms:
            total[monomial] = total.get(monomial, 0) + k
        return total

    def __iadd__(self, other: Polynomial) -> Self:
        if not self:
            self.update(other)
            return self
        for monomial, k in other.items():
            self[monomial] = self.get(monomial, 0) + k
        return self

    def __isub__(self, other: Polynomial) -> Self:
        for monomial, k in other.items():
            self[monomial] = self.get(monomial, 0) - k
        return self

    def __add__(self, other: Polynomial) -> IntegerPolynomial:
        return IntegerPolynomial.of((*self.items(), *other.items()))

    def __sub__(self, other: Polynomial) -> IntegerPolynomial:
        total = IntegerPolynomial(self)
        total -= other
        return total

    def __mul__(self, other: Polynomial) -> IntegerPolynomial:
        if len(self) == 1 and () in self:
            return IntegerPolynomial({monomial: k * self[()] for monomial, k in other.items()})
        if len(other) == 1 and () in other:
            factor = other[()]
            if factor == 1:
                return IntegerPolynomial(self)
            return IntegerPolynomial({monomial: k * factor for monomial, k in self.items()})
        result = IntegerPolynomial()
        for first, k in self.items():
            for second, m in other.items():
                monomial = tuple(sorted(first + second))
                result[monomial] = result.get(monomial, 0) + k * m
        return result

    def at(self, values: Mapping[int, int]) -> IntegerPolynomial:
        """Replace nodes by values."""
        result = IntegerPolynomial()
        for m, k in self.items() if values else ():
            monomial = tuple([node for node in m if node not in values])
            value = k * prod([values[node] for node in m if node in values])
            result[monomial] = result.get(monomial, 0) + value
        return result if values else IntegerPolynomial(self)


class Subgroup:
    """The points k·G for a generator G of odd prime order r on B·y² = x³ + A·x² + x.

    Raises ValueError unless the curve is not singular, G on it and r a prime with r·G = infinity.
    """

    def __init__(self, prime: int, a: int, b: int, x: int, y: int, order: int) -> None:
        self.prime, self.a, self.b, self.order = prime, a, b, order
        self._points: dict[int, Point] = {0: None, 1: (x % prime, y % prime)}
        is_regular = prime > 2 and b * (a * a - 4) % prime != 0
        # By Hasse's bound no order exceeds p + 1 + 2·sqrt(p).
        if not (is_regular and 2 < order < 4 * prime and is_prime(order)):
            raise ValueError("the curve is singular, or the order no odd prime")
        if (b * y * y - x * (x * x + a * x + 1)) % prime or self[order] is not None:
            raise ValueError("the point is not on the curve, or has another order")

    def __getitem__(self, k: int) -> Point:
        """Return k·G; raises ValueError for |k| > r."""
        if abs(k) > self.order:
            raise ValueError("the scalar exceeds the order")
        if k not in self._points:
            if k < 0:
                point = self[-k]
                result = point and (point[0], -point[1] % self.prime)
            else:
                half = self[k // 2]
                result = self.add(half, half)
                result = self.add(result, self[1]) if k % 2 else result
            self._points[k] = result
        return self._points[k]

    def add(self, left: Point, right: Point) -> Point:
        """Return the sum of two points of the curve."""
        if left is None or right is None:
            return right or left
        (x1, y1), (x2, y2), p = left, right, self.prime
        if x1 == x2:
            if (y1 + y2) % p == 0:
                return None
            slope = (3 * x1 * x1 + 2 * self.a * x1 + 1) * pow(2 * self.b * y1, -1, p)
        else:
            slope = (y2 - y1) * pow(x2 - x1, -1, p)
        x = (self.b * slope * slope - self.a - x1 - x2) % p
        return x, (slope * (x1 - x) - y1) % p


class PointSet:
    """The points k·G of a subgroup for scalars k of some ranges.

    spans: at most two ranges of scalars, a positive one and one for all others.
    """

    def __init__(self, group: Subgroup, spans: Iterable[Range]) -> None:
        self.group = group
        hulls: dict[bool, Range] = {}
        for low, high in spans:
            least, most = hulls.get(low > 0, (low, high))
            hulls[low > 0] = min(low, least), max(high, most)
        self.spans = list(hulls.values())

    @classmethod
    def of(cls, group: Subgroup, scalars: Sequence[int], points: Sequence[tuple[int, int]]) -> Self:
        """Return a set that has some points; raises ValueError unless they are scalars times G."""
        p = group.prime
        for k, (x, y) in zip(scalars, points, strict=True):
            if group[k] != (x % p, y % p):
                raise ValueError("a point has another scalar")
        return cls(group, [(k, k) for k in scalars])

    def plus(self, other: PointSet) -> PointSet:
        """Return the sums of both sets; raises ValueError if they may have a common point."""
        if other.group is not self.group:
            raise ValueError("the points are of different subgroups")
        order, sums = self.group.order, []
        for low, high in self.spans:
            for least, most in other.spans:
                # Two points are equal if their scalars differ by a multiple of the order.
                if (low - most - 1) // order != (high - least) // order:
                    raise ValueError("the points may be equal")
                sums.append((low + least, high + most))
        return PointSet(self.group, sums)


def verified_roots(hints: Range, a: int, b: int, c: int, prime: int) -> list[int]:
    """Return the roots of a·x² + b·x + c, if one is near or between two hints.

    Raises ValueError if there are others.
    """
    if a == 0 and (b or c):
        return [-c * pow(b, -1, prime) % prime] if b else []
    for guess in (*hints, *range(hints[0] + 1, min(hints[1], hints[0] + 65))):
        if (a * guess * guess + b * guess + c) % prime == 0:
            return [guess, (-b * pow(a, -1, prime) - guess) % prime]
    if prime == 2 or pow(b * b - 4 * a * c, prime // 2, prime) != prime - 1:
        raise ValueError("no root is near the hints")
    return []

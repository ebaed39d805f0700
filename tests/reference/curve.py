"""Points on plain integers: affine short Weierstrass curves and twisted Edwards curves.

A Weierstrass point is a pair (x, y), the point at infinity None. An Edwards point is a pair; its
neutral element is (0, 1).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Generic

from quod.curve.edwards.curve import EdwardsCurve
from quod.curve.parameters import PairingCurve
from tests.reference.field import Element, Field, Fq2, PrimeField, fields_of


@dataclass(frozen=True)
class ShortWeierstrass(Generic[Element]):
    """y^2 = x^3 + a*x + b over any field, by the chord-and-tangent law with all its cases."""

    field: Field[Element]
    a: Element
    b: Element

    def contains(self, point: tuple[Element, Element] | None) -> bool:
        """Return whether the coordinates satisfy the equation; infinity does."""
        if point is None:
            return True
        x, y = point
        return self.field.square(y) == self.right_side(x)

    def right_side(self, x: Element) -> Element:
        """x^3 + a*x + b."""
        f = self.field
        return f.add(f.mul(f.add(f.square(x), self.a), x), self.b)

    def neg(self, point: tuple[Element, Element] | None) -> tuple[Element, Element] | None:
        return None if point is None else (point[0], self.field.neg(point[1]))

    def add(
        self, left: tuple[Element, Element] | None, right: tuple[Element, Element] | None
    ) -> tuple[Element, Element] | None:
        if left is None:
            return right
        if right is None:
            return left
        f = self.field
        (x1, y1), (x2, y2) = left, right
        if x1 != x2:
            slope = f.div(f.sub(y2, y1), f.sub(x2, x1))
        elif y1 == f.neg(y2):
            return None
        else:
            slope = f.div(f.add(f.mul(f.embed(3), f.square(x1)), self.a), f.add(y1, y1))
        x3 = f.sub(f.square(slope), f.add(x1, x2))
        return x3, f.sub(f.mul(slope, f.sub(x1, x3)), y1)

    def mul(
        self, scalar: int, point: tuple[Element, Element] | None
    ) -> tuple[Element, Element] | None:
        """scalar * point for any integer, by doubling and adding.

        The running sum is (x / z^2, y / z^3), so that only the end has an inversion.
        """
        if scalar < 0:
            return self.mul(-scalar, self.neg(point))
        if point is None or scalar == 0:
            return None
        f = self.field
        total = (*point, f.one)
        for bit in bin(scalar)[3:]:
            total = self._double(*total)
            if bit == "1":
                total = self._add_to(total, point)
        x, y, z = total
        if z == f.zero:
            return None
        inverse = f.inv(z)
        square = f.square(inverse)
        return f.mul(x, square), f.mul(y, f.mul(square, inverse))

    def _double(self, x: Element, y: Element, z: Element) -> tuple[Element, Element, Element]:
        f = self.field
        y2 = f.square(y)
        xy2 = f.mul(x, y2)
        twice = f.add(xy2, xy2)
        s, x2 = f.add(twice, twice), f.square(x)
        m = f.add(f.add(x2, f.add(x2, x2)), f.mul(self.a, f.square(f.square(z))))
        x3 = f.sub(f.square(m), f.add(s, s))
        y4 = f.square(f.add(y2, y2))
        yz = f.mul(y, z)
        return x3, f.sub(f.mul(m, f.sub(s, x3)), f.add(y4, y4)), f.add(yz, yz)

    def _add_to(
        self, total: tuple[Element, Element, Element], point: tuple[Element, Element]
    ) -> tuple[Element, Element, Element]:
        f = self.field
        x, y, z = total
        if z == f.zero:
            return (*point, f.one)
        z2 = f.square(z)
        dx = f.sub(f.mul(point[0], z2), x)
        dy = f.sub(f.mul(point[1], f.mul(z2, z)), y)
        if dx == f.zero:
            return self._double(*total) if dy == f.zero else (f.one, f.one, f.zero)
        dx2 = f.square(dx)
        dx3, v = f.mul(dx2, dx), f.mul(dx2, x)
        x3 = f.sub(f.sub(f.square(dy), dx3), f.add(v, v))
        return x3, f.sub(f.mul(dy, f.sub(v, x3)), f.mul(dx3, y)), f.mul(z, dx)

    def lift_x(self, x: Element) -> tuple[Element, Element] | None:
        """A point with this x, or None if there is none."""
        y = self.field.sqrt(self.right_side(x))
        return None if y is None else (x, y)


@dataclass(frozen=True)
class TwistedEdwards:
    """a*x^2 + y^2 = 1 + d*x^2*y^2 by the unified addition law; complete for a square, d not."""

    field: PrimeField
    a: int
    d: int

    neutral = (0, 1)

    def contains(self, point: tuple[int, int]) -> bool:
        x2, y2 = point[0] ** 2, point[1] ** 2
        return (self.a * x2 + y2 - 1 - self.d * x2 * y2) % self.field.p == 0

    def neg(self, point: tuple[int, int]) -> tuple[int, int]:
        return self.field.neg(point[0]), point[1]

    def add(self, left: tuple[int, int], right: tuple[int, int]) -> tuple[int, int]:
        f = self.field
        (x1, y1), (x2, y2) = left, right
        cross = self.d * x1 * x2 * y1 * y2
        return (
            f.div(f.embed(x1 * y2 + y1 * x2), f.embed(1 + cross)),
            f.div(f.embed(y1 * y2 - self.a * x1 * x2), f.embed(1 - cross)),
        )

    def mul(self, scalar: int, point: tuple[int, int]) -> tuple[int, int]:
        if scalar < 0:
            return self.mul(-scalar, self.neg(point))
        result = self.neutral
        for bit in bin(scalar)[2:]:
            result = self.add(result, result)
            if bit == "1":
                result = self.add(result, point)
        return result


@cache
def g1_of(curve: PairingCurve) -> ShortWeierstrass[int]:
    """E(Fq)."""
    return ShortWeierstrass(fields_of(curve).fq, curve.g1.a, curve.g1.b)


@cache
def g2_of(curve: PairingCurve) -> ShortWeierstrass[Fq2]:
    """E'(Fq2)."""
    return ShortWeierstrass(fields_of(curve).fq2, curve.g2.a, curve.g2.b)


@cache
def edwards_of(curve: EdwardsCurve) -> TwistedEdwards:
    """The twisted Edwards curve over its field."""
    return TwistedEdwards(PrimeField(curve.fq.value), curve.a, curve.d)


@cache
def prime_curve(q: int, a: int, b: int) -> ShortWeierstrass[int]:
    """y^2 = x^3 + a*x + b over the integers modulo q."""
    return ShortWeierstrass(PrimeField(q), a % q, b % q)

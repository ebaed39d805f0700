"""Points of twisted Edwards curves inside kernels.

Extended coordinates (X, Y, Z, T: x = X/Z, y = Y/Z, T = XY/Z) of Hisil, Wong, Carter and Dawson,
"Twisted Edwards Curves Revisited" (ASIACRYPT 2008): add-2008-hwcd, its form hwcd-3 where a = -1,
and dbl-2008-hwcd of the Explicit-Formulas Database. If a is a square and d is not, they are right
for every pair of points: equal, opposite, neutral, of even order.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import ClassVar

from quod.curve.edwards.curve import EdwardsCurve
from quod.field.element import Element
from quod.field.prime import PrimeField
from quod.field.strategy import prime_field
from quod.frozen import frozen
from quod.kernel.builder.builder import Builder
from quod.kernel.builder.structure import Rebuild, Unknown, flatten
from quod.kernel.errors import TraceError
from quod.kernel.ir import types
from quod.kernel.ir.value import Operand, Value


@frozen(eq=False)
class EdwardsPoint(Unknown):
    """A point in extended coordinates X, Y, Z and T."""

    comparison: ClassVar[str] = (
        "write points.equal(p, q), with `with k.if_(...)` or a select of each coordinate"
    )

    x: Element
    y: Element
    z: Element
    t: Element

    def flatten(self) -> tuple[list[Value], Hashable, Rebuild]:
        values, key, rebuild = flatten((self.x, self.y, self.z, self.t))

        def rebuild_point(flat: Sequence[Value]) -> EdwardsPoint:
            return EdwardsPoint(*rebuild(flat))

        return values, (EdwardsPoint, (key,)), rebuild_point


class EdwardsArithmetic:
    """The group law of one curve in one kernel; affine points in memory are x then y.

    Raises TraceError for a curve whose addition law is not complete.
    """

    def __init__(self, k: Builder, curve: EdwardsCurve) -> None:
        if not curve.is_complete:
            raise TraceError(
                f"the addition law of {curve.name} is not complete: a must be a square and d a "
                "non-square"
            )
        self.k = k
        self.curve = curve
        self.field = prime_field(k, curve.fq)

    def load(self, pointer: Value, index: Operand) -> EdwardsPoint:
        """Load affine point `index` of an array."""
        f = self.field
        element_index = self.k.operand(index, types.u64).cast(types.u64) * 2
        x, y = f.load(pointer, element_index), f.load(pointer, element_index + 1)
        return self.bounded(EdwardsPoint(x, y, f.one(), x * y))

    def store(self, pointer: Value, index: Operand, p: EdwardsPoint) -> None:
        """Store a point in affine form; costs one inversion."""
        f = self.field
        inverse = f.inverse(f.bounded(p.z))
        element_index = self.k.operand(index, types.u64).cast(types.u64) * 2
        f.store(pointer, element_index, p.x * inverse)
        f.store(pointer, element_index + 1, p.y * inverse)

    def bounded(self, p: EdwardsPoint) -> EdwardsPoint:
        """Return the point with standard bounds, as loops and branches need them."""
        return EdwardsPoint(*(self.field.bounded(part) for part in (p.x, p.y, p.z, p.t)))

    def neutral(self) -> EdwardsPoint:
        """Return the neutral element, (0, 1)."""
        f = self.field
        return self.bounded(EdwardsPoint(f.zero(), f.one(), f.one(), f.zero()))

    def equal(self, p: EdwardsPoint, q: EdwardsPoint) -> Value:
        """Return whether two points are equal."""
        f = self.field
        return f.is_zero(p.x * q.z - q.x * p.z) & f.is_zero(p.y * q.z - q.y * p.z)

    def add(self, p: EdwardsPoint, q: EdwardsPoint) -> EdwardsPoint:
        """p + q."""
        result: EdwardsPoint = self.k.call(
            f"add.{self.curve.name}", self._add, self.bounded(p), self.bounded(q), key=self.curve
        )
        return result

    def double(self, p: EdwardsPoint) -> EdwardsPoint:
        """2p."""
        result: EdwardsPoint = self.k.call(
            f"double.{self.curve.name}", self._double, self.bounded(p), key=self.curve
        )
        return result

    def _add(self, k: Builder, p: EdwardsPoint, q: EdwardsPoint) -> EdwardsPoint:
        f = self.field
        if self.curve.a != -1:
            a, b = p.x * q.x, p.y * q.y
            c, d = p.t * f.constant(self.curve.d) * q.t, p.z * q.z
            e = (p.x + p.y) * (q.x + q.y) - a - b
            return EdwardsPoint(*completed(f, e, d - c, d + c, b - self.a_times(a)))
        return added(f, p, q, self.curve.d)

    def _double(self, k: Builder, p: EdwardsPoint) -> EdwardsPoint:
        if self.curve.a == -1:
            return doubled(self.field, p)
        f = self.field
        a, b, c = f.square(p.x), f.square(p.y), f.square(p.z)
        e, scaled = f.square(p.x + p.y) - a - b, f.bounded(self.a_times(a))
        g = scaled + b
        return EdwardsPoint(*completed(f, e, g - (c + c), g, scaled - b))

    def a_times(self, x: Element) -> Element:
        """a * x."""
        return -x if self.curve.a == -1 else self.field.constant(self.curve.a) * x


def completed(
    field: PrimeField, e: Element, f: Element, g: Element, h: Element
) -> tuple[Element, ...]:
    """Return X, Y, Z and T of the point (e/g, h/f), with standard bounds."""
    return tuple(field.bounded(product) for product in (e * f, g * h, f * g, e * h))


def added(field: PrimeField, p: EdwardsPoint, q: EdwardsPoint, d: int) -> EdwardsPoint:
    """Return p + q on a curve with a = -1, with standard bounds, by add-2008-hwcd-3."""
    a = (p.y - p.x) * (q.y - q.x)
    b = (p.y + p.x) * (q.y + q.x)
    c = p.t * q.t * field.constant(2 * d)
    z = p.z * q.z
    e, double_z, h = b - a, z + z, b + a
    return EdwardsPoint(*completed(field, e, double_z - c, double_z + c, h))


def doubled(field: PrimeField, p: EdwardsPoint) -> EdwardsPoint:
    """Return 2p on a curve with a = -1, with standard bounds, by dbl-2008-hwcd."""
    a, b, c = field.square(p.x), field.square(p.y), field.square(p.z)
    e = field.square(p.x + p.y) - a - b
    g = b - a
    h = field.negate(a + b)
    f = g - (c + c)
    return EdwardsPoint(*completed(field, e, f, g, h))


def added_base(
    field: PrimeField, p: EdwardsPoint, minus: Element, plus: Element, product: Element
) -> tuple[Element, ...]:
    """Return the coordinates of p + q on a curve with a = -1, in 7 products.

    minus, plus, product: y - x, y + x and 2*d*x*y of the affine point q = (x, y).
    """
    a = (p.y - p.x) * minus
    b = (p.y + p.x) * plus
    c = p.t * product
    e, double_z, h = b - a, p.z + p.z, b + a
    return completed(field, e, double_z - c, double_z + c, h)

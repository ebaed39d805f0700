"""Points of short Weierstrass curves, y^2 = x^3 + a*x + b, inside kernels.

Extended Jacobian coordinates (XYZZ: x = X/ZZ, y = Y/ZZZ, ZZ^3 = ZZZ^2) from Sutherland's entries
of the Explicit-Formulas Database: add-2008-s, madd-2008-s, dbl-2008-s-1, mdbl-2008-s-1. Every
operation is right for every pair of points: equal, opposite, infinite.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from quod.curve.group import Group
from quod.field.any_field import field_arithmetic
from quod.frozen import frozen
from quod.kernel.builder.structure import Rebuild, Unknown, flatten
from quod.kernel.errors import TraceError
from quod.kernel.ir import types
from quod.kernel.ir.value import Operand, Value
from quod.validation import instance

if TYPE_CHECKING:
    from quod.field.arithmetic import FieldArithmetic
    from quod.kernel.builder.builder import Builder

CoordinateElement = Any
"""An element of Fq or of Fq2."""


@frozen(eq=False)
class AffinePoint(Unknown):
    """The coordinates x and y, and a flag: the point is infinity, whatever the coordinates are."""

    comparison: ClassVar[str] = (
        "write points.equal(points.extend(p), points.extend(q)), with `with k.if_(...)` or "
        "points.select(...)"
    )

    x: CoordinateElement
    y: CoordinateElement
    infinity: Value

    def flatten(self) -> tuple[list[Value], Hashable, Rebuild]:
        return _flatten(AffinePoint, (self.x, self.y, self.infinity))


@frozen(eq=False)
class ExtendedPoint(Unknown):
    """The coordinates X, Y, ZZ, ZZZ, and a flag: the point is infinity, whatever they are."""

    comparison: ClassVar[str] = (
        "write points.equal(p, q), with `with k.if_(...)` or points.select(...)"
    )

    x: CoordinateElement
    y: CoordinateElement
    zz: CoordinateElement
    zzz: CoordinateElement
    infinity: Value

    def flatten(self) -> tuple[list[Value], Hashable, Rebuild]:
        return _flatten(
            ExtendedPoint, (self.x, self.y, self.zz, self.zzz, self.infinity)
        )  # fmt: skip


def _flatten(
    kind: type[AffinePoint] | type[ExtendedPoint], parts: tuple[object, ...]
) -> tuple[list[Value], Hashable, Rebuild]:
    values, key, rebuild = flatten(parts)

    def rebuild_point(flat: Sequence[Value]) -> AffinePoint | ExtendedPoint:
        return kind(*rebuild(flat))

    return values, (kind, (key,)), rebuild_point


def plus_a_times(
    f: FieldArithmetic[Any], group: Group, total: CoordinateElement, scale: CoordinateElement
) -> CoordinateElement:
    """Return total + a * scale for the curve's coefficient a; emits nothing if a = 0."""
    a = group.parameters.a
    return total if a in (0, (0, 0)) else total + f.constant(a) * scale


class PointArithmetic:
    """The group law of one curve in one kernel; for `inlined` see `field_arithmetic`.

    Raises TraceError if `group` is not a `Group`.
    """

    def __init__(self, k: Builder, group: Group, *, inlined: bool = False) -> None:
        kind: type = Group  # mypy does not accept an abstract class as a type argument
        instance("the group", group, kind, "take one of quod.curve.GROUPS", error=TraceError)
        self.k = k
        self.group = group
        self.field = field_arithmetic(k, group.field, inlined=inlined)

    # --- memory

    def load_affine(self, pointer: Value, index: Operand) -> AffinePoint:
        """Load affine point `index` of an array; (0, 0) is infinity."""
        f = self.field
        offset = self.k.operand(index, types.u64).cast(types.u64) * self.group.point_words
        x = f.load_words_at(pointer, offset)
        y = f.load_words_at(pointer, offset + self.group.coordinate_words)
        return AffinePoint(f.from_words(x), f.from_words(y), f.words_are_zero((*x, *y)))

    def load_extended(self, pointer: Value, index: Operand) -> ExtendedPoint:
        """Load extended point `index` of an array: X, Y, ZZ, ZZZ; ZZ = 0 is infinity."""
        f, size = self.field, self.group.coordinate_words
        offset = self.k.operand(index, types.u64).cast(types.u64) * (4 * size)
        words = [f.load_words_at(pointer, offset + part * size) for part in range(4)]
        x, y, zz, zzz = (f.from_words(part) for part in words)
        return self.bounded(ExtendedPoint(x, y, zz, zzz, f.words_are_zero(words[2])))

    def store_extended(self, pointer: Value, index: Operand, p: ExtendedPoint) -> None:
        """Store an extended point as item `index`, with ZZ = 0 for infinity."""
        f, size = self.field, self.group.coordinate_words
        offset = self.k.operand(index, types.u64).cast(types.u64) * (4 * size)
        zz = f.select(p.infinity, f.bounded(f.zero()), f.bounded(p.zz))
        for part, element in enumerate((p.x, p.y, zz, p.zzz)):
            f.store_words_at(pointer, offset + part * size, f.to_words(element))

    # --- forms

    def infinity(self) -> ExtendedPoint:
        """The neutral element."""
        f = self.field
        one, zero = f.bounded(f.one()), f.bounded(f.zero())
        return ExtendedPoint(one, one, zero, zero, self.k.constant(True, types.bool_))

    def bounded(self, p: ExtendedPoint) -> ExtendedPoint:
        """Return the point with standard bounds, as loops and branches need them."""
        x, y, zz, zzz = (self.field.bounded(part) for part in (p.x, p.y, p.zz, p.zzz))
        return ExtendedPoint(x, y, zz, zzz, p.infinity)

    def extend(self, p: AffinePoint) -> ExtendedPoint:
        """Return an affine point in extended coordinates."""
        one = self.field.one()
        return self.bounded(ExtendedPoint(p.x, p.y, one, one, p.infinity))

    def negate(self, p: ExtendedPoint) -> ExtendedPoint:
        """-p."""
        return self.bounded(ExtendedPoint(p.x, -p.y, p.zz, p.zzz, p.infinity))

    def select(self, condition: Value, p: ExtendedPoint, q: ExtendedPoint) -> ExtendedPoint:
        """Return `p` where the condition holds, else `q`."""
        f = self.field
        pairs = ((p.x, q.x), (p.y, q.y), (p.zz, q.zz), (p.zzz, q.zzz))
        x, y, zz, zzz = (f.select(condition, a, b) for a, b in pairs)
        infinity = self.k.select(condition, p.infinity, q.infinity)
        return ExtendedPoint(x, y, zz, zzz, infinity)

    def equal(self, p: ExtendedPoint, q: ExtendedPoint) -> Value:
        """Return whether two points are equal."""
        f = self.field
        same_x = f.is_zero(p.x * q.zz - q.x * p.zz)
        same_y = f.is_zero(p.y * q.zzz - q.y * p.zzz)
        both_finite = ~(p.infinity | q.infinity)
        return (p.infinity & q.infinity) | (both_finite & same_x & same_y)

    # --- group law

    def double(self, p: ExtendedPoint) -> ExtendedPoint:
        """2p."""
        result: ExtendedPoint = self.k.call(
            f"double.{self.group.name}", self._double, self.bounded(p), key=self.group
        )
        return result

    def add(self, p: ExtendedPoint, q: ExtendedPoint) -> ExtendedPoint:
        """p + q."""
        result: ExtendedPoint = self.k.call(
            f"add.{self.group.name}", self._add, self.bounded(p), self.bounded(q), key=self.group
        )
        return result

    def add_affine(self, p: ExtendedPoint, q: AffinePoint) -> ExtendedPoint:
        """p + q for an affine q."""
        result: ExtendedPoint = self.k.call(
            f"add_affine.{self.group.name}", self._add_affine, self.bounded(p), q, key=self.group
        )
        return result

    def _double(self, k: Builder, p: ExtendedPoint) -> ExtendedPoint:
        f = self.field
        u = p.y + p.y
        v = f.square(u)
        w = u * v
        s = p.x * v
        x_squared = f.square(p.x)
        m = plus_a_times(f, self.group, x_squared + x_squared + x_squared, f.square(p.zz))
        x = f.square(m) - (s + s)
        y = m * (s - x) - w * p.y
        # A point of order two (y = 0) doubles to infinity.
        return self.bounded(
            ExtendedPoint(x, y, v * p.zz, w * p.zzz, p.infinity | f.is_zero(p.y))
        )  # fmt: skip

    def _add(self, k: Builder, p: ExtendedPoint, q: ExtendedPoint) -> ExtendedPoint:
        u1, u2 = p.x * q.zz, q.x * p.zz
        s1, s2 = p.y * q.zzz, q.y * p.zzz
        return self._finish(
            p, q, u1, u2 - u1, s1, s2 - s1, p.zz * q.zz, p.zzz * q.zzz
        )  # fmt: skip

    def _add_affine(self, k: Builder, p: ExtendedPoint, q: AffinePoint) -> ExtendedPoint:
        difference_x, difference_y = q.x * p.zz - p.x, q.y * p.zzz - p.y
        return self._finish(
            p, self.extend(q), p.x, difference_x, p.y, difference_y, p.zz, p.zzz
        )  # fmt: skip

    def _finish(
        self,
        p: ExtendedPoint,
        q: ExtendedPoint,
        u1: CoordinateElement,
        difference_x: CoordinateElement,
        s1: CoordinateElement,
        difference_y: CoordinateElement,
        zz: CoordinateElement,
        zzz: CoordinateElement,
    ) -> ExtendedPoint:
        """Finish an addition, and handle the pairs of points that the formula does not cover.

        u1, s1: X and Y of p for the common denominators `zz` and `zzz` of p and q.
        difference_x, difference_y: those of q minus u1 and s1.
        """
        k, f = self.k, self.field
        # P, R, PP, PPP and Q of the formulas: the differences, squared, cubed, scaled.
        squared = f.square(difference_x)
        cubed = difference_x * squared
        scaled = u1 * squared
        x = f.square(difference_y) - cubed - (scaled + scaled)
        y = difference_y * (scaled - x) - s1 * cubed
        both_finite = ~(p.infinity | q.infinity)
        same_x = f.is_zero(difference_x) & both_finite
        opposite = same_x & ~f.is_zero(difference_y)
        total = self.bounded(ExtendedPoint(x, y, zz * squared, zzz * cubed, opposite))
        total = self.select(p.infinity, self.bounded(q), total)
        total = self.select(q.infinity, self.bounded(p), total)
        with k.if_(same_x & ~opposite) as branch:
            branch.yield_(self.bounded(self._double(k, p)))
        with branch.otherwise():
            branch.yield_(self.bounded(total))
        result: ExtendedPoint = branch.results
        return result

    # --- back to affine

    def to_affine_words(self, p: ExtendedPoint) -> tuple[Value, ...]:
        """Return the canonical words of x and y, zeros for infinity; costs one inversion."""
        f = self.field
        inverse = f.inverse(f.bounded(p.zzz))
        scale = inverse * p.zz
        x, y = p.x * f.square(scale), p.y * inverse
        zero = self.k.constant(0, types.u64)
        words = (*f.to_words(x), *f.to_words(y))
        return tuple(self.k.select(p.infinity, zero, word) for word in words)

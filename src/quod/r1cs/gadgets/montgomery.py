"""Points of an Edwards curve in Montgomery form in a circuit: cheaper, but with exceptions.

The sum of points with equal u, and the double of a point of order two, are undefined: the
constraints would leave a quotient 0/0 free. Functions add constraints that exclude these cases
unless an argument says that the caller's constraints do. `multiply` and `multiply_fixed` never
reach them for points whose order is a multiple of the prime: partial sums are odd multiples below
2**k, and the addend is 2**k times an odd number, far below the order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from quod.curve.edwards.affine import EdwardsPair, edwards_group
from quod.curve.edwards.curve import EdwardsCurve
from quod.errors import InputError
from quod.r1cs.gadgets.edwards import (
    CurvePoint,
    EdwardsPoints,
    Point,
    SubgroupPoint,
    check_order,
)
from quod.r1cs.gadgets.lookup import look_up
from quod.r1cs.gadgets.signals import bit_signals, signals
from quod.r1cs.signal import Signal, hide_frames_of
from quod.r1cs.system import ConstraintSystem, Operand
from quod.validation import flag

hide_frames_of(__file__)


class MontgomeryPoint(NamedTuple):
    """The coordinates u and v of a point that is shown to be on the curve and not at infinity.

    Functions of `MontgomeryPoints` return it. ``MontgomeryPoint(u, v)`` declares that other
    constraints show it; the circuit is unsound if they do not.
    """

    u: Signal
    v: Signal


class MontgomeryPoints:
    """The points (u, v) with B*v^2 = u^3 + A*u^2 + u of an Edwards curve, in one system.

    Errors are those of `EdwardsPoints`; `edwards` has the Edwards form of the curve.
    """

    def __init__(self, system: ConstraintSystem, curve: EdwardsCurve) -> None:
        self.edwards = EdwardsPoints(system, curve)
        self.system, self.curve, self.form = self.edwards.system, curve, curve.montgomery
        # Signed digits of as many bits add up to less than half the order.
        self._most = curve.fr.bits - 2

    def point(self, operand: MontgomeryPoint) -> MontgomeryPoint:
        """Return the point; InputError unless it is a `MontgomeryPoint` of this system."""
        if not isinstance(operand, MontgomeryPoint):
            raise InputError(
                f"a point is not shown to be on {self.curve.name}; pass the result of "
                "from_edwards, or MontgomeryPoint(u, v) if other constraints show it"
            )
        return MontgomeryPoint(*signals(self.system, "a point", operand, 2))

    def from_edwards(self, operand: Point) -> MontgomeryPoint:
        """Convert a point: u = (1 + y)/(1 - y), v = u/x; 2 constraints for a `SubgroupPoint`.

        For another point, one more constraint excludes x = 0: the points (0, 1) and (0, -1) have no
        such v.
        """
        point = self.edwards.point(operand)
        if not isinstance(point, SubgroupPoint):
            self.system.assert_nonzero(point.x)
        return self._form_of(point)

    def _form_of(self, point: CurvePoint) -> MontgomeryPoint:
        """The Montgomery form of a point whose x is not 0."""
        u = self.system.divide(1 + point.y, 1 - point.y)
        return MontgomeryPoint(u, self.system.divide(u, point.x))

    def to_edwards(self, operand: MontgomeryPoint, *, nonzero: bool = False) -> CurvePoint:
        """Convert a point: x = u/v, y = (u - 1)/(u + 1); 3 constraints, one excludes v = 0.

        With `nonzero` the caller's constraints exclude it, and 2 remain. The point of order two,
        (0, 0), would leave x free.
        """
        u, v = self.point(operand)
        if not flag("nonzero", nonzero):
            self.system.assert_nonzero(v)
        return CurvePoint(self.system.divide(u, v), self.system.divide(u - 1, u + 1))

    def add(
        self, left: MontgomeryPoint, right: MontgomeryPoint, *, distinct: bool = False
    ) -> MontgomeryPoint:
        """Add two points; 4 constraints, one of which excludes equal u.

        With `distinct` the caller's constraints exclude it, and 3 remain. Equal points would leave
        the sum free.
        """
        first, (u2, v2) = self.point(left), self.point(right)
        if not flag("distinct", distinct):
            self.system.assert_nonzero(u2 - first.u)
        return self._on_line(self.system.divide(v2 - first.v, u2 - first.u), first, u2)

    def double(self, operand: MontgomeryPoint) -> MontgomeryPoint:
        """Double a point; 4 constraints, which no point of order two satisfies."""
        u, v = point = self.point(operand)
        rise = 3 * self.system.multiply(u, u) + 2 * self.form.a * u + 1
        return self._on_line(self.system.divide(rise, v * (2 * self.form.b)), point, u)

    def _on_line(self, slope: Signal, first: MontgomeryPoint, other: Signal) -> MontgomeryPoint:
        """The negative of the third point on a line through two."""
        u1, v1 = first
        u, v = self.system.wire(), self.system.wire()
        self.system.enforce(slope * self.form.b, slope, u + u1 + other + self.form.a)
        self.system.enforce(slope, u1 - u, v + v1)
        return MontgomeryPoint(u, v)

    def multiply(
        self, bits: Sequence[Operand], operand: Point, *, not_small_order: bool = False
    ) -> CurvePoint:
        """Multiply a point by a number with these bits, least first; return it in Edwards form.

        Costs 8 constraints per bit and 12; bits beyond the order's length minus two cost about 12
        each. InputError for a signal that is not shown to be a bit. Points of small order would
        leave the multiple free: for a point that is not a `SubgroupPoint`, 16 constraints (for the
        cofactor 8) exclude them, unless `not_small_order` says that the caller's constraints do
        (`EdwardsPoints.assert_not_small_order`).
        """
        system, edwards = self.system, self.edwards
        point, selectors = edwards.point(operand), bit_signals(system, "the bits", bits, least=1)
        if not flag("not_small_order", not_small_order) and not isinstance(point, SubgroupPoint):
            edwards.assert_not_small_order(point)
        low, high = selectors[: self._most], selectors[self._most :]
        base = self._form_of(point)
        # Of an odd number digit i is 1 or -1, as bit i + 1 says; the last one is 1.
        total: MontgomeryPoint | None = None
        for bit in [*low[1:], system.one]:
            base = base if total is None else self.double(base)
            signed = MontgomeryPoint(base.u, system.multiply(2 * bit - 1, base.v))
            total = signed if total is None else self.add(total, signed, distinct=True)
        assert total is not None
        result = edwards.add(
            self.to_edwards(total, nonzero=True),
            edwards.select(low[0], edwards.neutral, edwards.negate(point)),
        )
        if high:
            above = self.to_edwards(self.double(base), nonzero=True)
            result = edwards.add(result, edwards.multiply(high, above))
        return result

    def multiply_fixed(self, bits: Sequence[Operand], base: EdwardsPair) -> CurvePoint:
        """Multiply a constant point of prime order by a number; the result is in Edwards form.

        Costs 6 constraints per three bits; bits beyond the order's length minus two cost as in
        `EdwardsPoints.multiply_fixed`. InputError for a signal that is not shown to be a bit, and
        for a point of another order.
        """
        system, edwards, group = self.system, self.edwards, edwards_group(self.curve)
        base = check_order(edwards, base)
        selectors = bit_signals(system, "the bits", bits, least=1)
        low, high = selectors[: self._most], selectors[self._most :]
        # As in `multiply`, three digits at a time: an odd number from -7 to 7.
        digits = [*low[1:], system.one]
        total: MontgomeryPoint | None = None
        window = base
        for index in range(0, len(digits), 3):
            window_digits = digits[index : index + 3]
            points = [
                self._constant(group.multiply(_signed(number, len(window_digits)), window))
                for number in range(1 << len(window_digits))
            ]
            u, v = look_up(system, window_digits, [[p[0] for p in points], [p[1] for p in points]])
            chosen = MontgomeryPoint(u, v)
            total = chosen if total is None else self.add(total, chosen, distinct=True)
            window = group.multiply(1 << len(window_digits), window)
        assert total is not None
        minus = edwards.constant(group.negate(base))
        result = edwards.add(
            self.to_edwards(total, nonzero=True), edwards.select(low[0], edwards.neutral, minus)
        )
        if high:
            result = edwards.add(result, edwards.multiply_fixed(high, window))
        return result

    def _constant(self, point: EdwardsPair) -> tuple[int, int]:
        form = self.curve.to_montgomery(point)
        assert form is not None
        return form


def _signed(number: int, count: int) -> int:
    """Return the number with digits 1 and -1 where `number` has bits 1 and 0."""
    return 2 * number - (1 << count) + 1

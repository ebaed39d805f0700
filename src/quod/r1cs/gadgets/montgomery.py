"""Points of an Edwards curve in Montgomery form: cheaper to add, but with exceptional cases.

The sum of points with equal u, and the double of a point of order two, are undefined: the
constraints would leave a quotient 0/0 free. Methods add constraints that exclude these cases unless
an argument says that the caller's constraints do. `multiply` and `multiply_fixed` never reach these
cases if the point's order is a multiple of the subgroup's prime order: a partial sum is an odd
multiple below 2**k of the point, and the addend is 2**k times an odd multiple, far below the order.
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
    """The coordinates u and v of a point that constraints put on the curve, not at infinity.

    Methods of `MontgomeryPoints` return it. ``MontgomeryPoint(u, v)`` declares that other
    constraints imply this; if they do not, the circuit is unsound.
    """

    u: Signal
    v: Signal


class MontgomeryPoints:
    """The points (u, v) with B*v^2 = u^3 + A*u^2 + u of an Edwards curve, in one system.

    Methods raise the errors of `EdwardsPoints`. `edwards` has the points in Edwards form.
    """

    def __init__(self, system: ConstraintSystem, curve: EdwardsCurve) -> None:
        self.edwards = EdwardsPoints(system, curve)
        self.system, self.curve, self.form = self.edwards.system, curve, curve.montgomery
        # The number of bits whose signed digits add up to less than half the order.
        self._signed_bits = curve.fr.bits - 2

    def point(self, operand: MontgomeryPoint) -> MontgomeryPoint:
        """Return the point; raises InputError unless it is a `MontgomeryPoint` of this system."""
        if not isinstance(operand, MontgomeryPoint):
            raise InputError(
                f"a point is not known to be on {self.curve.name}; pass the result of "
                "from_edwards, or MontgomeryPoint(u, v) if other constraints imply it"
            )
        return MontgomeryPoint(*signals(self.system, "a point", operand, 2))

    def from_edwards(self, operand: Point) -> MontgomeryPoint:
        """Convert a point: u = (1 + y)/(1 - y), v = u/x; 2 constraints for a `SubgroupPoint`.

        For any other point, one more constraint excludes x = 0, because v is undefined for the
        points (0, 1) and (0, -1).
        """
        point = self.edwards.point(operand)
        if not isinstance(point, SubgroupPoint):
            self.system.assert_nonzero(point.x)
        return self._form_of(point)

    def _form_of(self, point: CurvePoint) -> MontgomeryPoint:
        """Return the Montgomery form of a point whose x is not 0."""
        u = self.system.divide(1 + point.y, 1 - point.y)
        return MontgomeryPoint(u, self.system.divide(u, point.x))

    def to_edwards(self, operand: MontgomeryPoint, *, nonzero: bool = False) -> CurvePoint:
        """Convert a point: x = u/v, y = (u - 1)/(u + 1); 3 constraints, one of which is v != 0.

        With `nonzero` the caller's constraints exclude v = 0, and 2 constraints remain. For the
        point of order two, (0, 0), x would not be determined.
        """
        u, v = self.point(operand)
        if not flag("nonzero", nonzero):
            self.system.assert_nonzero(v)
        return CurvePoint(self.system.divide(u, v), self.system.divide(u - 1, u + 1))

    def add(
        self, left: MontgomeryPoint, right: MontgomeryPoint, *, distinct: bool = False
    ) -> MontgomeryPoint:
        """Add two points; 4 constraints, one of which excludes equal u.

        With `distinct` the caller's constraints exclude equal u, and 3 constraints remain. The
        sum of equal points would not be determined.
        """
        first, (u2, v2) = self.point(left), self.point(right)
        if not flag("distinct", distinct):
            self.system.assert_nonzero(u2 - first.u)
        return self._on_line(self.system.divide(v2 - first.v, u2 - first.u), first, u2)

    def double(self, operand: MontgomeryPoint) -> MontgomeryPoint:
        """Double a point; 4 constraints, which no point of order two satisfies."""
        u, v = point = self.point(operand)
        numerator = 3 * self.system.multiply(u, u) + 2 * self.form.a * u + 1
        return self._on_line(self.system.divide(numerator, v * (2 * self.form.b)), point, u)

    def _on_line(self, slope: Signal, first: MontgomeryPoint, second_u: Signal) -> MontgomeryPoint:
        """Return minus the third point on the line through `first` and a point with this u."""
        u1, v1 = first
        u, v = self.system.wire(), self.system.wire()
        self.system.enforce(slope * self.form.b, slope, u + u1 + second_u + self.form.a)
        self.system.enforce(slope, u1 - u, v + v1)
        return MontgomeryPoint(u, v)

    def multiply(
        self, bits: Sequence[Operand], operand: Point, *, not_small_order: bool = False
    ) -> CurvePoint:
        """Multiply a point by the number with these bits, least significant first, to Edwards form.

        Costs 8 constraints per bit, plus 12. Each bit beyond the first `curve.fr.bits` - 2 costs
        about 12. Raises InputError for a signal that is not known to be a bit.

        The constraints would not determine the multiple of a point of small order. For a point that
        is not a `SubgroupPoint`, 16 more constraints (for the cofactor 8) exclude small orders,
        unless `not_small_order` says that the caller's constraints do
        (`EdwardsPoints.assert_not_small_order`).
        """
        system, edwards = self.system, self.edwards
        point, selectors = edwards.point(operand), bit_signals(system, "the bits", bits, least=1)
        if not flag("not_small_order", not_small_order) and not isinstance(point, SubgroupPoint):
            edwards.assert_not_small_order(point)
        low, high = selectors[: self._signed_bits], selectors[self._signed_bits :]
        base = self._form_of(point)
        # Signed digit i of an odd number is 1 if bit i + 1 is 1, else -1; the last digit is 1.
        total: MontgomeryPoint | None = None
        for bit in [*low[1:], system.one]:
            base = base if total is None else self.double(base)
            signed = MontgomeryPoint(base.u, system.multiply(2 * bit - 1, base.v))
            total = signed if total is None else self.add(total, signed, distinct=True)
        assert total is not None
        # The digits give the number with bit 0 set, so the point is subtracted if it is not.
        result = edwards.add(
            self.to_edwards(total, nonzero=True),
            edwards.select(low[0], edwards.neutral, edwards.negate(point)),
        )
        if high:
            high_base = self.to_edwards(self.double(base), nonzero=True)
            result = edwards.add(result, edwards.multiply(high, high_base))
        return result

    def multiply_fixed(self, bits: Sequence[Operand], base: EdwardsPair) -> CurvePoint:
        """Multiply a constant point of prime order by a number; the result is in Edwards form.

        Costs 6 constraints per three bits. Bits beyond the first `curve.fr.bits` - 2 cost as in
        `EdwardsPoints.multiply_fixed`. Raises InputError for a signal that is not known to be a
        bit, and for a point of another order.
        """
        system, edwards, group = self.system, self.edwards, edwards_group(self.curve)
        base = check_order(edwards, base)
        selectors = bit_signals(system, "the bits", bits, least=1)
        low, high = selectors[: self._signed_bits], selectors[self._signed_bits :]
        # As in `multiply`, but with three digits at a time, whose value is odd and from -7 to 7.
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
        negated_base = edwards.constant(group.negate(base))
        result = edwards.add(
            self.to_edwards(total, nonzero=True),
            edwards.select(low[0], edwards.neutral, negated_base),
        )
        if high:
            result = edwards.add(result, edwards.multiply_fixed(high, window))
        return result

    def _constant(self, point: EdwardsPair) -> tuple[int, int]:
        form = self.curve.to_montgomery(point)
        assert form is not None
        return form


def _signed(number: int, count: int) -> int:
    """Return the number whose `count` digits are 1 and -1 where `number` has bits 1 and 0."""
    return 2 * number - (1 << count) + 1

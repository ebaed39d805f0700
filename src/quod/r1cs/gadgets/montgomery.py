"""Points of an Edwards curve in Montgomery form in a circuit: fewer constraints, and exceptions.

A sum has no answer for points of one u, nor a double for a point of order two. What is here sums
points that cannot be such, for points of the prime order or a multiple of it: partial sums are odd
multiples of less than 2**k, and what is added is 2**k times an odd one, far below the order.
"""

from __future__ import annotations

from collections.abc import Sequence

from quod.curve.edwards_affine import EdwardsPair, edwards_group
from quod.curve.edwards_curve import EdwardsCurve
from quod.r1cs.gadgets.edwards import EdwardsPoints, PointSignals, check_order
from quod.r1cs.gadgets.lookup import look_up
from quod.r1cs.gadgets.signals import bit_signals
from quod.r1cs.signal import Signal, hide_frames_of
from quod.r1cs.system import ConstraintSystem, Operand

hide_frames_of(__file__)


class MontgomeryPoints:
    """The points (u, v) with B*v^2 = u^3 + A*u^2 + u of an Edwards curve, in one system.

    Errors are those of `EdwardsPoints`, which `edwards` is.
    """

    def __init__(self, system: ConstraintSystem, curve: EdwardsCurve) -> None:
        self.edwards = EdwardsPoints(system, curve)
        self.system, self.curve, self.form = self.edwards.system, curve, curve.montgomery
        # Signed digits of as many bits add up to less than half the order.
        self._most = curve.fr.bits - 2

    def from_edwards(self, given: Sequence[Operand]) -> PointSignals:
        """u = (1 + y)/(1 - y), v = u/x; 2 constraints.

        For points with x other than 0, which is for the caller to have shown.
        """
        x, y = self.edwards.point(given)
        u = self.system.divide(1 + y, 1 - y)
        return u, self.system.divide(u, x)

    def to_edwards(self, given: Sequence[Operand]) -> PointSignals:
        """x = u/v, y = (u - 1)/(u + 1); 2 constraints. For points with v other than 0."""
        u, v = self.edwards.point(given)
        return self.system.divide(u, v), self.system.divide(u - 1, u + 1)

    def add(self, left: Sequence[Operand], right: Sequence[Operand]) -> PointSignals:
        """left + right of points whose u differ, which is for the caller to know; 3 constraints."""
        (u1, v1), (u2, v2) = self.edwards.point(left), self.edwards.point(right)
        return self._on_line(self.system.divide(v2 - v1, u2 - u1), (u1, v1), u2)

    def double(self, given: Sequence[Operand]) -> PointSignals:
        """2 * point, of a point whose v is not 0; 4 constraints."""
        u, v = self.edwards.point(given)
        rise = 3 * self.system.multiply(u, u) + 2 * self.form.a * u + 1
        return self._on_line(self.system.divide(rise, v * (2 * self.form.b)), (u, v), u)

    def _on_line(self, slope: Signal, first: PointSignals, other: Signal) -> PointSignals:
        """The negative of the third point on a line through two."""
        u1, v1 = first
        u, v = self.system.wire(), self.system.wire()
        self.system.enforce(slope * self.form.b, slope, u + u1 + other + self.form.a)
        self.system.enforce(slope, u1 - u, v + v1)
        return u, v

    def multiply(self, bits: Sequence[Operand], given: Sequence[Operand]) -> PointSignals:
        """In Edwards form, the multiple of a point by a number, its bits least first.

        8 constraints a bit and 12, and of bits beyond the length of the order less two about 12
        each. That bits are bits, and that the point is on the curve and not of small order
        (`EdwardsPoints.assert_not_small_order`), is for the caller to have shown.
        """
        system, edwards = self.system, self.edwards
        point, selectors = edwards.point(given), bit_signals(system, "the bits", bits, least=1)
        low, high = selectors[: self._most], selectors[self._most :]
        base = self.from_edwards(point)
        # Of an odd number digit i is 1 or -1, as bit i + 1 says; the last one is 1.
        total: PointSignals | None = None
        for bit in [*low[1:], system.one]:
            base = base if total is None else self.double(base)
            signed = base[0], system.multiply(2 * bit - 1, base[1])
            total = signed if total is None else self.add(total, signed)
        assert total is not None
        result = edwards.add(
            self.to_edwards(total), edwards.select(low[0], edwards.neutral, edwards.negate(point))
        )
        if high:
            above = self.to_edwards(self.double(base))
            result = edwards.add(result, edwards.multiply(high, above))
        return result

    def multiply_fixed(self, bits: Sequence[Operand], base: EdwardsPair) -> PointSignals:
        """In Edwards form, the multiple of a constant point of the prime order by a number.

        6 constraints for three bits; those beyond the length of the order less two as
        `EdwardsPoints.multiply_fixed`. That bits are bits is for the caller to have shown.
        InputError for a point of another order.
        """
        system, edwards, group = self.system, self.edwards, edwards_group(self.curve)
        base = check_order(edwards, base)
        selectors = bit_signals(system, "the bits", bits, least=1)
        low, high = selectors[: self._most], selectors[self._most :]
        # As in `multiply`, three digits at a time: an odd number from -7 to 7.
        digits = [*low[1:], system.one]
        window, total = base, None
        for at in range(0, len(digits), 3):
            own = digits[at : at + 3]
            points = [
                self._constant(group.multiply(_signed(number, len(own)), window))
                for number in range(1 << len(own))
            ]
            u, v = look_up(system, own, [[p[0] for p in points], [p[1] for p in points]])
            total = (u, v) if total is None else self.add(total, (u, v))
            window = group.multiply(1 << len(own), window)
        assert total is not None
        minus = edwards.constant(group.negate(base))
        result = edwards.add(self.to_edwards(total), edwards.select(low[0], edwards.neutral, minus))
        if high:
            result = edwards.add(result, edwards.multiply_fixed(high, window))
        return result

    def _constant(self, point: EdwardsPair) -> tuple[int, int]:
        form = self.curve.to_montgomery(point)
        assert form is not None
        return form


def _signed(number: int, count: int) -> int:
    """The number whose digits are 1 or -1 as the bits of another are 1 or 0."""
    return 2 * number - (1 << count) + 1

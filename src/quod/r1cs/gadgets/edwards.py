"""Points of a twisted Edwards curve in a circuit over the field of its coordinates.

The law is complete, so that every function takes every pair of points of the curve; that inputs are
on it is shown by `assert_on_curve`. The native law is `quod.curve.edwards_group`.
"""

from __future__ import annotations

from collections.abc import Sequence

from quod.curve.edwards_affine import EdwardsPair, edwards_group, edwards_pair
from quod.curve.edwards_curve import EdwardsCurve
from quod.errors import InputError
from quod.r1cs.gadgets.lookup import look_up
from quod.r1cs.gadgets.signals import bit_signals, signals, system_over
from quod.r1cs.signal import Signal, hide_frames_of, signal_of
from quod.r1cs.system import ConstraintSystem, Operand
from quod.validation import instance

hide_frames_of(__file__)

PointSignals = tuple[Signal, Signal]
"""The coordinates x and y; numbers where a function takes one."""

_WINDOW = 2


class EdwardsPoints:
    """The points of a curve, ``EDWARDS["baby_jubjub"]`` over BN254, in one system.

    MismatchError for a system over another field; InputError for what is no pair of signals or int.
    """

    def __init__(self, system: ConstraintSystem, curve: EdwardsCurve) -> None:
        instance("the curve", curve, EdwardsCurve, "EDWARDS has the named ones")
        self.system, self.curve = system_over(system, curve.fq), curve
        self._a = curve.a % curve.fq.value

    @property
    def neutral(self) -> PointSignals:
        """(0, 1)."""
        return self.system.zero, self.system.one

    def point(self, given: Sequence[Operand]) -> PointSignals:
        """Two signals or numbers as a point."""
        x, y = signals(self.system, "a point", given, 2)
        return x, y

    def constant(self, point: EdwardsPair) -> PointSignals:
        """A point that is known; InputError for one that is off the curve."""
        x, y = edwards_pair("the point", self.curve, point)
        return self.system.constant(x), self.system.constant(y)

    def private(self, name: str) -> PointSignals:
        """A private input of two numbers, which are shown to be a point of the curve."""
        x, y = self.system.private(name, 2)
        self.assert_on_curve((x, y))
        return x, y

    def assert_on_curve(self, given: Sequence[Operand]) -> None:
        """a*x^2 + y^2 = 1 + d*x^2*y^2; 3 constraints."""
        x, y = self.point(given)
        xx, yy = self.system.multiply(x, x), self.system.multiply(y, y)
        self.system.enforce(xx * self.curve.d, yy, xx * self._a + yy - 1)

    def assert_equal(self, left: Sequence[Operand], right: Sequence[Operand]) -> None:
        """Two points are the same; 2 constraints."""
        for one, other in zip(self.point(left), self.point(right), strict=True):
            self.system.assert_equal(one, other)

    def assert_not_small_order(self, given: Sequence[Operand]) -> PointSignals:
        """The cofactor times the point, whose x is shown not to be 0; 16 constraints for 8.

        The point then has a multiple of the prime order. The cofactor is a power of two.
        """
        point = self.point(given)
        for _ in range(self.curve.cofactor.bit_length() - 1):
            point = self.double(point)
        self.system.assert_nonzero(point[0])
        return point

    def negate(self, given: Sequence[Operand]) -> PointSignals:
        """-point; no constraint."""
        x, y = self.point(given)
        return -x, y

    def add(self, left: Sequence[Operand], right: Sequence[Operand]) -> PointSignals:
        """left + right; 6 constraints."""
        system, (x1, y1), (x2, y2) = self.system, self.point(left), self.point(right)
        first, second = system.multiply(x1, y2), system.multiply(y1, x2)
        cross = system.multiply(y1 - x1 * self._a, x2 + y2)
        # cross = y1*y2 - a*x1*x2 + second - a*first
        return self._quotients(first + second, cross - second + first * self._a, first, second)

    def double(self, given: Sequence[Operand]) -> PointSignals:
        """2 * point; 5 constraints."""
        system, (x, y) = self.system, self.point(given)
        product = system.multiply(x, y)
        cross = system.multiply(y - x * self._a, x + y)
        return self._quotients(
            2 * product, cross - product + product * self._a, product, product
        )  # fmt: skip

    def _quotients(self, x: Signal, y: Signal, first: Signal, second: Signal) -> PointSignals:
        """x/(1 + d*first*second) and y/(1 - d*first*second), whose divisors are never 0."""
        system = self.system
        product = system.multiply(first * self.curve.d, second)
        return system.divide(x, 1 + product), system.divide(y, 1 - product)

    def select(
        self, bit: Operand, chosen: Sequence[Operand], other: Sequence[Operand]
    ) -> PointSignals:
        """`chosen` where the bit is 1, else `other`; 2 constraints, none of constants."""
        selector = signal_of(self.system, bit)
        x, y = (
            self.system.select(selector, one, zero)
            for one, zero in zip(self.point(chosen), self.point(other), strict=True)
        )
        return x, y

    def multiply(self, bits: Sequence[Operand], given: Sequence[Operand]) -> PointSignals:
        """The multiple of any point of the curve by a number, its bits least first.

        Two bits at a time from the top; 23 constraints for them. That bits are bits is for the
        caller to have shown. `MontgomeryPoints.multiply` takes 8 a bit where the point is known
        not to be of small order.
        """
        point, selectors = self.point(given), bit_signals(self.system, "the bits", bits, least=1)
        twice = self.double(point)
        thrice, (zero_x, zero_y) = self.add(twice, point), self.neutral
        selectors += [self.system.zero] * (len(selectors) % _WINDOW)
        result: PointSignals | None = None
        for at in reversed(range(0, len(selectors), _WINDOW)):
            low, high = selectors[at : at + _WINDOW]
            both = self.system.multiply(low, high)
            weights = (low - both, high - both, both)
            x, y = (
                zero + self.system.sum(
                    self.system.multiply(weight, value - zero)
                    for weight, value in zip(weights, values, strict=True)
                )
                for zero, values in (
                    (zero_x, (point[0], twice[0], thrice[0])),
                    (zero_y, (point[1], twice[1], thrice[1])),
                )
            )  # fmt: skip
            if result is None:
                result = x, y
            else:
                result = self.add(self.double(self.double(result)), (x, y))
        assert result is not None
        return result

    def multiply_fixed(self, bits: Sequence[Operand], base: EdwardsPair) -> PointSignals:
        """The multiple of a constant point by a number, its bits least first: any point, any bits.

        9 constraints for three bits; `MontgomeryPoints.multiply_fixed` takes 6.
        """
        group, selectors = (
            edwards_group(self.curve),
            bit_signals(self.system, "the bits", bits, least=1),
        )
        base = edwards_pair("the base", self.curve, base)
        result: PointSignals | None = None
        for at in range(0, len(selectors), 3):
            own = selectors[at : at + 3]
            table = [(0, 1)]
            for _ in range(1 << len(own)):
                table.append(group.add(table[-1], base))
            base = table.pop()
            x, y = look_up(self.system, own, [[p[0] for p in table], [p[1] for p in table]])
            result = (x, y) if result is None else self.add(result, (x, y))
        assert result is not None
        return result


def check_order(points: EdwardsPoints, base: EdwardsPair) -> EdwardsPair:
    """A constant point of the prime order; InputError for others."""
    base = edwards_pair("the base", points.curve, base)
    group = edwards_group(points.curve)
    if base == (0, 1) or not group.in_subgroup(base):
        raise InputError(f"the base is not of the prime order of {points.curve.name}")
    return base

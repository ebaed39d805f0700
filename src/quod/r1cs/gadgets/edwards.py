"""Points of a twisted Edwards curve in a circuit over the field of its coordinates.

The addition law is complete for points on the curve; for other points its divisors may be 0.
Functions therefore take a `CurvePoint`, which `assert_on_curve` returns, and reject signals that
are not known to be on the curve. The reference is `quod.curve.edwards_group`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from quod.curve.edwards.affine import EdwardsPair, edwards_group, edwards_pair
from quod.curve.edwards.curve import EdwardsCurve
from quod.errors import InputError
from quod.r1cs.gadgets.lookup import look_up
from quod.r1cs.gadgets.signals import bit_signals, check_field, signals
from quod.r1cs.signal import Signal, hide_frames_of, signal_of
from quod.r1cs.system import ConstraintSystem, Operand

hide_frames_of(__file__)

PointSignals = tuple[Signal, Signal]
"""The coordinates of a point that may be off the curve."""


class CurvePoint(NamedTuple):
    """The coordinates of a point that constraints put on the curve.

    Methods of `EdwardsPoints` return it. ``CurvePoint(x, y)`` declares that other constraints imply
    that the point is on the curve; if they do not, the circuit is unsound.
    """

    x: Signal
    y: Signal


class SubgroupPoint(CurvePoint):
    """A point that constraints force to have the prime order.

    `assert_not_small_order` returns one: the cofactor times its operand. ``SubgroupPoint(x, y)``
    declares that other constraints imply the order.
    """

    __slots__ = ()


Point = CurvePoint | EdwardsPair
"""A point of the curve: signals known to be on the curve, or two int, which are checked."""

_WINDOW = 2
"""Bits of a window of `EdwardsPoints.multiply`."""


class EdwardsPoints:
    """The points of a curve, such as ``EDWARDS["baby_jubjub"]`` over BN254, in one system.

    Raises MismatchError for a system over another field. Methods raise InputError unless a point is
    a pair of signals or int, for signals that are not known to be on the curve, and for constant
    points that are off the curve.
    """

    def __init__(self, system: ConstraintSystem, curve: EdwardsCurve) -> None:
        check_field(system, curve.fq)
        self.system, self.curve = system, curve
        self._a = curve.a % curve.fq.value

    @property
    def neutral(self) -> CurvePoint:
        """(0, 1)."""
        return CurvePoint(self.system.zero, self.system.one)

    def point(self, operand: Point) -> CurvePoint:
        """Return an operand as a point; raises InputError if signals are not known to be one."""
        x, y = self._coordinates(operand)
        if isinstance(operand, CurvePoint):
            return operand
        if (u := x.constant) is None or (v := y.constant) is None:
            raise InputError(
                f"a point is not known to be on {self.curve.name}; pass the result of "
                "assert_on_curve, or CurvePoint(x, y) if other constraints imply it"
            )
        return self.constant((u, v))

    def constant(self, point: EdwardsPair) -> CurvePoint:
        """Return a constant point; raises InputError if it is off the curve."""
        x, y = edwards_pair("the point", self.curve, point)
        return CurvePoint(self.system.constant(x), self.system.constant(y))

    def private(self, name: str) -> CurvePoint:
        """Declare a private input of two coordinates, constrained to be a point of the curve."""
        return self.assert_on_curve(self.system.private_point(name))

    def assert_on_curve(self, coordinates: Sequence[Operand]) -> CurvePoint:
        """Constrain two coordinates to be a point of the curve and return it; 3 constraints.

        The equation is a*x^2 + y^2 = 1 + d*x^2*y^2.
        """
        x, y = self._coordinates(coordinates)
        xx, yy = self.system.multiply(x, x), self.system.multiply(y, y)
        self.system.enforce(xx * self.curve.d, yy, xx * self._a + yy - 1)
        return CurvePoint(x, y)

    def assert_equal(self, left: Sequence[Operand], right: Sequence[Operand]) -> None:
        """Constrain two points to be equal; 2 constraints."""
        for a, b in zip(self._coordinates(left), self._coordinates(right), strict=True):
            self.system.assert_equal(a, b)

    def assert_not_small_order(self, operand: Point) -> SubgroupPoint:
        """Return cofactor * point, whose x is constrained not to be 0; 16 constraints for 8.

        The result is in the subgroup of prime order, and the order of the operand is a multiple of
        that prime. The cofactor must be a power of two.
        """
        point = self.point(operand)
        for _ in range(self.curve.cofactor.bit_length() - 1):
            point = self.double(point)
        self.system.assert_nonzero(point.x)
        return SubgroupPoint(*point)

    def negate(self, operand: Point) -> CurvePoint:
        """Return -point; no constraint."""
        x, y = self.point(operand)
        return CurvePoint(-x, y)

    def add(self, left: Point, right: Point) -> CurvePoint:
        """Add two points; 6 constraints."""
        system, (x1, y1), (x2, y2) = self.system, self.point(left), self.point(right)
        first, second = system.multiply(x1, y2), system.multiply(y1, x2)
        cross = system.multiply(y1 - x1 * self._a, x2 + y2)
        # cross = y1*y2 - a*x1*x2 + second - a*first
        return self._quotients(first + second, cross - second + first * self._a, first, second)

    def double(self, operand: Point) -> CurvePoint:
        """Double a point; 5 constraints."""
        system, (x, y) = self.system, self.point(operand)
        product = system.multiply(x, y)
        cross = system.multiply(y - x * self._a, x + y)
        return self._quotients(
            2 * product, cross - product + product * self._a, product, product
        )  # fmt: skip

    def _coordinates(self, point: Sequence[Operand]) -> PointSignals:
        """Return a pair of signals or numbers as signals."""
        x, y = signals(self.system, "a point", point, 2)
        return x, y

    def _quotients(self, x: Signal, y: Signal, first: Signal, second: Signal) -> CurvePoint:
        """Return x/(1 + d*first*second) and y/(1 - d*first*second); divisors are never 0."""
        system = self.system
        product = system.multiply(first * self.curve.d, second)
        return CurvePoint(system.divide(x, 1 + product), system.divide(y, 1 - product))

    def select(self, bit: Operand, chosen: Point, other: Point) -> CurvePoint:
        """Select `chosen` if the bit is 1, else `other`; 2 constraints, none for constants."""
        selector = signal_of(self.system, bit)
        x, y = (
            self.system.select(selector, if_one, if_zero)
            for if_one, if_zero in zip(self.point(chosen), self.point(other), strict=True)
        )
        return CurvePoint(x, y)

    def multiply(self, bits: Sequence[Operand], operand: Point) -> CurvePoint:
        """Multiply any point of the curve by a number given by its bits, least significant first.

        Costs 23 constraints per two bits. Raises InputError for a signal that is not known to be a
        bit. `MontgomeryPoints.multiply` costs 8 per bit, for points that are not of small order.
        """
        point, selectors = self.point(operand), bit_signals(self.system, "the bits", bits, least=1)
        double_point = self.double(point)
        triple_point, (zero_x, zero_y) = self.add(double_point, point), self.neutral
        selectors += [self.system.zero] * (len(selectors) % _WINDOW)
        result: CurvePoint | None = None
        for index in reversed(range(0, len(selectors), _WINDOW)):
            low, high = selectors[index : index + _WINDOW]
            both_bits = self.system.multiply(low, high)
            weights = (low - both_bits, high - both_bits, both_bits)
            x, y = (
                zero + self.system.sum(
                    self.system.multiply(weight, value - zero)
                    for weight, value in zip(weights, values, strict=True)
                )
                for zero, values in (
                    (zero_x, (point[0], double_point[0], triple_point[0])),
                    (zero_y, (point[1], double_point[1], triple_point[1])),
                )
            )  # fmt: skip
            # One of four points of the curve, as both selectors are bits.
            chosen = CurvePoint(x, y)
            if result is None:
                result = chosen
            else:
                result = self.add(self.double(self.double(result)), chosen)
        assert result is not None
        return result

    def multiply_fixed(self, bits: Sequence[Operand], base: EdwardsPair) -> CurvePoint:
        """Multiply any constant point by a number given by its bits, least significant first.

        Costs 9 constraints per three bits; `MontgomeryPoints.multiply_fixed` costs 6.
        """
        group, selectors = (
            edwards_group(self.curve),
            bit_signals(self.system, "the bits", bits, least=1),
        )
        base = edwards_pair("the base", self.curve, base)
        result: CurvePoint | None = None
        for index in range(0, len(selectors), 3):
            window = selectors[index : index + 3]
            table = [(0, 1)]
            for _ in range(1 << len(window)):
                table.append(group.add(table[-1], base))
            # The last entry is the base of the next window: 2**len(window) times this base.
            base = table.pop()
            x, y = look_up(self.system, window, [[p[0] for p in table], [p[1] for p in table]])
            chosen = CurvePoint(x, y)
            result = chosen if result is None else self.add(result, chosen)
        assert result is not None
        return result


def check_order(points: EdwardsPoints, base: EdwardsPair) -> EdwardsPair:
    """Return a constant point; raises InputError unless it has the subgroup's prime order."""
    base = edwards_pair("the base", points.curve, base)
    group = edwards_group(points.curve)
    if base == (0, 1) or not group.in_subgroup(base):
        raise InputError(f"the order of the base is not the prime order of {points.curve.name}")
    return base

"""Bits that may be constants or negations, which cost no constraint: bellman's `Boolean`."""

from __future__ import annotations

from collections.abc import Iterable

from quod.r1cs.signal import Signal
from quod.r1cs.system import ConstraintSystem


class Not:
    """1 - bit, for a signal that is 0 or 1."""

    __slots__ = ("bit",)

    def __init__(self, bit: Signal) -> None:
        self.bit = bit


Boolean = Signal | Not | bool


def scaled(system: ConstraintSystem, bit: Boolean, factor: int) -> Signal:
    """A bit times a number below the prime, as a sum of wires."""
    if isinstance(bit, Signal):
        return bit.scaled(factor)
    if isinstance(bit, Not):
        return system.one.scaled(factor) - bit.bit.scaled(factor)
    return system.one.scaled(factor) if bit else system.zero


def negated(bit: Boolean) -> Boolean:
    """1 - bit."""
    if isinstance(bit, Signal):
        return Not(bit)
    return bit.bit if isinstance(bit, Not) else not bit


def conjunction(system: ConstraintSystem, left: Boolean, right: Boolean) -> Boolean:
    """left AND right: a constraint unless one is constant."""
    if isinstance(left, bool):
        return right if left else False
    if isinstance(right, bool):
        return left if right else False
    return system.multiply(scaled(system, left, 1), scaled(system, right, 1))


def exclusive_or(system: ConstraintSystem, left: Boolean, right: Boolean) -> Boolean:
    """left XOR right: the constraint 2a·b = a + b - c, on the bits without their negations.

    There is no constraint if one of them is constant.
    """
    if isinstance(left, bool):
        return negated(right) if left else right
    if isinstance(right, bool):
        return negated(left) if right else left
    if isinstance(left, Not) and not isinstance(right, Not):
        # bellman's constraint has the bit that is not negated first.
        left, right = right, left
    a = left.bit if isinstance(left, Not) else left
    b = right.bit if isinstance(right, Not) else right
    result = system.wire()
    system.enforce(a.scaled(2), b, a + b - result)
    if system.upper_bound(a) == 1 and system.upper_bound(b) == 1:
        system.declare_upper_bound(result, 1)
    return result if isinstance(left, Not) == isinstance(right, Not) else Not(result)


def constants(number: int, count: int) -> list[Boolean]:
    """The lowest `count` bits of a number, least significant first, as constants."""
    return [bool(number >> index & 1) for index in range(count)]


def weighted(system: ConstraintSystem, terms: Iterable[tuple[Boolean, int]]) -> Signal:
    """The sum of bits, each times a number below the prime."""
    return system.sum(scaled(system, bit, factor) for bit, factor in terms)

"""Bits that may be constants or negations, which cost no constraint: bellman's `Boolean`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from quod.r1cs.signal import Signal
from quod.r1cs.system import ConstraintSystem


class Not(NamedTuple):
    """1 - bit, for a signal that is 0 or 1."""

    bit: Signal


Boolean = Signal | Not | bool


def boolean(bit: Signal) -> Boolean:
    """Return a constant bit as bool, any other signal unchanged."""
    return bit if bit.constant not in (0, 1) else bool(bit.constant)


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
    left, right = _negation_last(left, right)
    return system.multiply(scaled(system, left, 1), scaled(system, right, 1))


def exclusive_or(system: ConstraintSystem, left: Boolean, right: Boolean) -> Boolean:
    """left XOR right: the constraint 2a·b = a + b - c, on the bits without their negations.

    There is no constraint if one of them is constant.
    """
    if isinstance(left, bool):
        return negated(right) if left else right
    if isinstance(right, bool):
        return negated(left) if right else left
    left, right = _negation_last(left, right)
    a = left.bit if isinstance(left, Not) else left
    b = right.bit if isinstance(right, Not) else right
    result = system.wire()
    system.enforce(a.scaled(2), b, a + b - result)
    if system.upper_bound(a) == 1 and system.upper_bound(b) == 1:
        system.declare_upper_bound(result, 1)
    return result if isinstance(left, Not) == isinstance(right, Not) else Not(result)


def _negation_last(left: Signal | Not, right: Signal | Not) -> tuple[Signal | Not, Signal | Not]:
    """Return the operands in the order of bellman's constraints: a single negation is last."""
    return (right, left) if isinstance(left, Not) and isinstance(right, Signal) else (left, right)


def choice(system: ConstraintSystem, bit: Boolean, if_one: Boolean, if_zero: Boolean) -> Boolean:
    """`if_one` if the bit is 1, else `if_zero`: Ch of SHA-256, with at most one constraint."""
    if isinstance(bit, bool) and isinstance(if_one, bool) and isinstance(if_zero, bool):
        return if_one if bit else if_zero
    if bit is False:
        return if_zero
    if if_one is False:
        return conjunction(system, negated(bit), if_zero)
    if if_zero is False:
        return conjunction(system, bit, if_one)
    if if_zero is True:
        return negated(conjunction(system, bit, negated(if_one)))
    if if_one is True:
        return negated(conjunction(system, negated(bit), negated(if_zero)))
    result, base = system.wire(), scaled(system, if_zero, 1)
    system.enforce(scaled(system, if_one, 1) - base, scaled(system, bit, 1), result - base)
    return result


def majority(system: ConstraintSystem, a: Boolean, b: Boolean, c: Boolean) -> Boolean:
    """Return the bit that two of three have: Maj of SHA-256, with at most two constraints."""
    if isinstance(a, bool) and isinstance(b, bool) and isinstance(c, bool):
        return a + b + c >= 2
    for constant, left, right in ((a, b, c), (b, a, c), (c, a, b)):
        if constant is False:
            return conjunction(system, left, right)
    for constant, left, right in ((c, a, b), (b, a, c), (a, b, c)):
        if constant is True:
            return negated(conjunction(system, negated(left), negated(right)))
    # The result precedes the product among the variables.
    result = system.wire()
    both = scaled(system, conjunction(system, b, c), 1)
    either = scaled(system, b, 1) + scaled(system, c, 1)
    system.enforce(both.scaled(2) - either, scaled(system, a, 1), both - result)
    return result


def constants(number: int, count: int) -> list[Boolean]:
    """The lowest `count` bits of a number, least significant first, as constants."""
    return [bool(number >> index & 1) for index in range(count)]


def weighted(system: ConstraintSystem, terms: Iterable[tuple[Boolean, int]]) -> Signal:
    """The sum of bits, each times a number below the prime."""
    return system.sum(scaled(system, bit, factor) for bit, factor in terms)

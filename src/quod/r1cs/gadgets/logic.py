"""Logic on bits; constants cost no constraint.

Functions raise InputError for a signal that is not known to be a bit.
"""

from __future__ import annotations

from quod.r1cs.gadgets.signals import bit_signals
from quod.r1cs.signal import Signal, hide_frames_of
from quod.r1cs.system import ConstraintSystem, Operand

hide_frames_of(__file__)


def exclusive_or(system: ConstraintSystem, left: Operand, right: Operand) -> Signal:
    """left XOR right; one constraint."""
    a, b = bit_signals(system, "the bits", (left, right))
    if a.constant is not None or b.constant is not None:
        return a + b - system.multiply(2 * a, b)
    result = system.wire()
    system.enforce(2 * a, b, a + b - result)
    return system.declare_upper_bound(result, 1)


def exclusive_or_of_three(
    system: ConstraintSystem, first: Operand, second: Operand, third: Operand
) -> Signal:
    """first XOR second XOR third; two constraints."""
    return exclusive_or(system, exclusive_or(system, first, second), third)


def inclusive_or(system: ConstraintSystem, left: Operand, right: Operand) -> Signal:
    """left OR right; one constraint."""
    a, b = bit_signals(system, "the bits", (left, right))
    return system.declare_upper_bound(a + b - system.multiply(a, b), 1)


def majority(system: ConstraintSystem, first: Operand, second: Operand, third: Operand) -> Signal:
    """The bit that two of three have; two constraints."""
    a, b, c = bit_signals(system, "the bits", (first, second, third))
    product = system.multiply(b, c)
    return system.declare_upper_bound(product + system.multiply(a, b + c - 2 * product), 1)

"""Orders of signals that are small numbers, and of bits against a constant."""

from __future__ import annotations

from collections.abc import Sequence

from quod.r1cs.gadgets.signals import bit_signals, system_over
from quod.r1cs.signal import Signal, hide_frames_of, signal_of
from quod.r1cs.system import ConstraintSystem, Operand
from quod.validation import whole_number

hide_frames_of(__file__)


def is_less(system: ConstraintSystem, left: Operand, right: Operand, size: int) -> Signal:
    """1 where left < right, else 0; size + 2 constraints.

    That both are below 2**size is for the caller to have shown (`system.bits`).
    """
    size = whole_number("size", size, 1, system_over(system).prime.bit_length() - 3)
    difference = signal_of(system, left) - signal_of(system, right) + (1 << size)
    return 1 - system.bits(difference, size + 1)[size]


def is_at_most(system: ConstraintSystem, left: Operand, right: Operand, size: int) -> Signal:
    """1 where left <= right, else 0; as `is_less`."""
    return 1 - is_less(system, right, left, size)


def assert_less(system: ConstraintSystem, left: Operand, right: Operand, size: int) -> None:
    """left < right; size + 1 constraints, with both below 2**size as for `is_less`."""
    size = whole_number("size", size, 1, system_over(system).prime.bit_length() - 3)
    system.bits(signal_of(system, right) - signal_of(system, left) - 1, size)


def assert_at_most(system: ConstraintSystem, left: Operand, right: Operand, size: int) -> None:
    """left <= right; as `assert_less`."""
    size = whole_number("size", size, 1, system_over(system).prime.bit_length() - 3)
    system.bits(signal_of(system, right) - signal_of(system, left), size)


def assert_bits_at_most(system: ConstraintSystem, bits: Sequence[Operand], most: int) -> None:
    """The number of bits, the least first, is at most a constant.

    From the top: where the constant has zeros behind a run of ones, and all ones so far are ones of
    the bits too, the bits have zeros. A constraint a run of zeros, and one a bit of the runs of
    ones but for the last. That bits are bits is for the caller to have shown.
    """
    given = bit_signals(system_over(system), "the bits", bits)
    most = whole_number("the greatest number", most, 0)
    last = system.one
    at = len(given) - 1
    while at >= 0 and most < (1 << len(given)) - 1:
        start = at
        if most >> at & 1:
            # Ones that no zero follows bound nothing.
            if not ~most & (1 << at) - 1:
                return
            last = system.multiply(last, given[at])
            at -= 1
            continue
        while at >= 0 and not most >> at & 1:
            at -= 1
        zeros = system.sum(given[at + 1 : start + 1])
        system.enforce(zeros, last, system.zero)

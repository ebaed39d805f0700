"""Comparisons of signals that are small numbers, and of bits with a constant."""

from __future__ import annotations

from collections.abc import Sequence

from quod.errors import InputError
from quod.r1cs.gadgets.signals import bit_signals, max_comparison_bits
from quod.r1cs.signal import Signal, hide_frames_of, signal_of
from quod.r1cs.system import ConstraintSystem, Operand
from quod.validation import whole_number

hide_frames_of(__file__)


def is_less(system: ConstraintSystem, left: Operand, right: Operand, size: int) -> Signal:
    """Return a bit that is 1 if left < right, else 0; size + 2 constraints.

    Raises InputError unless constraints imply that both are below 2**size; usually those of
    `system.bits(x, size)`.
    """
    return _is_less(system, *_operands(system, left, right, size), size)


def is_at_most(system: ConstraintSystem, left: Operand, right: Operand, size: int) -> Signal:
    """Return a bit that is 1 if left <= right, else 0; see `is_less`."""
    first, second = _operands(system, left, right, size)
    return 1 - _is_less(system, second, first, size)


def assert_less(system: ConstraintSystem, left: Operand, right: Operand, size: int) -> None:
    """Constrain left < right; size + 1 constraints. See `is_less` for the operands."""
    first, second = _operands(system, left, right, size)
    system.bits(second - first - 1, size)


def assert_at_most(system: ConstraintSystem, left: Operand, right: Operand, size: int) -> None:
    """Constrain left <= right; see `assert_less`."""
    first, second = _operands(system, left, right, size)
    system.bits(second - first, size)


def _is_less(system: ConstraintSystem, left: Signal, right: Signal, size: int) -> Signal:
    return 1 - system.bits(left - right + (1 << size), size + 1)[size]


def _operands(
    system: ConstraintSystem, left: Operand, right: Operand, size: int
) -> tuple[Signal, Signal]:
    """Return both operands as signals; InputError unless they are known to be below 2**size."""
    size = whole_number("size", size, 1, max_comparison_bits(system))
    first, second = signal_of(system, left), signal_of(system, right)
    for name, signal in (("left", first), ("right", second)):
        bound = system.upper_bound(signal)
        if bound is None or bound >= 1 << size:
            raise InputError(
                f"the {name} operand is not known to be below 2**{size}; call "
                f"system.bits(..., {size}) first, or declare_upper_bound if other constraints "
                "imply it"
            )
    return first, second


def assert_bits_at_most(system: ConstraintSystem, bits: Sequence[Operand], most: int) -> None:
    """Constrain the number with these bits, least significant first, to be at most `most`.

    `most` is read from its highest bit down. Where it has a run of zeros, the bits must be 0 too,
    if they were 1 at all ones of `most` above. Costs one constraint per run of zeros, and one per
    bit of the runs of ones except the last run. Raises InputError for a signal that is not known
    to be a bit.
    """
    signals = bit_signals(system, "the bits", bits)
    most = whole_number("the greatest number", most, 0)
    ones_so_far = system.one
    index = len(signals) - 1
    while index >= 0 and most < (1 << len(signals)) - 1:
        start = index
        if most >> index & 1:
            # All lower bits of `most` are 1 too, so it does not bound the number further.
            if not ~most & (1 << index) - 1:
                return
            ones_so_far = system.multiply(ones_so_far, signals[index])
            index -= 1
            continue
        while index >= 0 and not most >> index & 1:
            index -= 1
        zeros = system.sum(signals[index + 1 : start + 1])
        system.enforce(zeros, ones_so_far, system.zero)

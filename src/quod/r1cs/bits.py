"""Decompose signals into bits, with constraints that make the bits those of the signal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from quod.r1cs.signal import ConstraintBuilder, Signal, hide_frames_of, signal_of
from quod.validation import whole_number

# Messages then name the line of the circuit that called this file.
hide_frames_of(__file__)


class BitConstraints(ConstraintBuilder, Protocol):
    """The methods of `ConstraintSystem`, besides those of `ConstraintBuilder`, that this module
    calls.
    """

    zero: Signal
    one: Signal

    def boolean(self, signal: Signal | int) -> None:
        """Constrain a signal to 0 or 1."""
        ...

    def enforce(self, a: Signal | int, b: Signal | int, c: Signal | int) -> None:
        """Add the constraint a·b = c."""
        ...

    def assert_equal(self, a: Signal | int, b: Signal | int) -> None:
        """Add the constraint a = b."""
        ...

    def declare_upper_bound(self, signal: Signal | int, most: int) -> Signal:
        """Record an upper bound that other constraints enforce; adds no constraint.

        Returns the signal.
        """
        ...

    def pack(self, bits: Sequence[Signal | int]) -> Signal:
        """Return the number with these bits, least significant first."""
        ...

    def hint_bit(self, signal: Signal | int, position: int) -> Signal:
        """Return a new wire without constraints, to which the prover assigns a bit of a signal."""
        ...


def low_bits(
    system: BitConstraints, signal: Signal | int, count: int | None = None
) -> list[Signal]:
    """Decompose a signal into `count` bits, least significant first, with a range check.

    Adds `count` + 1 constraints, which also enforce that the signal is below 2**count. Without
    `count`, calls `strict_bits`. Raises InputError unless 1 <= count < prime.bit_length().
    """
    value = signal_of(system, signal)
    if count is None:
        return strict_bits(system, value)
    max_count = system.prime.bit_length() - 1
    count = whole_number("the count of bits", count, 1, max_count)
    bits = [system.hint_bit(value, position) for position in range(count)]
    for bit in bits:
        system.boolean(bit)
    system.assert_equal(system.pack(bits), value)
    if value.constant is None:
        system.declare_upper_bound(value, (1 << count) - 1)
    return bits


def strict_bits(system: BitConstraints, signal: Signal | int) -> list[Signal]:
    """Decompose a signal into all bits of its residue in [0, prime), least significant first.

    The bits are compared with prime - 1 from the top. Where prime - 1 has a 0, a bit must be 0
    unless some higher bit is 0 where prime - 1 has a 1. Products of the bits at consecutive ones of
    prime - 1 show whether there is one (bellman's `into_bits_le_strict`).
    """
    value = signal_of(system, signal)
    prefix_equal: Signal | None = None
    ones: list[Signal] = []
    bits: list[Signal] = []
    largest = system.prime - 1
    for position in reversed(range(largest.bit_length())):
        if largest >> position & 1:
            bit = system.hint_bit(value, position)
            system.boolean(bit)
            ones.append(bit)
        else:
            if ones:
                product, *others = ones + ([] if prefix_equal is None else [prefix_equal])
                for other in others:
                    product = system.multiply(product, other)
                prefix_equal, ones = product, []
            bit = system.hint_bit(value, position)
            bit_must_be_zero = system.zero if prefix_equal is None else prefix_equal
            system.enforce(system.one - bit_must_be_zero - bit, bit, system.zero)
            # As `bit_must_be_zero` is a product of bits, the constraint implies a bit of 0 or 1.
            system.declare_upper_bound(bit, 1)
        bits.append(bit)
    bits.reverse()
    system.enforce(system.zero, system.zero, system.pack(bits) - value)
    return bits

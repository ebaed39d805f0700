"""Bits of signals, with the constraints that tie them to the signal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from quod.r1cs.signal import Signal, Tracing, hide_frames_of, signal_of
from quod.validation import whole_number

hide_frames_of(__file__)


class BitSystem(Tracing, Protocol):
    """The methods of `ConstraintSystem` that operations on bits use."""

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

    def declare_at_most(self, signal: Signal | int, most: int) -> Signal:
        """Record that other constraints show a bound of a signal."""
        ...

    def pack(self, bits: Sequence[Signal | int]) -> Signal:
        """Return the number with these bits, least first."""
        ...

    def hint_bit(self, signal: Signal | int, position: int) -> Signal:
        """Return a wire with a bit of a signal."""
        ...


def low_bits(system: BitSystem, signal: Signal | int, count: int | None = None) -> list[Signal]:
    """Decompose a signal into `count` bits, least first; constrains it to be below 2**count.

    Costs `count` + 1 constraints. Without `count`, returns all bits of the integer below the prime
    (`strict_bits`). InputError for a count of the prime's length or more.
    """
    value = signal_of(system, signal)
    if count is None:
        return strict_bits(system, value)
    most = system.prime.bit_length() - 1
    count = whole_number("the count of bits", count, 1, most)
    bits = [system.hint_bit(value, position) for position in range(count)]
    for bit in bits:
        system.boolean(bit)
    system.assert_equal(system.pack(bits), value)
    if value.constant is None:
        system.declare_at_most(value, (1 << count) - 1)
    return bits


def strict_bits(system: BitSystem, signal: Signal | int) -> list[Signal]:
    """Decompose a signal into all bits of its integer below the prime, least first.

    Bits are compared with prime - 1 from the top, by its runs of ones: where prime - 1 has a 0, a
    bit may be 1 only if a bit above it is 0 where prime - 1 has a 1 (bellman's
    `into_bits_le_strict`).
    """
    value = signal_of(system, signal)
    last: Signal | None = None
    run: list[Signal] = []
    bits: list[Signal] = []
    most = system.prime - 1
    for position in reversed(range(most.bit_length())):
        if most >> position & 1:
            bit = system.hint_bit(value, position)
            system.boolean(bit)
            run.append(bit)
        else:
            if run:
                product, *others = run + ([] if last is None else [last])
                for other in others:
                    product = system.multiply(product, other)
                last, run = product, []
            bit = system.hint_bit(value, position)
            must_be_zero = system.zero if last is None else last
            system.enforce(system.one - must_be_zero - bit, bit, system.zero)
            # `must_be_zero` is a product of bits.
            system.declare_at_most(bit, 1)
        bits.append(bit)
    bits.reverse()
    system.enforce(system.zero, system.zero, system.pack(bits) - value)
    return bits

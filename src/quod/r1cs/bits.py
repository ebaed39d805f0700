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
        """The signal is 0 or 1."""
        ...

    def enforce(self, a: Signal | int, b: Signal | int, c: Signal | int) -> None:
        """The constraint a·b = c."""
        ...

    def assert_equal(self, a: Signal | int, b: Signal | int) -> None:
        """The constraint a = b."""
        ...

    def declare_at_most(self, signal: Signal | int, most: int) -> Signal:
        """Record that other constraints show a bound of a signal."""
        ...

    def pack(self, bits: Sequence[Signal | int]) -> Signal:
        """The number whose bits these are."""
        ...

    def hint_bit(self, signal: Signal | int, position: int) -> Signal:
        """A wire with a bit of a signal."""
        ...


def low_bits(system: BitSystem, signal: Signal | int, count: int | None = None) -> list[Signal]:
    """The `count` bits of a signal, least first, which shows that it is below 2**count.

    By default there are as many as the prime has, of the integer below the prime and no other
    (`strict_bits`). `count` + 1 constraints. InputError for a count as long as the prime.
    """
    value = signal_of(system, signal)
    if count is None:
        return strict_bits(system, value)
    most = system.prime.bit_length() - 1
    count = whole_number("the count of bits", count, 1, most)
    found = [system.hint_bit(value, position) for position in range(count)]
    for bit in found:
        system.boolean(bit)
    system.assert_equal(system.pack(found), value)
    if value.constant is None:
        system.declare_at_most(value, (1 << count) - 1)
    return found


def strict_bits(system: BitSystem, signal: Signal | int) -> list[Signal]:
    """All bits of the integer below the prime that a signal is, least first.

    From the top a run of ones of prime - 1 is compared at a time: a bit where that has a 0 may be 1
    only if one above, where it has a 1, is 0 (bellman's `into_bits_le_strict`).
    """
    value = signal_of(system, signal)
    last: Signal | None = None
    run: list[Signal] = []
    found: list[Signal] = []
    most = system.prime - 1
    for position in reversed(range(most.bit_length())):
        if most >> position & 1:
            bit = system.hint_bit(value, position)
            system.boolean(bit)
            run.append(bit)
        else:
            if run:
                product, *rest = run + ([] if last is None else [last])
                for other in rest:
                    product = system.multiply(product, other)
                last, run = product, []
            bit = system.hint_bit(value, position)
            must_be_zero = system.zero if last is None else last
            system.enforce(system.one - must_be_zero - bit, bit, system.zero)
            # `must_be_zero` is a product of bits.
            system.declare_at_most(bit, 1)
        found.append(bit)
    found.reverse()
    system.enforce(system.zero, system.zero, system.pack(found) - value)
    return found

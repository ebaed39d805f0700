"""Packing of bits into field elements, as many as fit, and unpacking."""

from __future__ import annotations

from collections.abc import Sequence

from quod.r1cs.gadgets.signals import bit_signals, signals
from quod.r1cs.signal import Signal, hide_frames_of
from quod.r1cs.system import ConstraintSystem, Operand
from quod.validation import whole_number

hide_frames_of(__file__)


def assert_bits(system: ConstraintSystem, bits: Sequence[Operand]) -> None:
    """Constrain each signal to 0 or 1; one constraint each."""
    for bit in signals(system, "the bits", bits):
        system.boolean(bit)


def pack_elements(
    system: ConstraintSystem, bits: Sequence[Operand], size: int | None = None
) -> list[Signal]:
    """Pack bits, least significant first, into numbers of `size` bits; no constraint.

    The last number may have fewer bits.

    The default size is the largest for which every number is below the prime: 253 over BN254.
    """
    signals = bit_signals(system, "the bits", bits)
    max_size = system.prime.bit_length() - 1
    size = max_size if size is None else whole_number("size", size, 1, max_size)
    return [system.pack(signals[index : index + size]) for index in range(0, len(signals), size)]


def unpack_elements(
    system: ConstraintSystem, elements: Sequence[Operand], size: int
) -> list[Signal]:
    """Return the bits of numbers, constrained to be below 2**size; size + 1 constraints each."""
    size = whole_number("size", size, 1, system.prime.bit_length() - 1)
    numbers = signals(system, "the elements", elements)
    return [bit for element in numbers for bit in system.bits(element, size)]

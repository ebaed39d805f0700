"""Directions and element orders of transforms, and bit reversal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, get_args

import numpy as np

from quod.validation import choice

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from quod.kernel.ir.value import Value

Ordering = Literal["NN", "NR", "RN", "RR"]
"""Order of the input and of the output: N natural, R bit-reversed."""

Way = Literal["forward", "inverse"]
"""From coefficients to evaluations, or back."""


def check_ordering(ordering: object) -> None:
    """Raise InputError unless the argument is an `Ordering`."""
    choice("an ordering", ordering, get_args(Ordering))


def check_way(way: object) -> None:
    """Raise InputError unless the argument is a `Way`."""
    choice("a way", way, get_args(Way))


def reversed_bits(number: int, bits: int) -> int:
    """Reverse the bits of a number below 2**bits."""
    return int(format(number, f"0{bits}b")[::-1], 2) if bits else 0


def reversed_value(value: Value, bits: Value | int) -> Value:
    """Reverse the `bits` bits of a u32 below 2**bits."""
    for shift, mask in ((1, 0x55555555), (2, 0x33333333), (4, 0x0F0F0F0F), (8, 0x00FF00FF)):
        value = ((value >> shift) & mask) | ((value & mask) << shift)
    value = (value >> 16) | (value << 16)
    # For 0 bits the shift by 32 counts as a shift by 0, and the value is 0 anyway.
    return value >> (32 - bits)


def bit_reversal(bits: int) -> NDArray[np.uint32]:
    """Return each index below 2**bits with its `bits` bits reversed."""
    table = np.zeros(1, np.uint32)
    for _ in range(bits):
        table = np.concatenate([table * 2, table * 2 + 1], dtype=np.uint32)
    return table

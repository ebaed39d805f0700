"""The rounding and the widths of the integer program, on NumPy's int64 and on Python integers."""

from __future__ import annotations

from math import isqrt
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]
N = TypeVar("N", int, Integers)

ACTIVATION = (1 << 15) - 1
"""Activations saturate at these 16 bits."""
WIDE = (1 << 23) - 1
"""The inputs of the last product of a feed-forward network saturate at these 24 bits."""
MAX_RESIDUAL_BITS = 27


def residual_bits(width: int) -> int:
    """Return b such that the residual stream saturates at 2**b - 1: sums of squares fit 63 bits."""
    return min(MAX_RESIDUAL_BITS, (63 - (width - 1).bit_length()) // 2)


def round_shift(value: N, shift: int) -> N:
    """Return value / 2**shift, rounded to nearest, ties upward; shift is not negative."""
    return (value + ((1 << shift) >> 1)) >> shift


def clamp(value: Integers, limit: int) -> Integers:
    """Return the values, saturating at `limit` and -limit."""
    return np.clip(value, -limit, limit)


def nearest_scaled(value: float, shift: int) -> int:
    """Return the nearest integer to value * 2**shift, ties upward, exactly."""
    numerator, denominator = value.as_integer_ratio()
    if shift >= 0:
        numerator <<= shift
    else:
        denominator <<= -shift
    return (2 * numerator + denominator) // (2 * denominator)


def nearest_root_scaled(value: float, square: int, shift: int) -> int:
    """Return the nearest integer to value * sqrt(square) * 2**shift, exactly."""
    numerator, denominator = abs(value).as_integer_ratio()
    if shift >= 0:
        numerator <<= shift
    else:
        denominator <<= -shift
    root = isqrt(4 * numerator * numerator * square // (denominator * denominator))
    return (root + 1) // 2 * (-1 if value < 0 else 1)


def root_bits(value: float, square: int) -> int:
    """Return the least k, from -200, with |value| * sqrt(square) < 2**k, exactly."""
    numerator, denominator = value.as_integer_ratio()
    scaled = (numerator * numerator * square << 400) // (denominator * denominator)
    # floor(a) < 2**n if and only if a < 2**n.
    return (max(scaled, 1).bit_length() + 1) // 2 - 200


def inverse_root(square_sum: int) -> tuple[int, int]:
    """Return (root, shift): root / 2**(31 + shift) is the inverse square root of a number.

    square_sum: from 512 to 2**63 - 1. With m = square_sum / 2**(2 shift), rounded down, which has
    21 or 22 bits, root is the largest integer with root**2 * m <= 2**62.
    """
    shift = -((22 - square_sum.bit_length()) // 2)
    m = square_sum >> 2 * shift if shift >= 0 else square_sum << -2 * shift
    return isqrt((1 << 62) // m), shift

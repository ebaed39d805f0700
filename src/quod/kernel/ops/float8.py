"""Conversions between 8-bit floats and f32 in NumPy, which lacks these types.

Numbers out of range, including infinities, saturate to the largest number, and NaN becomes 0x7f, as
in NVIDIA's instructions (PTX ISA 9.0, "cvt", `.satfinite`). Source: OCP 8-bit Floating Point
Specification (OFP8), revision 1.0, 2023.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from quod.frozen import frozen
from quod.kernel.ir.types import Type, e4m3

Array = np.ndarray[Any, Any]

NAN = 0x7F
"""The bits of NaN results."""


@frozen
class _Format:
    """A type's number of mantissa bits, exponent bias, and the bits of its largest number."""

    mantissa_bits: int
    bias: int
    greatest: int


_E4M3, _E5M2 = _Format(3, 7, 0x7E), _Format(2, 15, 0x7B)


@functools.cache
def _magnitudes(element: Type) -> Array:
    """Return the f32 values of the bit patterns 0 to 0x7f, those without sign."""
    format_ = _E4M3 if element is e4m3 else _E5M2
    bits = np.arange(128)
    exponent, mantissa = bits >> format_.mantissa_bits, bits & ((1 << format_.mantissa_bits) - 1)
    significand = np.where(exponent == 0, mantissa, mantissa | 1 << format_.mantissa_bits)
    magnitudes: Array = np.ldexp(
        significand.astype(np.float32),
        np.maximum(exponent, 1) - format_.bias - format_.mantissa_bits,
    )
    magnitudes[format_.greatest + 1 :] = np.nan
    if element is not e4m3:
        magnitudes[format_.greatest + 1] = np.inf
    return magnitudes


@functools.cache
def _values(element: Type) -> Array:
    magnitudes = _magnitudes(element)
    values: Array = np.concatenate([magnitudes, -magnitudes])
    return values


def greatest(element: Type) -> float:
    """Return the largest number of an 8-bit float type."""
    return float(np.nanmax(_magnitudes(element)[np.isfinite(_magnitudes(element))]))


def values_of(element: Type, bits: Array) -> Array:
    """Decode an array of uint8 to f32."""
    decoded: Array = _values(element)[bits]
    return decoded


def nearest(element: Type, numbers: Array) -> Array:
    """Encode f32 to uint8, rounding to nearest even and saturating."""
    magnitudes = _magnitudes(element)[np.isfinite(_magnitudes(element))]
    midpoints = (magnitudes[1:] + magnitudes[:-1]) / np.float32(2)
    magnitude = np.abs(numbers)
    codes = np.searchsorted(midpoints, magnitude)
    is_tie = (codes < len(midpoints)) & (
        midpoints[np.minimum(codes, len(midpoints) - 1)] == magnitude
    )
    codes = codes + (is_tie & (codes % 2 == 1))
    codes = np.where(np.signbit(numbers), codes | 0x80, codes)
    return np.where(np.isnan(numbers), NAN, codes).astype(np.uint8)


def pack(element: Type, low: Array, high: Array) -> Array:
    """Pack two numbers as elements into the low half of each word."""
    words = [nearest(element, numbers).astype(np.uint32) for numbers in (low, high)]
    result: Array = words[0] | words[1] << np.uint32(8)
    return result


def unpack_e4m3(words: Array) -> Array:
    """Unpack the two e4m3 in the low half of each word to two f16 in a word; NaN is 0x7fff."""
    halves = np.zeros(len(words), np.uint32)
    for shift in map(np.uint32, (0, 8)):
        numbers = values_of(e4m3, (words >> shift).astype(np.uint8)).astype(np.float16)
        bits = np.where(np.isnan(numbers), np.uint16(0x7FFF), numbers.view(np.uint16))
        halves |= bits.astype(np.uint32) << (np.uint32(2) * shift)
    return halves

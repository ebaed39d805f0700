"""Semantics of the ops as NumPy functions over all lanes.

These functions are the definition that folding, the interpreter and every target share. Integer
arithmetic wraps. Floating-point arithmetic is IEEE 754, rounded to nearest even after each op, with
subnormal numbers; the bits of a NaN are unspecified.
"""

from __future__ import annotations

import math
import sys
from typing import Any

import numpy as np

from quod.kernel.ir import types
from quod.kernel.ir.types import Type

Array = np.ndarray[Any, Any]

NUMPY_TYPES: dict[Type, type[np.generic]] = {
    types.bool_: np.bool_,
    types.u8: np.uint8,
    types.u16: np.uint16,
    types.i8: np.int8,
    types.i16: np.int16,
    types.f16: np.float16,
    types.bf16: np.uint16,  # as bits: NumPy has no type for these floats
    types.e4m3: np.uint8,
    types.e5m2: np.uint8,
    types.u32: np.uint32,
    types.u64: np.uint64,
    types.i32: np.int32,
    types.i64: np.int64,
    types.f32: np.float32,
    types.f64: np.float64,
    types.cc: np.bool_,
}

# The index of the high half among the 32-bit halves of a 64-bit word.
_HIGH_HALVES = slice(1 if sys.byteorder == "little" else 0, None, 2)
_MASK32 = np.uint64(0xFFFFFFFF)
_MASK52 = np.uint64((1 << 52) - 1)


def _bits(a: Array) -> int:
    return int(a.dtype.itemsize) * 8


# --- integer arithmetic


def _multiply_high_u64(a: Array, b: Array) -> Array:
    half = np.uint64(32)
    a0, a1, b0, b1 = a & _MASK32, a >> half, b & _MASK32, b >> half
    middle = a1 * b0 + ((a0 * b0) >> half)
    cross = (middle & _MASK32) + a0 * b1
    result: Array = a1 * b1 + (middle >> half) + (cross >> half)
    return result


def multiply_wide(a: Array, b: Array) -> Array:
    result: Array = np.multiply(a, b, dtype=np.uint64)
    return result


def multiply_high(a: Array, b: Array) -> Array:
    if a.dtype == np.uint32:
        high: Array = np.multiply(a, b, dtype=np.uint64).view(np.uint32)[_HIGH_HALVES]
        return high
    return _multiply_high_u64(a, b)


def multiply_add_52_low(c: Array, a: Array, b: Array) -> Array:
    result: Array = c + (((a & _MASK52) * (b & _MASK52)) & _MASK52)
    return result


def multiply_add_52_high(c: Array, a: Array, b: Array) -> Array:
    a, b = a & _MASK52, b & _MASK52
    result: Array = c + ((_multiply_high_u64(a, b) << np.uint64(12)) | ((a * b) >> np.uint64(52)))
    return result


def shift_amount(a: Array, n: Array) -> Array:
    """Reduce shift amounts modulo the width of the shifted numbers."""
    result: Array = n.astype(a.dtype) & a.dtype.type(_bits(a) - 1)
    return result


def divide(a: Array, b: Array) -> Array:
    if a.dtype.kind == "f":
        quotient: Array = np.divide(a, b)
        return quotient
    return np.where(b == 0, ~a.dtype.type(0), a // np.where(b == 0, a.dtype.type(1), b))


def remainder(a: Array, b: Array) -> Array:
    return np.where(b == 0, a, a % np.where(b == 0, a.dtype.type(1), b))


def count_leading_zeros(a: Array) -> Array:
    bits = _bits(a)
    count = np.full(a.shape, bits, a.dtype)
    for position in range(bits):
        count = np.where(a >> a.dtype.type(position) != 0, a.dtype.type(bits - 1 - position), count)
    return count


def count_trailing_zeros(a: Array) -> Array:
    lowest = a & (~a + a.dtype.type(1))
    counts: Array = a.dtype.type(_bits(a) - 1) - count_leading_zeros(lowest)
    return np.where(a == 0, a.dtype.type(_bits(a)), counts)


# --- carry chains


def add_carry(a: Array, b: Array, carry: Array | None = None) -> tuple[Array, Array]:
    partial = a + b
    if carry is None:
        return partial, partial < a
    total = partial + carry
    return total, (partial < a) | (total < partial)


def subtract_borrow(a: Array, b: Array, borrow: Array | None = None) -> tuple[Array, Array]:
    partial = a - b
    if borrow is None:
        return partial, partial > a
    total = partial - borrow
    return total, (partial > a) | (total > partial)


def multiply_low_add(
    a: Array, b: Array, c: Array, carry: Array | None = None
) -> tuple[Array, Array]:
    return add_carry(a * b, c, carry)


def multiply_high_add(
    a: Array, b: Array, c: Array, carry: Array | None = None
) -> tuple[Array, Array]:
    return add_carry(multiply_high(a, b), c, carry)


# --- floating point


def minimum(a: Array, b: Array) -> Array:
    """Compute IEEE 754-2019 `minimum` for floats: NaN if either is, and -0 below +0."""
    smaller: Array = np.minimum(a, b)
    if a.dtype.kind == "f":
        return np.where((a == 0) & (b == 0), np.where(np.signbit(a), a, b), smaller)
    return smaller


def maximum(a: Array, b: Array) -> Array:
    """Compute IEEE 754-2019 `maximum` for floats: NaN if either is, and -0 below +0."""
    larger: Array = np.maximum(a, b)
    if a.dtype.kind == "f":
        return np.where((a == 0) & (b == 0), np.where(np.signbit(a), b, a), larger)
    return larger


def _fused_f32(a: Array, b: Array, c: Array) -> Array:
    """Compute a * b + c with one rounding.

    The product is exact in binary64. The sum is rounded to odd there, so that one rounding to
    binary32 remains (Boldo and Melquiond, Emulation of FMA and correctly rounded sums, 2008). Its
    error is that of Knuth's TwoSum.
    """
    product = a.astype(np.float64) * b.astype(np.float64)
    addend = c.astype(np.float64)
    total = product + addend
    recovered_addend = total - product
    error = (product - (total - recovered_addend)) + (addend - recovered_addend)
    inexact = np.isfinite(total) & (error != 0)
    even = total.view(np.uint64) & np.uint64(1) == 0
    odd = np.nextafter(total, np.where(error > 0, np.inf, -np.inf))
    rounded: Array = np.where(inexact & even, odd, total).astype(np.float32)
    return rounded


def _fused_f64(a: float, b: float, c: float) -> float:
    if not (math.isfinite(a) and math.isfinite(b) and math.isfinite(c)):
        # Without a * b: the product of finite a and b is finite in exact arithmetic, but may
        # overflow here, and would then turn an infinite c into NaN.
        if math.isfinite(a) and math.isfinite(b):
            return c
        return a * b + c
    from fractions import Fraction

    exact = Fraction(a) * Fraction(b) + Fraction(c)
    if exact == 0:
        # The sign of zero: an exact cancellation gives +0, two zeros of one sign keep it.
        return a * b + c if a == 0 or b == 0 else 0.0
    try:
        rounded = float(exact)
    except OverflowError:
        rounded = math.inf
    return math.copysign(rounded, -1.0 if exact < 0 else 1.0)


def fused_multiply_add(a: Array, b: Array, c: Array) -> Array:
    if a.dtype == np.float32:
        return _fused_f32(a, b, c)
    rows = zip(a.tolist(), b.tolist(), c.tolist(), strict=True)
    return np.array([_fused_f64(*row) for row in rows], np.float64)


def dot_of_bytes(a: Array, b: Array, c: Array) -> Array:
    total = c
    for shift in map(np.uint32, (24, 16, 8, 0)):
        x, y = (((word << shift).view(np.int32)) >> np.int32(24) for word in (a, b))
        total = total + x * y
    return total


def dot_of_halves(a: Array, b: Array, c: Array) -> Array:
    total = c
    for shift in map(np.uint32, (16, 0)):
        x, y = (((word << shift).view(np.int32)) >> np.int32(16) for word in (a, b))
        total = total + x * y
    return total


def dot_of_halves_and_low_bytes(a: Array, b: Array, c: Array) -> Array:
    low, high = (b & np.uint32(0xFF)), (b >> np.uint32(8)) & np.uint32(0xFF)
    return dot_of_halves(a, low | high << np.uint32(16), c)


def dot_of_halves_and_high_bytes(a: Array, b: Array, c: Array) -> Array:
    low, high = (
        ((b << np.uint32(shift)).view(np.int32) >> np.int32(24)).view(np.uint32) for shift in (8, 0)
    )
    return dot_of_halves(a, (low & np.uint32(0xFFFF)) | high << np.uint32(16), c)


def inverse_square_root(a: Array) -> Array:
    result: Array = a.dtype.type(1) / np.sqrt(a)
    return result


def power_of_two(a: Array) -> Array:
    """Compute 2**a in f64 and round it to the type of `a`."""
    result: Array = np.exp2(a.astype(np.float64)).astype(a.dtype)
    return result


def normal_power_of_two(a: Array) -> Array:
    """Compute 2**a as `power_of_two` does, flushing subnormal results to 0."""
    result = power_of_two(a)
    min_normal = np.finfo(a.dtype).tiny
    flushed: Array = np.where(result < min_normal, result.dtype.type(0), result)
    return flushed


def reciprocal(a: Array) -> Array:
    result: Array = a.dtype.type(1) / a
    return result


# --- floats of 16 bits, two in a word

_NAN16 = np.uint32(0x7FFF)
"""The bits of NaN that GPUs return, as f16 and as bf16."""


def unpack_f16_low(word: Array) -> Array:
    result: Array = word.astype(np.uint16).view(np.float16).astype(np.float32)
    return result


def unpack_f16_high(word: Array) -> Array:
    return unpack_f16_low(word >> np.uint32(16))


def _f16_bits(a: Array) -> Array:
    bits = a.astype(np.float16).view(np.uint16).astype(np.uint32)
    return np.where(np.isnan(a), _NAN16, bits)


def _bf16_bits(a: Array) -> Array:
    word = a.view(np.uint32)
    odd = (word >> np.uint32(16)) & np.uint32(1)
    return np.where(np.isnan(a), _NAN16, (word + np.uint32(0x7FFF) + odd) >> np.uint32(16))


def pack_f16(low: Array, high: Array) -> Array:
    result: Array = _f16_bits(low) | _f16_bits(high) << np.uint32(16)
    return result


def pack_bf16(low: Array, high: Array) -> Array:
    result: Array = _bf16_bits(low) | _bf16_bits(high) << np.uint32(16)
    return result


# --- floats of 8 bits; their module is loaded only for kernels that use them


def unpack_e4m3(words: Array) -> Array:
    from quod.kernel.ops import float8

    return float8.unpack_e4m3(words)


def pack_e4m3(low: Array, high: Array) -> Array:
    from quod.kernel.ops import float8

    return float8.pack(types.e4m3, low, high)


def pack_e5m2(low: Array, high: Array) -> Array:
    from quod.kernel.ops import float8

    return float8.pack(types.e5m2, low, high)


# --- conversions


def _float_to_integer(a: Array, target: np.dtype[Any]) -> Array:
    limits = np.iinfo(target)
    # min and max + 1 are powers of two (or 0), exact in f32 and f64.
    low, high = a.dtype.type(limits.min), a.dtype.type(limits.max + 1)
    inside = (a > low) & (a < high)
    result = np.where(inside, a, a.dtype.type(0)).astype(target)
    result = np.where(a >= high, target.type(limits.max), result)
    return np.where(a <= low, target.type(limits.min), result)


def convert(a: Array, target: Type) -> Array:
    """Convert numbers to another scalar type.

    Integer to integer: the low bits, extended by the sign of the source. Integer to float and
    float to float: to nearest even. Float to integer: toward zero, clamped to the target's range,
    0 for NaN. To bool: whether the number differs from zero. From bool: 0 or 1.
    """
    dtype = np.dtype(NUMPY_TYPES[target])
    if a.dtype.kind == "f" and dtype.kind in "iu":
        return _float_to_integer(a, dtype)
    return a.astype(dtype)


def bitcast(a: Array, target: Type) -> Array:
    """Reinterpret the bits of `a` as a type of the same width."""
    return np.ascontiguousarray(a).view(NUMPY_TYPES[target])

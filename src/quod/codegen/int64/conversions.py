"""Conversions between wide numbers, words and floats."""

from __future__ import annotations

from quod.codegen.int64.arithmetic import WideArithmetic
from quod.codegen.int64.forms import Number, Wide
from quod.kernel.ir import types
from quod.kernel.ir.types import Type
from quod.kernel.ir.value import Value


def convert(wide: WideArithmetic, number: Number, source: Type, target: Type) -> Number:
    """Convert a number to another type, as the op ``convert`` does."""
    k = wide.k
    if isinstance(number, Wide):
        return _convert_wide(wide, number, target)
    if target not in (types.u64, types.i64):
        return k.cast(number, target)
    if source.kind == "float":
        return _from_float(wide, number, target)
    if source.kind == "signed":
        bits = k.bitcast(number, types.u32)
        return Wide(target, (bits, k.bitcast(number >> 31, types.u32)))
    return Wide(target, (k.cast(number, types.u32), wide.word(0)))


def _convert_wide(wide: WideArithmetic, number: Wide, target: Type) -> Number:
    k = wide.k
    if target in (types.u64, types.i64):
        return bitcast(wide, number, target)
    if target is types.bool_:
        low, high = wide.halves(number)
        return (low | high) != 0
    if target.kind == "float":
        return _to_float(wide, number)
    low = wide.low(number)
    return low if target is types.u32 else k.bitcast(low, target)


def bitcast(wide: WideArithmetic, number: Number, target: Type) -> Number:
    """Reinterpret the bits of a number as another type of the same width."""
    if isinstance(number, Wide):
        if number.halves is not None:
            return Wide(target, number.halves)
        assert number.native is not None
        if number.native.type is target:
            return number
        return Wide(target, native=wide.k.bitcast(number.native, target))
    return wide.k.bitcast(number, target)


def _from_float(wide: WideArithmetic, number: Value, target: Type) -> Wide:
    """Convert a float to a wide integer: toward zero, saturating, 0 for NaN."""
    k = wide.k
    bits = k.bitcast(number, types.u32)
    exponent = (bits >> 23) & 0xFF
    mantissa = Wide(types.u64, ((bits & 0x7FFFFF) | 0x800000, wide.word(0)))
    unit, zero = wide.constant(1, types.u64), wide.constant(0, types.u64)
    # The value is mantissa * 2**(exponent - 150).
    shifted_left = wide.shift_by_value("shl", mantissa, (exponent - 150) & 63)
    shifted_right = wide.shift_by_value("shr", mantissa, (150 - exponent) & 63)
    magnitude = wide.select_wide(exponent >= 150, shifted_left, shifted_right)
    magnitude = wide.select_wide(exponent < 127, zero, magnitude)
    negative = (bits >> 31) != 0
    is_nan = number != number
    if target is types.u64:
        magnitude = wide.select_wide(exponent >= 127 + 64, wide.subtract(zero, unit), magnitude)
        return wide.select_wide(negative | is_nan, zero, magnitude)
    minimum = wide.constant(1 << 63, types.u64)
    too_large = exponent >= 127 + 63
    magnitude = wide.select_wide(too_large, wide.subtract(minimum, unit), magnitude)
    signed = wide.select_wide(negative, wide.subtract(zero, magnitude), magnitude)
    signed = wide.select_wide(too_large & negative, minimum, signed)
    signed = wide.select_wide(is_nan, zero, signed)
    return Wide(types.i64, wide.halves(signed))


def _to_float(wide: WideArithmetic, number: Wide) -> Value:
    """Convert a wide integer to f32, to nearest even, by its 26 leading bits.

    The last of them is sticky, so that rounding happens once.
    """
    k = wide.k
    sign = wide.word(0)
    if number.type is types.i64:
        high = wide.halves(number)[1]
        negative = (high >> 31) != 0
        sign = high & 0x80000000
        number = wide.select_wide(negative, wide.negate(number), number)
    number = Wide(types.u64, wide.halves(number))
    length = 64 - wide.halves(wide.count("clz", number))[0]
    shift = k.select(length > 26, length - 26, 0)
    top = wide.shift_by_value("shr", number, shift)
    restored = wide.shift_by_value("shl", top, shift)
    sticky = k.cast(wide.compare("ne", restored, number), types.u32)
    leading = wide.low(top) | sticky
    # Round 26 bits to 24 explicitly, as WGSL leaves the rounding of conversions open.
    extra_bits = k.select(length > 24, k.minimum(length, 26) - 24, 0)
    halfway = k.select(extra_bits == 0, 0, (k.constant(1, types.u32) << extra_bits) >> 1)
    mantissa = leading >> extra_bits
    dropped_bits = leading - (mantissa << extra_bits)
    rounds_up = (dropped_bits > halfway) | (
        (dropped_bits == halfway) & (extra_bits != 0) & ((mantissa & 1) != 0)
    )
    rounded = k.cast(mantissa + k.cast(rounds_up, types.u32), types.f32)
    scale = k.bitcast((shift + extra_bits + 127) << 23, types.f32)
    return k.bitcast(k.bitcast(rounded * scale, types.u32) | sign, types.f32)

"""Conversions of 8- and 16-bit floats by integer ops, for machines without instructions for them.

Results are bit-identical everywhere. WGSL leaves rounding and subnormals of float ops to drivers,
so only integer ops are used.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from quod.frozen import frozen
from quod.kernel.ir.types import f32, u32
from quod.kernel.ir.value import Arithmetic, Value

_NAN = 0x7FFF
_INFINITE = 0x7F800000
_NAN_F32 = 0x7FC00000


@frozen
class _Format:
    """A narrow float format.

    bits: its width.
    digits: the number of mantissa bits.
    bias: the exponent bias.
    most: the result of overflow, as bits without the sign bit.
    """

    bits: int
    digits: int
    bias: int
    most: int

    @property
    def rebiased(self) -> int:
        """The exponent bias of f32 minus that of the format, at the exponent's position in f32."""
        return (127 - self.bias) << 23

    @property
    def least(self) -> int:
        """The exponent of the smallest positive number."""
        return 1 - self.bias - self.digits

    @property
    def sign(self) -> int:
        return 1 << (self.bits - 1)


_F16 = _Format(16, 10, 15, 0x7C00)
_E4M3 = _Format(8, 3, 7, 0x7E)
_E5M2 = _Format(8, 2, 15, 0x7B)


def _finite(k: Arithmetic, bits: Value, format_: _Format) -> tuple[Value, Value, Value]:
    """Convert a finite number, zero-extended to a word, to f32 bits without the sign bit.
    Also returns its own bits without the sign, and its exponent bits, both shifted to their
    positions in an f32.
    """
    shifted = (bits & (format_.sign - 1)) << (23 - format_.digits)
    exponent = shifted & ((1 << (format_.bits - 1 - format_.digits)) - 1 << 23)
    # A subnormal is an integer multiple of the smallest one; its top bit gives the exponent.
    mantissa = bits & ((1 << format_.digits) - 1)
    top_bit = k.constant(31, u32) - k.emit("clz", (mantissa | 1,))
    subnormal = ((top_bit + (127 + format_.least)) << 23) + (
        (mantissa << (k.constant(23, u32) - top_bit)) & 0x7FFFFF
    )
    subnormal = k.select(mantissa == 0, k.constant(0, u32), subnormal)
    return k.select(exponent == 0, subnormal, shifted + format_.rebiased), shifted, exponent


def _f16_value(k: Arithmetic, bits: Value) -> Value:
    """Convert the bits of an f16, zero-extended to a word, to f32."""
    magnitude, shifted, exponent = _finite(k, bits, _F16)
    magnitude = k.select(exponent == 0x1F << 23, shifted + 2 * _F16.rebiased, magnitude)
    return k.bitcast(magnitude | ((bits & 0x8000) << 16), f32)


def _e4m3_value(k: Arithmetic, bits: Value) -> Value:
    """Convert the bits of an e4m3, zero-extended to a word, to f32."""
    magnitude, shifted, _ = _finite(k, bits, _E4M3)
    magnitude = k.select(shifted == 0x7F << 20, k.constant(_NAN_F32, u32), magnitude)
    return k.bitcast(magnitude | ((bits & 0x80) << 24), f32)


def _nearest(k: Arithmetic, value: Value, *, format_: _Format) -> Value:
    """Return the bits of the number of a format nearest to an f32, ties to even."""
    word = k.bitcast(value, u32)
    magnitude = word & 0x7FFFFFFF
    dropped = 23 - format_.digits
    normal = (
        magnitude - format_.rebiased + ((1 << (dropped - 1)) - 1) + ((magnitude >> dropped) & 1)
    )
    normal = k.minimum(normal >> dropped, format_.most)
    # Subnormal results are multiples of the smallest positive number; shifts beyond 25 leave 0.
    mantissa = (magnitude & 0x7FFFFF) | 0x800000
    shift = k.constant(150 + format_.least, u32) - k.minimum(magnitude >> 23, 127 - format_.bias)
    shift = k.minimum(shift, 25)
    half = k.constant(1, u32) << (shift - 1)
    subnormal = (mantissa + half - 1 + ((mantissa >> shift) & 1)) >> shift
    rounded = k.select(magnitude < format_.rebiased + (1 << 23), subnormal, normal)
    rounded = rounded | ((word >> (32 - format_.bits)) & format_.sign)
    return k.select(magnitude > _INFINITE, k.constant(format_.sign - 1, u32), rounded)


def _bf16_bits(k: Arithmetic, value: Value) -> Value:
    word = k.bitcast(value, u32)
    rounded = (word + 0x7FFF + ((word >> 16) & 1)) >> 16
    return k.select((word & 0x7FFFFFFF) > _INFINITE, k.constant(_NAN, u32), rounded)


FUNCTIONS: dict[str, Callable[[Arithmetic, Value], Value]] = {
    "f16_value": _f16_value,
    "f16_bits": partial(_nearest, format_=_F16),
    "bf16_bits": _bf16_bits,
    "e4m3_value": _e4m3_value,
    "e4m3_bits": partial(_nearest, format_=_E4M3),
    "e5m2_bits": partial(_nearest, format_=_E5M2),
}
"""The conversions by their names in a kernel's text form."""

"""Floats of 16 bits as device functions made of integer ops, for machines without instructions.

The same bits everywhere: WGSL leaves it to drivers how they round and what becomes of subnormal
numbers, so no operation on floats takes part.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from quod.kernel.types import f32, u32
from quod.kernel.value import Value

if TYPE_CHECKING:
    from quod.kernel.builder import Builder

_NAN = 0x7FFF
_REBIASED = (127 - 15) << 23
"""What the exponent of an f32 is more than that of an f16, in place."""
_INFINITE = 0x7F800000
_SMALLEST_NORMAL = 0x38800000
"""The bits of 2**-14, the least normal f16, as f32."""


def _f16_value(k: Builder, bits: Value) -> Value:
    """The f32 of the 16 bits of an f16, above which there are zeros."""
    size = (bits & 0x7FFF) << 13
    exponent = size & (0x1F << 23)
    # A subnormal one is a whole number of 2**-24: its highest bit says the exponent.
    whole = bits & 0x3FF
    top = k.constant(31, u32) - k.emit("clz", (whole | 1,))
    small = ((top + (127 - 24)) << 23) + ((whole << (k.constant(23, u32) - top)) & 0x7FFFFF)
    small = k.select(whole == 0, k.constant(0, u32), small)
    found = k.select(exponent == 0, small, size + _REBIASED)
    found = k.select(exponent == 0x1F << 23, size + 2 * _REBIASED, found)
    return k.bitcast(found | ((bits & 0x8000) << 16), f32)


def _f16_bits(k: Builder, value: Value) -> Value:
    word = k.bitcast(value, u32)
    size = word & 0x7FFFFFFF
    normal = k.minimum((size - _REBIASED + 0xFFF + ((size >> 13) & 1)) >> 13, 0x7C00)
    # Below 2**-14 results are whole numbers of 2**-24; beyond 25 places nothing is left.
    digits = (size & 0x7FFFFF) | 0x800000
    shift = k.constant(126, u32) - k.minimum(size >> 23, 112)
    shift = k.minimum(shift, 25)
    half = k.constant(1, u32) << (shift - 1)
    small = (digits + half - 1 + ((digits >> shift) & 1)) >> shift
    found = k.select(size < _SMALLEST_NORMAL, small, normal) | ((word >> 16) & 0x8000)
    return k.select(size > _INFINITE, k.constant(_NAN, u32), found)


def _bf16_bits(k: Builder, value: Value) -> Value:
    word = k.bitcast(value, u32)
    found = (word + 0x7FFF + ((word >> 16) & 1)) >> 16
    return k.select((word & 0x7FFFFFFF) > _INFINITE, k.constant(_NAN, u32), found)


FUNCTIONS: dict[str, Callable[[Builder, Value], Value]] = {
    "f16_value": _f16_value,
    "f16_bits": _f16_bits,
    "bf16_bits": _bf16_bits,
}
"""By the names that they have in a kernel's text."""

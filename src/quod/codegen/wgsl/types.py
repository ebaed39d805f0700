"""WGSL names of types, and WGSL constants."""

from __future__ import annotations

import math
import struct

from quod.errors import KernelError
from quod.kernel.ir import types
from quod.kernel.ir.types import Type

_TYPES = {
    types.bool_: "bool", types.u32: "u32", types.i32: "i32", types.f32: "f32", types.u64: "u64",
    types.i64: "i64",
}  # fmt: skip


def type_text(type_: Type) -> str:
    """Return the WGSL name of a type."""
    return _TYPES[type_]


def constant_text(number: int | float | bool, type_: Type) -> str:
    """Format a constant in WGSL."""
    match type_:
        case types.bool_:
            return "true" if number else "false"
        case types.u32:
            return f"{int(number)}u"
        case types.u64:
            return f"{int(number)}lu"
        case types.i32:
            return f"{int(number)}i" if number >= 0 else f"i32({int(number)})"
        case types.i64:
            # The smallest i64 has no literal.
            return f"{int(number)}li" if number >= 0 else f"(-{-(int(number) + 1)}li - 1li)"
        case types.f32:
            return _float_text(float(number))
    raise KernelError(f"WGSL has no constants of type {type_}")


def _float_text(number: float) -> str:
    if math.isfinite(number) and not (number == 0 and math.copysign(1, number) < 0):
        text = repr(float(number))
        return f"{text}f" if number >= 0 else f"({text}f)"
    # Written so that compilers do not see a constant: WGSL forbids constant infinities and NaN.
    bits = struct.unpack("<I", struct.pack("<f", number))[0]
    return f"bitcast<f32>({bits}u | (parameters.words[0].x & 0u))"

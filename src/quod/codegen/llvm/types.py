"""LLVM names of scalar types, and LLVM constants."""

from __future__ import annotations

import struct
from functools import cache

from quod.kernel.ir import types
from quod.kernel.ir.types import PointerType, Type

_SCALAR_NAMES = {
    types.bool_: "i1", types.u8: "i8", types.u16: "i16", types.i8: "i8", types.i16: "i16",
    types.u32: "i32", types.u64: "i64", types.f16: "i16", types.bf16: "i16", types.e4m3: "i8",
    types.e5m2: "i8",
    types.i32: "i32", types.i64: "i64", types.f32: "float", types.f64: "double", types.cc: "i1",
}  # fmt: skip


@cache
def scalar_name(type_: Type) -> str:
    """Return the LLVM name of a scalar type."""
    return "ptr" if isinstance(type_, PointerType) else _SCALAR_NAMES[type_]


def memory_name(element: Type) -> str:
    """Return the LLVM name of an element in memory; a bool is a byte."""
    return "i8" if element is types.bool_ else scalar_name(element)


def constant_text(number: int | float | bool, type_: Type) -> str:
    """Format a constant in LLVM IR."""
    if type_ is types.bool_:
        return "true" if number else "false"
    if type_.kind == "float":
        # LLVM writes both float widths as the bits of a double.
        return f"0x{struct.unpack('<Q', struct.pack('<d', float(number)))[0]:016X}"
    return str(int(number))


def mangled(kind: str) -> str:
    """Return the suffix of an intrinsic's name for one type."""
    if kind.startswith("<"):
        count, _, element = kind[1:-1].partition(" x ")
        return f"v{count}{mangled(element)}"
    return {"float": "f32", "double": "f64", "ptr": "p0"}.get(kind, kind)

"""PTX names of types and registers, and PTX constants."""

from __future__ import annotations

import struct

from quod.kernel.ir import types
from quod.kernel.ir.types import PointerType, Type

_REGISTERS = {
    types.bool_: "p", types.u8: "r", types.u16: "r", types.i8: "r", types.i16: "r",
    types.u32: "r", types.i32: "r",
    types.u64: "rd", types.i64: "rd", types.f32: "f", types.f64: "fd",
}  # fmt: skip

REGISTER_TYPES = {"p": "pred", "h": "b16", "r": "b32", "rd": "b64", "f": "f32", "fd": "f64"}
"""The PTX type of each kind of register, by the prefix of its names."""

_SUFFIXES = {
    types.u32: "u32", types.u64: "u64", types.i32: "s32", types.i64: "s64", types.f32: "f32",
    types.f64: "f64", types.bool_: "pred", types.u8: "u8", types.u16: "u16",
}  # fmt: skip


def register_kind(type_: Type) -> str:
    """Return the kind of register that holds a value; addresses of shared memory have 32 bits."""
    if isinstance(type_, PointerType):
        return "rd" if type_.space in ("global", "constant") else "r"
    return _REGISTERS[type_]


def suffix(type_: Type) -> str:
    """Return the type suffix of instructions."""
    return _SUFFIXES[type_]


def bits_suffix(type_: Type) -> str:
    """Return the untyped suffix of instructions."""
    return REGISTER_TYPES[register_kind(type_)].replace("f", "b")


def bits_or_float(type_: Type) -> str:
    """Return the type suffix for moving a value: untyped bits, or its float type."""
    return REGISTER_TYPES[register_kind(type_)]


def bits_register(type_: Type) -> str:
    """Return the kind of register for the bits of a type."""
    return "r" if type_.bits == 32 else "rd"


def constant_text(number: int | float | bool, type_: Type) -> str:
    """Format a constant in PTX."""
    if type_ is types.f32:
        return f"0f{struct.unpack('<I', struct.pack('<f', number))[0]:08X}"
    if type_ is types.f64:
        return f"0d{struct.unpack('<Q', struct.pack('<d', number))[0]:016X}"
    return str(int(number))


def parameter_type(type_: Type) -> str:
    """Return the parameter type that passes a value to a device function; a bool is a word."""
    return "b32" if type_ is types.bool_ else bits_or_float(type_)

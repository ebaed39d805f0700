"""Types of kernel values.

Every type is a single object, so types are compared with `is`. Numbers of 8 and 16 bits are
storage types only: a load widens integers to `u32`, or by their sign to `i32`, and floats to `f32`;
a store narrows integers and rounds floats.
"""

from __future__ import annotations

from functools import cached_property
from typing import Literal

from quod.frozen import frozen

Space = Literal["global", "shared", "private", "constant"]


@frozen(eq=False)
class Type:
    """A scalar type: the type of one lane's value."""

    name: str
    kind: Literal["bool", "unsigned", "signed", "float", "carry", "pointer"]
    bits: int

    def __repr__(self) -> str:
        return self.name

    @property
    def is_integer(self) -> bool:
        return self.kind in ("unsigned", "signed")

    # Cached because each launch reads it for each array.
    @cached_property
    def bytes(self) -> int:
        """Bytes of one value in memory."""
        return max(1, self.bits // 8)


@frozen(eq=False)
class PointerType(Type):
    """A pointer to elements of one type in one memory space."""

    element: Type
    space: Space


bool_ = Type("bool", "bool", 1)
u32 = Type("u32", "unsigned", 32)
u64 = Type("u64", "unsigned", 64)
i32 = Type("i32", "signed", 32)
i64 = Type("i64", "signed", 64)
f32 = Type("f32", "float", 32)
f64 = Type("f64", "float", 64)
cc = Type("cc", "carry", 1)
u8 = Type("u8", "unsigned", 8)
u16 = Type("u16", "unsigned", 16)
i8 = Type("i8", "signed", 8)
i16 = Type("i16", "signed", 16)
f16 = Type("f16", "float", 16)
bf16 = Type("bf16", "float", 16)
e4m3 = Type("e4m3", "float", 8)
e5m2 = Type("e5m2", "float", 8)

UNSIGNED = (u32, u64)
INTEGERS = (u32, u64, i32, i64)
FLOATS = (f32, f64)
NUMBERS = INTEGERS + FLOATS
SCALARS = (bool_, *NUMBERS)
STORAGE = (u8, u16, i8, i16)
HALVES = (f16, bf16)
"""Floats of 16 bits: IEEE 754's binary16, and an f32's upper half. IR accesses are of u16."""
FLOATS8 = (e4m3, e5m2)
"""Floats of 8 bits of the OCP 8-bit Floating Point Specification (1.0, 2023), named by the bits of
exponent and mantissa: e4m3 has no infinity, NaN is 0x7f and 0xff, and 448 the greatest number; e5m2
follows IEEE 754's rules, up to 57344. In the IR, accesses are of u8."""
NARROW_FLOATS = HALVES + FLOATS8
"""Floats that exist in memory only; loads widen them to f32."""

_SCALARS_BY_NAME = {t.name: t for t in (*SCALARS, cc, *STORAGE, *NARROW_FLOATS)}
_POINTERS: dict[tuple[Type, Space], PointerType] = {}


def pointer(element: Type, space: Space = "global") -> PointerType:
    """Return the type of a pointer to `element` in `space`."""
    key = (element, space)
    if key not in _POINTERS:
        name = f"ptr<{element.name}, {space}>"
        _POINTERS[key] = PointerType(name, "pointer", 64, element, space)
    return _POINTERS[key]


def is_constant(type_: Type) -> bool:
    """Return whether a type is a pointer into a constant table."""
    return isinstance(type_, PointerType) and type_.space == "constant"


def is_private(type_: Type) -> bool:
    """Return whether a type is a pointer into the private memory of one instance."""
    return isinstance(type_, PointerType) and type_.space == "private"


def parse_type(text: str) -> Type:
    """Parse the name of a type; ValueError if it is unknown."""
    if text.startswith("ptr<") and text.endswith(">"):
        element, _, space = text[4:-1].partition(", ")
        if space == "global":
            return pointer(parse_type(element), "global")
        if space == "shared":
            return pointer(parse_type(element), "shared")
        if space == "private":
            return pointer(parse_type(element), "private")
        if space == "constant":
            return pointer(parse_type(element), "constant")
    if text not in _SCALARS_BY_NAME:
        raise ValueError(f"{text!r} is not a type")
    return _SCALARS_BY_NAME[text]


def bits_type(element: Type) -> Type:
    """Return the integer type by which the IR accesses a narrow float in memory."""
    return u16 if element in HALVES else u8


def loaded_type(element: Type) -> Type:
    """Return the type of the value that a load of `element` returns."""
    if element in NARROW_FLOATS:
        return f32
    if element in STORAGE:
        return i32 if element.kind == "signed" else u32
    return element

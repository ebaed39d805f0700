"""Integers of 8 to 64 bits in memory as elements of a prime field, on the host and in kernels."""

from __future__ import annotations

from typing import Any

import numpy as np

from quod.device.memory.buffer import Buffer
from quod.errors import InputError
from quod.field.moduli import Modulus
from quod.frozen import frozen
from quod.kernel.ir import types
from quod.kernel.ir.value import Value
from quod.validation import instance

INTEGER_TYPES = {
    name: getattr(types, name) for name in ("u8", "i8", "u16", "i16", "u32", "i32", "u64", "i64")
}
"""The types of integers in memory by name."""

ELEMENT = "element"
"""The name of the type of an array of elements of the prime field in memory form."""

TYPE_OF_DTYPE = {
    np.dtype(f"{kind}{size}"): f"{kind}{8 * size}" for kind in "ui" for size in (1, 2, 4, 8)
}
"""The name of the type of integers of a NumPy dtype."""


@frozen(eq=False)
class Integers:
    """Integers of one type in device memory, in place of an array of field elements.

    A negative integer n means the element p + n of the field.

    memory: the integers, without gaps.
    dtype: a NumPy dtype of integers of 8 to 64 bits.
    """

    memory: Buffer
    dtype: np.dtype[Any]

    def __post_init__(self) -> None:
        instance("the memory of integers", self.memory, Buffer, "allocate or upload one")
        try:
            dtype = np.dtype(self.dtype)
        except TypeError:
            raise InputError(f"{self.dtype!r} is not a dtype of NumPy") from None
        if dtype not in TYPE_OF_DTYPE:
            raise InputError(f"integers have 8 to 64 bits; {dtype} is not such a type")
        self.__dict__.update(dtype=dtype)
        if self.memory.nbytes % dtype.itemsize:
            raise InputError(f"{self.memory.nbytes} bytes are no whole number of {dtype}")

    @property
    def type(self) -> str:
        """The name of the type in `INTEGER_TYPES`."""
        return TYPE_OF_DTYPE[self.dtype]

    @property
    def count(self) -> int:
        """The number of integers."""
        return self.memory.nbytes // self.dtype.itemsize


def dtype_of(type_name: str) -> np.dtype[Any]:
    """Return the NumPy dtype of integers of a type."""
    return next(dtype for dtype, name in TYPE_OF_DTYPE.items() if name == type_name)


def item_bytes(modulus: Modulus, type_name: str) -> int:
    """Return the size in memory of an integer, or of an element of the field."""
    return modulus.bytes if type_name == ELEMENT else dtype_of(type_name).itemsize


def bias_of(type_name: str) -> int:
    """Return the number that `load_biased` adds, so that no integer of the type is negative."""
    signed = type_name != ELEMENT and INTEGER_TYPES[type_name].kind == "signed"
    return 1 << INTEGER_TYPES[type_name].bits - 1 if signed else 0


def check_fits(modulus: Modulus, what: str, type_name: str) -> None:
    """Raise InputError if integers of a type have more bits than elements have in memory."""
    if type_name != ELEMENT and INTEGER_TYPES[type_name].bits > 32 * modulus.words:
        raise InputError(f"{what}: {dtype_of(type_name)} does not fit elements of {modulus.name}")


def load_biased(f: Any, type_name: str, array: Value, index: Value) -> Any:
    """Load an element of an array in a kernel, plus `bias_of` its type; f is the prime field."""
    if type_name == ELEMENT:
        return f.load(array, index)
    return f.from_integer(load_unsigned(type_name, array, index), INTEGER_TYPES[type_name].bits)


def load_unsigned(type_name: str, array: Value, index: Value) -> Value:
    """Load an integer of an array in a kernel, plus `bias_of` its type, as a u32 or u64."""
    bias = bias_of(type_name)
    integer: Value = array.cast(INTEGER_TYPES[f"u{INTEGER_TYPES[type_name].bits}"])[index]
    return integer ^ bias if bias else integer


def load_integer(f: Any, type_name: str, array: Value, index: Value) -> Any:
    """Load an element of an array in a kernel; f is the prime field."""
    element, bias = load_biased(f, type_name, array, index), bias_of(type_name)
    return element - bias if bias else element


def offset_array(f: Any, type_name: str, array: Value, index: Value) -> Value:
    """Return the array from an index on, in a kernel; f is the prime field."""
    if type_name == ELEMENT:
        words: Value = f.k.pointer_add(array.cast(f.word_type), f.element_offset(index))
        return words
    pointer = array.cast(INTEGER_TYPES[f"u{INTEGER_TYPES[type_name].bits}"])
    integers: Value = f.k.pointer_add(pointer, index)
    return integers

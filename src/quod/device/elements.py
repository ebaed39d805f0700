"""The elements of arrays that pointers take, by NumPy's types and the names of other libraries."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from quod.kernel.ir.types import FLOATS8, PointerType, bf16, e4m3, e5m2

_NUMPY_KINDS = {"u": "integer", "i": "integer", "f": "float", "b": "bool"}
_BF16_KINDS = "Vu"
"""Kinds of bf16 arrays: V of ml_dtypes and PyTorch, u with the bits, as NumPy has no bf16."""
FLOAT8_NAMES = {"float8_e4m3fn": e4m3, "float8_e5m2": e5m2}
"""Floats of 8 bits, by the names that ml_dtypes and PyTorch have for them."""


class ArgumentMismatch(Exception):
    """Why an argument does not fit its parameter, to be put behind its name."""


# Every launch asks for it, of each array.
@functools.lru_cache(256)
def check_elements(dtype: np.dtype[Any], type_: PointerType) -> None:
    """Raise `ArgumentMismatch` unless arrays of `dtype` may be passed to pointers of this type."""
    element = type_.element
    if element is bf16 and dtype.itemsize == element.bytes and dtype.kind in _BF16_KINDS:
        return
    if element in FLOATS8 and (dtype == np.uint8 or FLOAT8_NAMES.get(dtype.name) is element):
        return
    wanted = "integer" if element.is_integer else element.kind
    if (
        element is bf16
        or element in FLOATS8
        or _NUMPY_KINDS.get(dtype.kind) != wanted
        or not dtype.isnative
    ):
        raise ArgumentMismatch(f"is an array of {dtype}, and the kernel's elements are {element}")
    if wanted != "integer" and dtype.itemsize != element.bytes:
        raise ArgumentMismatch(f"is an array of {dtype}, and the kernel's elements are {element}")

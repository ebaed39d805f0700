"""The element types of arrays that may be passed to a kernel's pointers."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from quod.kernel.ir.types import FLOATS8, PointerType, bf16, e4m3, e5m2

_NUMPY_KINDS = {"u": "integer", "i": "integer", "f": "float", "b": "bool"}
_BF16_KINDS = "Vu"
"""The dtype kinds of bf16 arrays, as NumPy has no bf16: V (ml_dtypes), or u with the bits."""
FLOAT8_NAMES = {"float8_e4m3fn": e4m3, "float8_e5m2": e5m2}
"""The 8-bit float types by their names in ml_dtypes and PyTorch."""


class ArgumentMismatch(Exception):
    """An argument does not fit its parameter; the text continues the parameter's name."""


# Cached, because every launch calls this for each array.
@functools.lru_cache(256)
def check_elements(dtype: np.dtype[Any], type_: PointerType) -> None:
    """Raise `ArgumentMismatch` unless arrays of `dtype` may be passed to pointers of this type."""
    element = type_.element
    if element is bf16 and dtype.itemsize == element.bytes and dtype.kind in _BF16_KINDS:
        return
    if element in FLOATS8 and (dtype == np.uint8 or FLOAT8_NAMES.get(dtype.name) is element):
        return
    expected_kind = "integer" if element.is_integer else element.kind
    if (
        element is bf16
        or element in FLOATS8
        or _NUMPY_KINDS.get(dtype.kind) != expected_kind
        or not dtype.isnative
    ):
        raise ArgumentMismatch(f"is an array of {dtype}, and the kernel's elements are {element}")
    if expected_kind != "integer" and dtype.itemsize != element.bytes:
        raise ArgumentMismatch(f"is an array of {dtype}, and the kernel's elements are {element}")

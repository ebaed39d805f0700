"""The types of GGUF tensors: plain numbers, or blocks of quantised ones.

Numbers and sizes follow the specification of GGUF in ggml (docs/gguf.md) and its `ggml_type`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from quod.frozen import frozen
from quod.names import NameTable


@frozen
class GgufType:
    """A type of tensors.

    name: The name in ggml.
    number: The number in files.
    elements: The number of values of a block; 1 for plain numbers.
    bytes: The number of bytes of a block; 0 for a type that Quod does not know.
    dtype: The NumPy type of a value; uint16 for BF16, with the upper half of an f32; None for
        blocks.
    """

    name: str
    number: int
    elements: int
    bytes: int
    dtype: np.dtype[Any] | None = None

    @property
    def is_known(self) -> bool:
        """True if Quod knows the type, and so the size of its values."""
        return self.bytes > 0


def unknown_type(number: int) -> GgufType:
    """Return a type that is not in the table, such as one of a later version of ggml."""
    return GgufType(f"type {number}", number, 1, 0)


def _plain(name: str, number: int, dtype: str) -> GgufType:
    numpy_type = np.dtype(dtype)
    return GgufType(name, number, 1, numpy_type.itemsize, numpy_type)


_ROWS = (
    _plain("F32", 0, "<f4"),
    _plain("F16", 1, "<f2"),
    GgufType("Q4_0", 2, 32, 18),
    GgufType("Q4_1", 3, 32, 20),
    GgufType("Q5_0", 6, 32, 22),
    GgufType("Q5_1", 7, 32, 24),
    GgufType("Q8_0", 8, 32, 34),
    GgufType("Q2_K", 10, 256, 84),
    GgufType("Q3_K", 11, 256, 110),
    GgufType("Q4_K", 12, 256, 144),
    GgufType("Q5_K", 13, 256, 176),
    GgufType("Q6_K", 14, 256, 210),
    GgufType("Q8_K", 15, 256, 292),
    GgufType("IQ2_XXS", 16, 256, 66),
    GgufType("IQ2_XS", 17, 256, 74),
    GgufType("IQ3_XXS", 18, 256, 98),
    GgufType("IQ1_S", 19, 256, 50),
    GgufType("IQ4_NL", 20, 32, 18),
    GgufType("IQ3_S", 21, 256, 110),
    GgufType("IQ2_S", 22, 256, 82),
    GgufType("IQ4_XS", 23, 256, 136),
    _plain("I8", 24, "i1"),
    _plain("I16", 25, "<i2"),
    _plain("I32", 26, "<i4"),
    _plain("I64", 27, "<i8"),
    _plain("F64", 28, "<f8"),
    GgufType("IQ1_M", 29, 256, 56),
    _plain("BF16", 30, "<u2"),
    GgufType("TQ1_0", 34, 256, 54),
    GgufType("TQ2_0", 35, 256, 66),
    GgufType("MXFP4", 39, 32, 17),
)

GGUF_TYPES: dict[str, GgufType] = NameTable(
    "quod.formats.GGUF_TYPES", "a type of tensors", {row.name: row for row in _ROWS}
)
"""The types by name, without those that ggml has removed or had in one version only."""

BY_NUMBER = {row.number: row for row in GGUF_TYPES.values()}

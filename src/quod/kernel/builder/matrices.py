"""Matrix fragments in the registers of a subgroup: their layout and products.

In an 8 by 8 matrix of 16-bit elements, one word of instance i holds row i // 4, columns 2 * (i % 4)
and 2 * (i % 4) + 1. Larger matrices consist of such blocks. Source: PTX ISA 9.0, "Matrix Fragments
for mma.m16n8k16" and "ldmatrix".
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from quod.kernel.ir.types import parse_type
from quod.kernel.ops import float8
from quod.kernel.ops.semantics import Array

_GROUP, _PART = np.arange(32) // 4, np.arange(32) % 4
"""Per lane, groupID and threadID_in_group of the PTX ISA: its row and its part of the row."""


def words_of_rows(rows: Array, *, transposed: bool) -> Array:
    """Distribute the rows of four matrices to fragments, as ldmatrix does.

    rows: shape (lanes, 4) of u32; lane i holds row i % 8 of matrix i // 8.
    Returns shape (4, lanes): one word per matrix and lane.
    """
    halves = np.ascontiguousarray(rows).view(np.uint16).reshape(-1, 4, 8, 8)
    if transposed:
        halves = np.swapaxes(halves, 2, 3)
    words = np.ascontiguousarray(halves).view(np.uint32).reshape(-1, 4, 32)
    return np.swapaxes(words, 0, 1).reshape(4, -1)


def rows_of_words(words: Array, *, transposed: bool) -> Array:
    """Collect the rows of 1, 2 or 4 matrices from fragments, as stmatrix does.

    words: shape (matrices, lanes) of u32.
    Returns four words per row; row i % 8 of matrix i // 8 is for lane i. With fewer than four
    matrices there are fewer than 32 rows per subgroup.
    """
    halves = np.ascontiguousarray(words).view(np.uint16).reshape(len(words), -1, 8, 8)
    if transposed:
        halves = np.swapaxes(halves, 2, 3)
    rows = np.ascontiguousarray(np.swapaxes(halves, 0, 1)).view(np.uint32)
    return rows.reshape(-1, 4)


def multiply_add(element: str, operands: Sequence[Array]) -> list[Array]:
    """Compute each lane's four values of A B + C from four words of A, two of B and four of C.

    element: i8, f16, bf16, tf32, e4m3 or e5m2, or the types of A and B joined by ``_``. Float sums
        are computed in f64 and rounded once.
    """
    a, b = (
        [_numbers(kind, words) for words in part]
        for kind, part in zip(factors(element), (operands[:4], operands[4:6]), strict=True)
    )
    elements_per_word = a[0].shape[2]
    subgroups, depth = len(a[0]), 8 * elements_per_word
    left, right = np.empty((subgroups, 16, depth)), np.empty((subgroups, depth, 8))
    for register, values in enumerate(a):
        for element_index in range(elements_per_word):
            depth_index = elements_per_word * _PART + element_index + (register >> 1) * depth // 2
            left[:, _GROUP + 8 * (register & 1), depth_index] = values[:, :, element_index]
    for register, values in enumerate(b):
        for element_index in range(elements_per_word):
            depth_index = elements_per_word * _PART + element_index + register * depth // 2
            right[:, depth_index, _GROUP] = values[:, :, element_index]
    product = left @ right
    return [
        added(
            element,
            values.reshape(-1, 32),
            product[:, _GROUP + 8 * (register >> 1), 2 * _PART + (register & 1)],
        ).reshape(-1)
        for register, values in enumerate(operands[6:])
    ]


def factors(element: str) -> tuple[str, str]:
    """Return the element types of A and B."""
    first, _, second = element.partition("_")
    return first, second or first


def added(element: str, sums: Array, products: Array) -> Array:
    """Add f64 products to sums: rounded once to f32, or modulo 2**32 for integers."""
    if element == "i8":
        return (sums.astype(np.int64) + products.astype(np.int64)).astype(np.int32)
    totals: Array = (sums.astype(np.float64) + products).astype(np.float32)
    return totals


def _numbers(element: str, words: Array) -> Array:
    """Decode the elements in the words of each subgroup's lanes."""
    lanes = np.ascontiguousarray(words).reshape(-1, 32, 1)
    return numbers_of_halves(element, lanes.view(np.uint16))


def numbers_of_halves(element: str, halves: Array) -> Array:
    """Decode elements from 16-bit halves: one f16 or bf16, two 8-bit elements, or half a tf32."""
    if element in ("e4m3", "e5m2"):
        return float8.values_of(parse_type(element), halves.view(np.uint8))
    if element == "i8":
        return halves.view(np.int8)
    if element == "tf32":
        return (halves.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)
    if element == "f16":
        return halves.view(np.float16)
    return (halves.astype(np.uint32) << np.uint32(16)).view(np.float32)

"""Matrices that the registers of a subgroup hold together: who has which element, and products.

Of a matrix of 8 by 8 elements of 16 bits, instance i has two of row i // 4, those of columns
2 * (i % 4) and the next, in one word. Larger ones are made of such. Source: PTX ISA 9.0, "Matrix
Fragments for mma.m16n8k16" and "ldmatrix".
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from quod.kernel.ir.types import parse_type
from quod.kernel.ops import float8
from quod.kernel.ops.semantics import Array

_GROUP, _PART = np.arange(32) // 4, np.arange(32) % 4


def words_of_rows(rows: Array, *, transposed: bool) -> Array:
    """What 32 lanes each get of four matrices whose rows they have: a row of the result a matrix.

    `rows` has four words of each lane: row i % 8 of matrix i // 8.
    """
    halves = np.ascontiguousarray(rows).view(np.uint16).reshape(-1, 4, 8, 8)
    if transposed:
        halves = np.swapaxes(halves, 2, 3)
    words = np.ascontiguousarray(halves).view(np.uint32).reshape(-1, 4, 32)
    return np.swapaxes(words, 0, 1).reshape(4, -1)


def rows_of_words(words: Array, *, transposed: bool) -> Array:
    """The rows of 1, 2 or 4 matrices whose words 32 lanes have: a row of the result a lane.

    A row of `words` is a matrix. Row i % 8 of matrix i // 8 is for lane i; of fewer than four
    matrices the other lanes have none, and the result has less than 32 rows a subgroup.
    """
    halves = np.ascontiguousarray(words).view(np.uint16).reshape(len(words), -1, 8, 8)
    if transposed:
        halves = np.swapaxes(halves, 2, 3)
    rows = np.ascontiguousarray(np.swapaxes(halves, 0, 1)).view(np.uint32)
    return rows.reshape(-1, 4)


def multiply_add(element: str, operands: Sequence[Array]) -> list[Array]:
    """The four values of A B + C of each lane, of its four words of A, two of B, four of C.

    `element` is f16, bf16, tf32, e4m3 or e5m2, whose sums are of double precision, rounded once, or
    i8; two with a `_` between them are those of A and of B.
    """
    a, b = (
        [_numbers(own, words) for words in part]
        for own, part in zip(factors(element), (operands[:4], operands[4:6]), strict=True)
    )
    each = a[0].shape[2]
    count, depth = len(a[0]), 8 * each
    left, right = np.empty((count, 16, depth)), np.empty((count, depth, 8))
    for number, values in enumerate(a):
        for place in range(each):
            at = each * _PART + place + (number >> 1) * depth // 2
            left[:, _GROUP + 8 * (number & 1), at] = values[:, :, place]
    for number, values in enumerate(b):
        for place in range(each):
            at = each * _PART + place + number * depth // 2
            right[:, at, _GROUP] = values[:, :, place]
    product = left @ right
    return [
        added(
            element,
            values.reshape(-1, 32),
            product[:, _GROUP + 8 * (number >> 1), 2 * _PART + (number & 1)],
        ).reshape(-1)
        for number, values in enumerate(operands[6:])
    ]


def factors(element: str) -> tuple[str, str]:
    """The elements of A and of B."""
    first, _, second = element.partition("_")
    return first, second or first


def added(element: str, sums: Array, products: Array) -> Array:
    """Sums with products of f64 added: rounded once, or of whole numbers modulo 2**32."""
    if element == "i8":
        return (sums.astype(np.int64) + products.astype(np.int64)).astype(np.int32)
    found: Array = (sums.astype(np.float64) + products).astype(np.float32)
    return found


def _numbers(element: str, words: Array) -> Array:
    """The elements in the words of each subgroup's lanes."""
    lanes = np.ascontiguousarray(words).reshape(-1, 32, 1)
    return numbers_of_halves(element, lanes.view(np.uint16))


def numbers_of_halves(element: str, halves: Array) -> Array:
    """The elements that have such bits: f16, bf16, those of 8 bits, two in each half, or tf32, in
    two halves."""
    if element in ("e4m3", "e5m2"):
        return float8.values_of(parse_type(element), halves.view(np.uint8))
    if element == "i8":
        return halves.view(np.int8)
    if element == "tf32":
        return (halves.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)
    if element == "f16":
        return halves.view(np.float16)
    return (halves.astype(np.uint32) << np.uint32(16)).view(np.float32)

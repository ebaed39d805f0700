"""Scalars of MSMs: canonical integers of 256 bits in memory, and their digits.

A scalar is written in base 2**c with digits from -2**(c-1) to 2**(c-1) - 1, which halves the
buckets: a negative digit adds the negated point.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from quod.curve.array import check_points_array
from quod.curve.group import Group
from quod.errors import InputError
from quod.kernel.builder.builder import Builder
from quod.kernel.ir import types
from quod.kernel.ir.value import Value

SCALAR_BYTES = 32
"""Of a scalar in a device's memory, whatever the order of the group."""

MOST_BASES = 1 << 31
"""There are fewer than that: an entry has a bit beside the number of its base."""


def window_count(maximum: int, window_bits: int) -> int:
    """Windows that hold every scalar up to `maximum`: the top digit never carries."""
    windows = 1
    while (maximum >> (window_bits * (windows - 1))) + 1 >= 1 << (window_bits - 1):
        windows += 1
    return windows


def check_bases(group: Group, points: np.ndarray[Any, Any]) -> None:
    """InputError unless points are an array of affine points, and not too many, of a group whose
    scalars an MSM takes."""
    if group.scalars.bits > 8 * SCALAR_BYTES:
        raise InputError(
            f"an MSM takes scalars of at most {8 * SCALAR_BYTES} bits, and the order of "
            f"{group.name} has {group.scalars.bits}"
        )
    check_points_array(group, points, "bases")
    if len(points) >= MOST_BASES:
        raise InputError("an MSM takes fewer than 2**31 bases")


def check_count(count: int, bases: int) -> None:
    """InputError for more scalars than bases."""
    if count > bases:
        raise InputError(f"{count} scalars have only {bases} bases")


def check_words(group: Group, scalars: np.ndarray[Any, Any]) -> None:
    """InputError unless scalars are one vector or several of them, in words that are taken."""
    own, whole = group.scalars.words, SCALAR_BYTES // 4
    if (
        scalars.dtype != np.uint32
        or scalars.ndim not in (2, 3)
        or scalars.shape[-1] not in (own, whole)
    ):
        words = f"{whole}" if own == whole else f"{own} or {whole}"
        raise InputError(
            f"scalars of {group.name} are uint32 words of shape (n, {words}), or "
            f"(m, n, {words}) for m vectors of them, not {scalars.dtype} of {scalars.shape}"
        )


def whole_words(scalars: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Scalars in as many words as an order has, as kernels take them: with zeros above."""
    missing = SCALAR_BYTES // 4 - scalars.shape[-1]
    if not missing:
        return scalars
    return np.pad(scalars, [(0, 0)] * (scalars.ndim - 1) + [(0, missing)])


def too_large(group: Group, maximum: int, position: int) -> InputError:
    """The error of a scalar that is above the greatest allowed."""
    if maximum == group.scalars.value - 1:
        return InputError(f"scalar {position} is not below the order of {group.name}")
    return InputError(f"scalar {position} is not below the promised 2**{maximum.bit_length()}")


def is_above(k: Builder, words: Sequence[Value], maximum: int) -> Value:
    """Whether an integer of words, the lowest first, is above a constant."""
    size = words[0].type.bits
    above = k.constant(False, types.bool_)
    for place, word in enumerate(words):
        limit = maximum >> (size * place) & (1 << size) - 1
        above = (word > limit) | ((word == limit) & above)
    return above


def bits_of(k: Builder, words: Sequence[Value], low: int, count: int) -> Value:
    """`count` bits, at most 32, of an integer of words from bit `low` on, as a u32."""
    size = words[0].type.bits
    index, shift = divmod(low, size)
    if index >= len(words):
        return k.constant(0, types.u32)
    value = words[index] >> shift
    if shift + count > size and index + 1 < len(words):
        value = value | (words[index + 1] << (size - shift))
    return (value & ((1 << count) - 1)).cast(types.u32)

"""Scalars of MSMs: canonical integers of 256 bits in memory, and their digits.

A scalar is written in base 2**c with digits from -2**(c-1) to 2**(c-1) - 1, which halves the
buckets: a negative digit adds the negated point.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from quod.curve.array import check_points_array
from quod.curve.group import Group
from quod.errors import InputError
from quod.kernel.ir import types
from quod.kernel.ir.value import Value

if TYPE_CHECKING:
    from quod.kernel.builder.builder import Builder

SCALAR_BYTES = 32
"""Bytes of a scalar in device memory, for every group."""

MAX_BASES = 1 << 31
"""The exclusive bound on the bases of an MSM, because bit 31 of an entry is a digit's sign."""


def window_count(maximum: int, window_bits: int) -> int:
    """Return the number of windows for scalars up to `maximum`; the top digit never carries."""
    windows = 1
    while (maximum >> (window_bits * (windows - 1))) + 1 >= 1 << (window_bits - 1):
        windows += 1
    return windows


def check_bases(group: Group, points: np.ndarray[Any, Any]) -> None:
    """Raise InputError unless an MSM accepts the bases.

    An MSM accepts an array of fewer than 2**31 affine points, of a group with an order of at most
    256 bits.
    """
    if group.scalars.bits > 8 * SCALAR_BYTES:
        raise InputError(
            f"an MSM takes scalars of at most {8 * SCALAR_BYTES} bits, and the order of "
            f"{group.name} has {group.scalars.bits}"
        )
    check_points_array(group, points, "bases")
    if len(points) >= MAX_BASES:
        raise InputError("an MSM takes fewer than 2**31 bases")


def check_count(count: int, bases: int) -> None:
    """Raise InputError if there are more scalars than bases."""
    if count > bases:
        raise InputError(f"{count} scalars have only {bases} bases")


def check_words(group: Group, scalars: np.ndarray[Any, Any]) -> None:
    """Raise InputError unless scalars are uint32 of shape (n, words) or (m, n, words).

    words: 8, or the words of the group's order.
    """
    order_words, padded_words = group.scalars.words, SCALAR_BYTES // 4
    if (
        scalars.dtype != np.uint32
        or scalars.ndim not in (2, 3)
        or scalars.shape[-1] not in (order_words, padded_words)
    ):
        words = (
            f"{padded_words}" if order_words == padded_words else f"{order_words} or {padded_words}"
        )
        raise InputError(
            f"scalars of {group.name} are uint32 words of shape (n, {words}), or "
            f"(m, n, {words}) for m vectors of them, not {scalars.dtype} of {scalars.shape}"
        )


def padded_scalars(scalars: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Pad scalars with zero words to the eight words that kernels read."""
    missing = SCALAR_BYTES // 4 - scalars.shape[-1]
    if not missing:
        return scalars
    return np.pad(scalars, [(0, 0)] * (scalars.ndim - 1) + [(0, missing)])


def too_large(group: Group, maximum: int, position: int) -> InputError:
    """Return the error for a scalar above `maximum`."""
    if maximum == group.scalars.value - 1:
        return InputError(f"scalar {position} is not below the order of {group.name}")
    return InputError(f"scalar {position} is not below the promised 2**{maximum.bit_length()}")


def is_above(k: Builder, words: Sequence[Value], maximum: int) -> Value:
    """Return whether the integer of little-endian words is above the constant `maximum`."""
    size = words[0].type.bits
    above = k.constant(False, types.bool_)
    for word_index, word in enumerate(words):
        limit = maximum >> (size * word_index) & (1 << size) - 1
        above = (word > limit) | ((word == limit) & above)
    return above


def bits_of(k: Builder, words: Sequence[Value], low: int, count: int) -> Value:
    """Extract `count` bits, at most 32, from bit `low` of little-endian words, as a u32."""
    size = words[0].type.bits
    index, shift = divmod(low, size)
    if index >= len(words):
        return k.constant(0, types.u32)
    value = words[index] >> shift
    if shift + count > size and index + 1 < len(words):
        value = value | (words[index + 1] << (size - shift))
    return (value & ((1 << count) - 1)).cast(types.u32)

"""Decoders of blocks to signed bytes, four in a word, for integer products.

Activations are then bytes in blocks of 32. Where a format has scales for fewer elements than a
block, these scales are integers as well; a sum over 32 elements is an integer below 2^24, which f32
holds exactly.
"""

from __future__ import annotations

from collections.abc import Callable

from quod.frozen import frozen
from quod.kernel import Builder, Value, f16
from quod.tensor.quantised.decoders import Packed, each_byte

BYTES = 32
"""Elements of a block of activations."""


@frozen(eq=False)
class PackedRun:
    """32 elements of a block: scale * factor * integer - minimum * less.

    integers: 8 words of four signed bytes.
    scale: The scale in f32.
    factors: Integer factors: with n of them, factor i multiplies the i-th of n equal parts of the
        integers. Empty stands for a factor of 1.
    minimum, less: The f32 scale and the integer whose product is subtracted, or None.
    """

    integers: list[Value]
    scale: Value
    factors: list[Value]
    minimum: Value | None = None
    less: Value | None = None


@frozen
class PackedDecoder:
    """The integer decoder of a format.

    groups: Groups of a block.
    runs: Runs of a group.
    decode: Returns the runs of a group, given the builder, the blocks as u8, the index of the
        block, the group, and which quarter of each run's words to return (None for all).
    """

    groups: int
    runs: int
    decode: Callable[..., list[PackedRun]]


def centred(word: Value, centre: int) -> Value:
    """Subtract `centre` from each byte, all below 128, without a borrow between bytes."""
    return (word | each_byte(128)) - each_byte(centre) ^ each_byte(128)


def words_of(
    k: Builder, data: Value, at: Value, quarter: Value | None, *, aligned: int
) -> Packed:  # fmt: skip
    """Load 32 bytes, or a quarter of them."""
    if quarter is None:
        return Packed(k, data, at, BYTES, aligned=aligned)
    return Packed(k, data, at + quarter * (BYTES // 4), BYTES // 4, aligned=aligned)


def f16_at(data: Value, at: Value) -> Value:
    """Load the f16 at a byte offset."""
    return data.cast(f16)[at >> 1]

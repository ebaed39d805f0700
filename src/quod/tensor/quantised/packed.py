"""Decoders of blocks to signed bytes, four in a word, for integer products.

Activations are then bytes in blocks of 32. In formats with smaller scales these are integers too,
and a sum over 32 elements is a whole number below 2^24, which f32 holds.
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

    The `integers` are 8 words of four signed bytes; each of the `factors` is of as many of these,
    in turn. Without factors they are 1. `minimum` and `less` are None where nothing is taken off.
    """

    integers: list[Value]
    scale: Value
    factors: list[Value]
    minimum: Value | None = None
    less: Value | None = None


@frozen
class PackedDecoder:
    """What gives the runs of a group, which takes the builder, the blocks as u8, a block's number
    and the group, and which quarter of each run's words is wanted, if not all; `groups` of `runs`
    each are a block."""

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

"""Helpers for MMA fragments: four adjacent instances share each row of a fragment."""

from __future__ import annotations

from collections.abc import Sequence

from quod.kernel import Builder, Value

QUAD = 4
"""The number of instances that share a row; each has two of the eight columns of a block."""


def lane_of(k: Builder) -> Value:
    """Return the instance's index in its subgroup of 32, computed without a division."""
    return k.local_id() & 31


def transposed(k: Builder, words: Sequence[Value]) -> list[Value]:
    """Transpose the 4 x 4 words of four adjacent instances by shuffles.

    words: This instance's word of each of four blocks.
    Returns all words of block i in instance i of the four.
    """
    blocks, lane = list(words), lane_of(k)
    for distance in (1, 2):
        is_upper = (lane & distance) != 0
        for low in (index for index in range(QUAD) if not index & distance):
            high = low + distance
            own_word = k.select(is_upper, blocks[high], blocks[low])
            received = k.shuffle(k.select(is_upper, blocks[low], blocks[high]), lane ^ distance)
            blocks[low], blocks[high] = (
                k.select(is_upper, received, own_word),
                k.select(is_upper, own_word, received),
            )
    return blocks

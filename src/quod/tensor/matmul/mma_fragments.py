"""Helpers for MMA fragments, whose rows belong to four adjacent instances."""

from __future__ import annotations

from collections.abc import Sequence

from quod.kernel import Builder, Value

QUAD = 4
"""Instances that share a row; each has two of the 8 columns of a block."""


def lane_of(k: Builder) -> Value:
    """Return the index in a subgroup of 32, without a division."""
    return k.local_id() & 31


def transposed(k: Builder, words: Sequence[Value]) -> list[Value]:
    """Transpose the 4 x 4 words of four instances: instance i gets all words of block i."""
    blocks, lane = list(words), lane_of(k)
    for distance in (1, 2):
        upper = (lane & distance) != 0
        for low in (at for at in range(QUAD) if not at & distance):
            high = low + distance
            kept = k.select(upper, blocks[high], blocks[low])
            received = k.shuffle(k.select(upper, blocks[low], blocks[high]), lane ^ distance)
            blocks[low], blocks[high] = (
                k.select(upper, received, kept),
                k.select(upper, kept, received),
            )
    return blocks

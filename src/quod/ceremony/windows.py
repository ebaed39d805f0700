"""Windows: chunks of arrays of points that are processed one by one to bound memory."""

from __future__ import annotations

from collections.abc import Iterator

from quod.curve.group import Group

MAX_BYTES = 1 << 23
"""The bytes of the points of a window; processing takes a few times as much memory."""

# The number of windows of a block, which is half a gigabyte.
_WINDOWS_PER_BLOCK = 64


def windows(group: Group, count: int) -> Iterator[tuple[int, int]]:
    """Yield (first, end) of each window of `count` points; `end` is exclusive."""
    length = window_length(group)
    for first in range(0, count, length):
        yield first, min(count, first + length)


def blocks(group: Group, count: int) -> Iterator[tuple[int, int]]:
    """Yield (first, end) of each block of `count` points: windows that are verified together."""
    length = _WINDOWS_PER_BLOCK * window_length(group)
    for first in range(0, count, length):
        yield first, min(count, first + length)


def window_length(group: Group) -> int:
    """Return the number of points of a window."""
    return MAX_BYTES // (8 * group.point_words)

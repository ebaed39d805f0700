"""Parts of arrays of points that are worked on at a time, so that memory is bounded."""

from __future__ import annotations

from collections.abc import Iterator

from quod.curve.group import Group

MOST_BYTES = 1 << 23
"""Bytes of the points of a window: some multiples of it are in memory at a time."""

# Windows of a block: half a gigabyte.
_BLOCK = 64


def windows(group: Group, count: int) -> Iterator[tuple[int, int]]:
    """(first, last) of consecutive parts of `count` points."""
    length = window_length(group)
    for first in range(0, count, length):
        yield first, min(count, first + length)


def blocks(group: Group, count: int) -> Iterator[tuple[int, int]]:
    """(first, last) of consecutive parts of many windows each, which are verified as one."""
    length = _BLOCK * window_length(group)
    for first in range(0, count, length):
        yield first, min(count, first + length)


def window_length(group: Group) -> int:
    """How many points a window has."""
    return MOST_BYTES // (8 * group.point_words)

"""Times in which something ran, as intervals that may overlap."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

Time = TypeVar("Time", int, float)


def union(intervals: Iterable[tuple[Time, Time]]) -> list[tuple[Time, Time]]:
    """Return the union of intervals as disjoint intervals in ascending order."""
    merged: list[tuple[Time, Time]] = []
    for begin, end in sorted(intervals):
        if merged and begin <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(end, merged[-1][1])
        else:
            merged.append((begin, end))
    return merged

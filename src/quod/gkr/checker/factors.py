"""Factors of eq at the points of proofs: the rows of the kernels that expand them."""

from __future__ import annotations

from collections.abc import Iterator

from quod.gkr.checker.messages import NONE, Point, Row

_MIN_LOG_LOW = 7
_TILE = 1 << 10


class Factors:
    """The factors of eq at points: tables of the upper and of the lower half of the coordinates.

    rows: a row per tile of a factor table, for `expand_factors`.
    coordinates: the indices of the challenges that are coordinates.
    entries: the number of entries of all factor tables.
    """

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self.coordinates: list[int] = []
        self.entries = 0
        self._first: dict[tuple[tuple[int, ...], int], int] = {}

    def of(self, point: Point, min_log_low: int | None = None) -> tuple[int, int, int]:
        """Return log2 of the size of the lower table, and the first entries of both tables.

        The lower table has half of the coordinates, and at least `min_log_low` (by default 7).
        """
        size = len(point.coordinates)
        least = _MIN_LOG_LOW if min_log_low is None else min_log_low
        log_low = min(size, max(-(-size // 2), least))
        upper, lower = point.coordinates[: size - log_low], point.coordinates[size - log_low :]
        return log_low, self._begin(upper, point.scale), self._begin(lower, NONE)

    def _begin(self, coordinates: tuple[int, ...], scale: int) -> int:
        key = (coordinates, scale)
        if key not in self._first:
            self._first[key] = first = self.entries
            first_coordinate, count = len(self.coordinates), len(coordinates)
            self.coordinates += coordinates
            self.entries += 1 << count
            for start, stop in tiles(1 << count, _TILE):
                self.rows.append((first, first_coordinate, count, scale, start, stop))
        return self._first[key]


def tiles(count: int, each: int) -> Iterator[tuple[int, int]]:
    """Yield the start and end of tiles of `each` entries that cut a range of `count`."""
    for start in range(0, count, each):
        yield start, min(start + each, count)

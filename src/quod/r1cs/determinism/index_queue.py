"""A queue of indices, each of which it contains at most once."""

from __future__ import annotations


class IndexQueue:
    """Indices to process, each at most once at a time."""

    __slots__ = ("_is_queued", "_items")

    def __init__(self, size: int) -> None:
        self._items: list[int] = []
        self._is_queued = bytearray(size)

    def add(self, item: int) -> None:
        """Queue an index unless it is queued."""
        if not self._is_queued[item]:
            self._is_queued[item] = 1
            self._items.append(item)

    def extend(self) -> None:
        """Allow one index beyond the largest so far."""
        self._is_queued.append(0)

    def pop(self) -> int | None:
        """Return an index, or None if there is none."""
        if not self._items:
            return None
        item = self._items.pop()
        self._is_queued[item] = 0
        return item

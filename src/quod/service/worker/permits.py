"""How many partitions a worker has in hand before they are computed."""

from __future__ import annotations

import threading

# Proofs in a row that went well, after which one more is tried.
_GOOD = 16


class Permits:
    """Up to `most` of them; fewer after memory was short, and again more when all goes well."""

    def __init__(self, most: int) -> None:
        self._most = self._limit = most
        self._held = self._good = 0
        self._changed = threading.Condition()

    @property
    def limit(self) -> int:
        return self._limit

    def take(self, most: int, timeout: float) -> int:
        """Takes up to so many, one at least unless there is none within `timeout` seconds."""
        with self._changed:
            self._changed.wait_for(lambda: self._held < self._limit, timeout)
            count = max(0, min(most, self._limit - self._held))
            self._held += count
            return count

    def give_back(self, count: int = 1) -> None:
        """Some of what was taken."""
        with self._changed:
            self._held -= count
            self._changed.notify_all()

    def shrink(self) -> None:
        """Halves how many there are: memory was short."""
        with self._changed:
            self._limit, self._good = max(1, self._limit // 2), 0

    def grow(self) -> None:
        """A proof went well."""
        with self._changed:
            self._good += 1
            if self._good >= _GOOD and self._limit < self._most:
                self._limit, self._good = self._limit + 1, 0
                self._changed.notify_all()

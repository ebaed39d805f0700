"""The limit of partitions that a worker holds before they are computed."""

from __future__ import annotations

import threading

WHOLE = 32
"""Units of a permit; a partition of a key with batches holds one or more units."""

# Consecutive successful proofs after which the limit grows by one.
_GOOD = 16


class Permits:
    """At most `most` permits; the limit shrinks when memory is short and grows with success.

    A permit has `WHOLE` units. Permits are taken whole or in units, and returned in units.
    """

    def __init__(self, most: int) -> None:
        self._most = self._limit = most
        self._held = self._good = 0
        self._changed = threading.Condition()

    @property
    def limit(self) -> int:
        return self._limit

    def take(self, most: int, timeout: float) -> int:
        """Take up to `most` permits, waiting up to `timeout` seconds; return their number."""
        with self._changed:
            self._changed.wait_for(lambda: self._room >= WHOLE, timeout)
            return self._take(most, WHOLE)

    def take_parts(self, most: int, part: int) -> int:
        """Take up to `most` times `part` units without waiting; return how many times."""
        with self._changed:
            return self._take(most, part)

    @property
    def _room(self) -> int:
        return self._limit * WHOLE - self._held

    def _take(self, most: int, part: int) -> int:
        count = max(0, min(most, self._room // part))
        self._held += count * part
        return count

    def give_back(self, parts: int) -> None:
        """Return units."""
        with self._changed:
            self._held -= parts
            self._changed.notify_all()

    def shrink(self, limit: int) -> None:
        """Halve `limit`, the limit when the work that ran out of memory was claimed.

        All failures of work claimed under one limit halve it once.
        """
        with self._changed:
            self._limit, self._good = min(self._limit, max(1, limit // 2)), 0

    def grow(self) -> None:
        """Count a successful proof."""
        with self._changed:
            self._good += 1
            if self._good >= _GOOD and self._limit < self._most:
                self._limit, self._good = self._limit + 1, 0
                self._changed.notify_all()

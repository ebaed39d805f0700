"""How many partitions a worker has in hand before they are computed."""

from __future__ import annotations

import threading

WHOLE = 32
"""Parts of a permit: a witness that is proved together with others has one or more of them."""

# Proofs in a row that went well, after which one more is tried.
_GOOD = 16


class Permits:
    """Up to `most` of them; fewer after memory was short, and again more when all goes well.

    They are taken whole and given back in parts.
    """

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
            self._changed.wait_for(lambda: self._room >= WHOLE, timeout)
            return self._take(most, WHOLE)

    def take_parts(self, most: int, part: int) -> int:
        """Takes up to so many times `part` of one, as many as there are now."""
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
        """Some of what was taken."""
        with self._changed:
            self._held -= parts
            self._changed.notify_all()

    def shrink(self, limit: int) -> None:
        """Halves how many there were, `limit`, when what was short of memory was claimed.

        All that fails of what was in hand at one time halves them once.
        """
        with self._changed:
            self._limit, self._good = min(self._limit, max(1, limit // 2)), 0

    def grow(self) -> None:
        """A proof went well."""
        with self._changed:
            self._good += 1
            if self._good >= _GOOD and self._limit < self._most:
                self._limit, self._good = self._limit + 1, 0
                self._changed.notify_all()

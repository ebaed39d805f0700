"""The limit of partitions that a worker has claimed but not yet computed."""

from __future__ import annotations

import threading

UNITS_PER_PERMIT = 32
"""The units of a permit. A partition of a key whose proofs are batched holds one or more units, any
other partition a whole permit."""

# The number of successful proofs, since the last change of the limit, after which it grows by one.
_PROOFS_PER_INCREMENT = 16


class Permits:
    """At most `most` permits. The limit is halved when memory is short, and grows with success.

    A permit has `UNITS_PER_PERMIT` units. Permits are taken whole or in units, and returned in
    units.
    """

    def __init__(self, most: int) -> None:
        self._max_permits = self._limit = most
        self._used_units = self._successes = 0
        self._changed = threading.Condition()

    @property
    def limit(self) -> int:
        return self._limit

    def take(self, most: int, timeout: float) -> int:
        """Take up to `most` permits, waiting up to `timeout` seconds; return their number."""
        with self._changed:
            self._changed.wait_for(lambda: self._free_units >= UNITS_PER_PERMIT, timeout)
            return self._take(most, UNITS_PER_PERMIT)

    def take_units(self, most: int, units: int) -> int:
        """Take `units` units up to `most` times without waiting; return the number of times."""
        with self._changed:
            return self._take(most, units)

    @property
    def _free_units(self) -> int:
        return self._limit * UNITS_PER_PERMIT - self._used_units

    def _take(self, most: int, units: int) -> int:
        count = max(0, min(most, self._free_units // units))
        self._used_units += count * units
        return count

    def give_back(self, units: int) -> None:
        """Return `units` units."""
        with self._changed:
            self._used_units -= units
            self._changed.notify_all()

    def shrink(self, limit: int) -> None:
        """Lower the limit to half of `limit`, the limit when the failed work was claimed.

        So several failures of work that was claimed under one limit halve the limit only once.
        """
        with self._changed:
            self._limit, self._successes = min(self._limit, max(1, limit // 2)), 0

    def grow(self) -> None:
        """Count a successful proof."""
        with self._changed:
            self._successes += 1
            if self._successes >= _PROOFS_PER_INCREMENT and self._limit < self._max_permits:
                self._limit, self._successes = self._limit + 1, 0
                self._changed.notify_all()

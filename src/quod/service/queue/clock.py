"""The clocks of the queue, and the effect of a jump of the wall clock on each.

Deadlines are in wall time and follow its jumps. Lease expiry is measured with the monotonic clock
of the process that watches the lease. Retention of results is measured with `stamp`, which starts
at the wall clock's time and then advances with the monotonic clock.
"""

from __future__ import annotations

import time

MICROSECONDS = 1_000_000


class Clock:
    """The clocks of this machine; tests substitute their own."""

    def __init__(self) -> None:
        self._offset = time.time() - time.monotonic()

    def wall(self) -> int:
        """Return the wall clock: microseconds since 1970."""
        return int(time.time() * MICROSECONDS)

    def steady(self) -> float:
        """Return the monotonic clock: seconds since an arbitrary start."""
        return time.monotonic()

    def stamp(self) -> int:
        """Return microseconds since 1970: the wall clock at construction plus monotonic time."""
        return int((self._offset + time.monotonic()) * MICROSECONDS)


def seconds(microseconds: int | None) -> float | None:
    """Convert the database's microseconds to the seconds of records; None stays None."""
    return None if microseconds is None else microseconds / MICROSECONDS

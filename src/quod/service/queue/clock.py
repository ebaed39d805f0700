"""Times: what a jump of the wall clock may change, and what it may not.

Deadlines are promises in wall time, and follow it. Leases are not: whoever looks after them sees by
its own monotonic clock for how long each was not renewed. How long results are kept is measured by
`stamp`, which is the wall clock at the start and goes on steadily from there.
"""

from __future__ import annotations

import time

MICROSECONDS = 1_000_000


class Clock:
    """The clocks of this machine; tests have one of their own."""

    def __init__(self) -> None:
        self._offset = time.time() - time.monotonic()

    def wall(self) -> int:
        """Microseconds since 1970, as the machine has it now."""
        return int(time.time() * MICROSECONDS)

    def steady(self) -> float:
        """Seconds, from an arbitrary beginning, that only rise."""
        return time.monotonic()

    def stamp(self) -> int:
        """Microseconds since 1970 that only rise; the wall clock's when this was made."""
        return int((self._offset + time.monotonic()) * MICROSECONDS)


def seconds(microseconds: int | None) -> float | None:
    """Of the database to those of the records."""
    return None if microseconds is None else microseconds / MICROSECONDS

"""A memory budget with reservations in order of arrival."""

from __future__ import annotations

import threading
from collections.abc import Callable

from quod.device.memory.budget import bytes_text
from quod.service.errors import KeyTooLargeError
from quod.validation import whole_number


class MemoryBudget:
    """A budget of `nbytes` bytes. A single thread reserves bytes in order; any thread releases."""

    def __init__(self, nbytes: int) -> None:
        self.nbytes = whole_number("the bytes of a budget", nbytes, 0)
        self._used = 0
        self._changed = threading.Condition()

    @property
    def used(self) -> int:
        with self._changed:
            return self._used

    def take(self, nbytes: int, *, given_up: Callable[[], bool]) -> bool:
        """Wait until `nbytes` bytes are free and reserve them; return False if given up.

        given_up: called about twice per second while waiting; true ends the wait.
        Raises KeyTooLargeError for more bytes than the whole budget.
        """
        if nbytes > self.nbytes:
            raise KeyTooLargeError(
                f"a proof with this key needs {bytes_text(nbytes)} of memory for its witness and "
                f"its sums, and the budget of work is {bytes_text(self.nbytes)}",
                parts={"work": nbytes},
                budget=self.nbytes,
            )
        with self._changed:
            while self._used + nbytes > self.nbytes:
                if given_up():
                    return False
                self._changed.wait(0.5)
            self._used += nbytes
            return True

    def give_back(self, nbytes: int) -> None:
        """Release reserved bytes."""
        with self._changed:
            self._used -= nbytes
            self._changed.notify_all()

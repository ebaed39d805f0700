"""A budget of memory that work takes in the order of its coming: who finds none waits."""

from __future__ import annotations

import threading
from collections.abc import Callable

from quod.device.memory.budget import bytes_text
from quod.service.errors import KeyTooLargeError
from quod.validation import whole_number


class MemoryBudget:
    """So many bytes. One thread takes them, in order; any gives them back."""

    def __init__(self, nbytes: int) -> None:
        self.nbytes = whole_number("the bytes of a budget", nbytes, 0)
        self._used = 0
        self._changed = threading.Condition()

    @property
    def used(self) -> int:
        with self._changed:
            return self._used

    def take(self, nbytes: int, *, given_up: Callable[[], bool]) -> bool:
        """Waits until there are so many and takes them; False once it is `given_up`.

        `KeyTooLargeError` for more than there are at all.
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
        """Some of what was taken."""
        with self._changed:
            self._used -= nbytes
            self._changed.notify_all()

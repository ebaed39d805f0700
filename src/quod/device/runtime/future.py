"""What a task on another thread will give.

Futures of the standard library load its logging and others, 4 ms of a process that proves, and
whoever waits for one waits for ever if its thread ends without a word, as one does that has no
memory left to say so.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar, cast

from quod.errors import DeviceError

T = TypeVar("T")

# How often a wait looks whether there is still somebody to wait for.
_LOOK_SECONDS = 0.5


class Dropped(DeviceError):
    """The task was not begun, and will not be."""

    def __init__(self) -> None:
        super().__init__("what this needs was not begun, as its key or device was closed before")


class Outcome(Generic[T]):
    """The result of a task, or the error that it raised; for use from any thread.

    `is_lost` tells whether nobody is left to do the task.
    """

    def __init__(self, is_lost: Callable[[], bool] | None = None) -> None:
        self._is_lost = is_lost
        # Held until the task is done; those that wait take it and give it back.
        self._undone = threading.Lock()
        self._undone.acquire()
        self._changing = threading.Lock()
        self._begun = self._done = False
        self._result: T | None = None
        self._error: BaseException | None = None
        self._actions: list[Callable[[], object]] = []

    @classmethod
    def of(cls, result: T) -> Outcome[T]:
        """That of a task which is done already."""
        outcome = cls()
        outcome.set(result)
        return outcome

    # --- for whoever does the task

    def begin(self) -> bool:
        """Says that the task begins; False if it has been dropped, and must not."""
        with self._changing:
            self._begun = not self._done
            return self._begun

    def set(self, result: T) -> None:
        """Gives the result to those that wait."""
        self._result = result
        self._finish()

    def fail(self, error: BaseException) -> None:
        """Raises an error where the result is asked for."""
        self._error = error
        self._finish()

    def _finish(self) -> None:
        with self._changing:
            self._done = True
            self._undone.release()
            actions, self._actions = self._actions, []
        for action in actions:
            action()

    # --- for whoever wants the result

    def drop(self) -> bool:
        """Has the task not be begun; False if it has been."""
        with self._changing:
            if self._begun or self._done:
                return False
            self._begun = True
        self.fail(Dropped())
        return True

    def done(self) -> bool:
        """Whether there is a result, or an error."""
        return self._done

    def lost(self) -> bool:
        """Whether it is not done, and nobody is left to do it."""
        return self._is_lost is not None and self._is_lost() and not self._done

    def wait(self, timeout: float | None = None) -> bool:
        """Waits until there is; False if that takes longer than `timeout` seconds.

        MemoryError if there will be none.
        """
        seconds = _LOOK_SECONDS if timeout is None else timeout
        while not self._undone.acquire(timeout=seconds):
            # One that was interrupted may have taken it and not given it back.
            if self._done or timeout is not None:
                return self._done
            if self.lost():
                raise MemoryError
        self._undone.release()
        return True

    def result(self, timeout: float | None = None) -> T:
        """What the task gave, once it is done; TimeoutError if that takes longer."""
        if not self.wait(timeout):
            raise TimeoutError
        if self._error is None:
            return cast("T", self._result)
        try:
            raise self._error
        finally:
            # The error knows this frame and must not be known by it.
            del self

    def then(self, action: Callable[[], object]) -> None:
        """Calls `action` once the task is done: now, or by the thread that does it."""
        with self._changing:
            if not self._done:
                self._actions.append(action)
                return
        action()

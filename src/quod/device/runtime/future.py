"""Futures: the results of tasks on other threads.

The standard library's futures import logging and other modules, which takes 4 ms of a proving
process. A wait for one also hangs if its thread ends silently, as it does when memory runs out.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar, cast

from quod.errors import DeviceError

T = TypeVar("T")

# The interval at which a wait checks that the task's thread still exists.
_LOOK_SECONDS = 0.5


class Dropped(DeviceError):
    """The task was dropped before it started."""

    def __init__(self) -> None:
        super().__init__("what this needs was not begun, as its key or device was closed before")


class Outcome(Generic[T]):
    """The result of a task, or its error. Thread-safe.

    is_lost: returns whether no thread is left to run the task.
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
        """Return the outcome of a task that is already done."""
        outcome = cls()
        outcome.set(result)
        return outcome

    # --- for whoever does the task

    def begin(self) -> bool:
        """Mark the task as started; return False if it was dropped, and must not run."""
        with self._changing:
            self._begun = not self._done
            return self._begun

    def set(self, result: T) -> None:
        """Set the result and wake all waiters."""
        self._result = result
        self._finish()

    def fail(self, error: BaseException) -> None:
        """Set the error that `result` raises, and wake all waiters."""
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
        """Drop the task before it starts; return False if it has started."""
        with self._changing:
            if self._begun or self._done:
                return False
            self._begun = True
        self.fail(Dropped())
        return True

    def done(self) -> bool:
        """Return whether there is a result or an error."""
        return self._done

    def lost(self) -> bool:
        """Return whether the task is not done and no thread is left to run it."""
        return self._is_lost is not None and self._is_lost() and not self._done

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for the task; return False after `timeout` seconds.

        Raises MemoryError if the task is lost.
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
        """Wait for the task and return its result, or raise its error.

        Raises TimeoutError after `timeout` seconds.
        """
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
        """Call `action` once the task is done: now, or by the thread that does it."""
        with self._changing:
            if not self._done:
                self._actions.append(action)
                return
        action()

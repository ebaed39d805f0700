"""Futures: the results of tasks on other threads.

The standard library's futures import logging and other modules, which takes 4 ms. A wait for such a
future also hangs if its thread ends without a result, which happens when memory runs out.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar, cast

from quod.errors import DeviceError

T = TypeVar("T")

# The interval at which a wait checks that the task's thread still exists.
_CHECK_SECONDS = 0.5


class Dropped(DeviceError):
    """The task was dropped before it started."""

    def __init__(self) -> None:
        super().__init__("the task was dropped before it started: its key or device was closed")


class Outcome(Generic[T]):
    """The result of a task, or its error. Thread-safe.

    is_lost: returns whether no thread is left to run the task.
    """

    def __init__(self, is_lost: Callable[[], bool] | None = None) -> None:
        self._is_lost = is_lost
        # Locked until the task is done; a waiter acquires it and releases it for the next one.
        self._pending_lock = threading.Lock()
        self._pending_lock.acquire()
        self._state_lock = threading.Lock()
        self._started = self._done = False
        self._result: T | None = None
        self._error: BaseException | None = None
        self._actions: list[Callable[[], object]] = []

    @classmethod
    def of(cls, result: T) -> Outcome[T]:
        """Return the outcome of a task that is already done."""
        outcome = cls()
        outcome.set(result)
        return outcome

    # --- methods for the thread that runs the task

    def begin(self) -> bool:
        """Mark the task as started; return False if it was dropped, and must not run."""
        with self._state_lock:
            self._started = not self._done
            return self._started

    def set(self, result: T) -> None:
        """Set the result and wake all waiters."""
        self._result = result
        self._finish()

    def fail(self, error: BaseException) -> None:
        """Set the error that `result` raises, and wake all waiters."""
        self._error = error
        self._finish()

    def _finish(self) -> None:
        with self._state_lock:
            self._done = True
            self._pending_lock.release()
            actions, self._actions = self._actions, []
        for action in actions:
            action()

    # --- methods for threads that use the result

    def drop(self) -> bool:
        """Drop the task before it starts; return False if it has started."""
        with self._state_lock:
            if self._started or self._done:
                return False
            self._started = True
        self.fail(Dropped())
        return True

    def done(self) -> bool:
        """Report whether there is a result or an error."""
        return self._done

    def lost(self) -> bool:
        """Report whether the task is not done and no thread is left to run it."""
        return self._is_lost is not None and self._is_lost() and not self._done

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for the task; return False after `timeout` seconds.

        Raises MemoryError if the task is lost.
        """
        seconds = _CHECK_SECONDS if timeout is None else timeout
        while not self._pending_lock.acquire(timeout=seconds):
            # An interrupted waiter may have acquired the lock without releasing it.
            if self._done or timeout is not None:
                return self._done
            if self.lost():
                raise MemoryError
        self._pending_lock.release()
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
            # The error's traceback refers to this frame; avoid a reference cycle.
            del self

    def then(self, action: Callable[[], object]) -> None:
        """Call `action` when the task is done: now if it is, else in the thread that runs it."""
        with self._state_lock:
            if not self._done:
                self._actions.append(action)
                return
        action()

"""Events: points in the work of a stream, for waiting and for timing."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from quod.errors import DeviceError


class Completion:
    """The completion of an event in one submission of its recording."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._done = threading.Event()
        self._callbacks: list[Callable[[], None]] = []
        self.time_ns = 0
        self.failed = False

    def complete(self, *, failed: bool = False) -> None:
        """Mark the event as completed, or as failed if it will never be reached.

        The first call determines the outcome; later calls do nothing.
        """
        with self._lock:
            if self._done.is_set():
                return
            self.time_ns, self.failed = time.perf_counter_ns(), failed
            self._done.set()
            callbacks = self._callbacks
        for callback in callbacks:
            callback()

    def is_done(self) -> bool:
        return self._done.is_set()

    def wait(self, timeout: float | None = None) -> bool:
        return self._done.wait(timeout)

    def call_when_done(self, callback: Callable[[], None]) -> None:
        """Call `callback` when the event completes or fails; immediately if it already has."""
        with self._lock:
            if not self._done.is_set():
                self._callbacks.append(callback)
                return
        callback()


class Event:
    """A point in the recording of a stream; `RecordingStream.event` creates it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._completion: Completion | None = None

    def arm(self, completion: Completion | None = None) -> Completion:
        """Start a new completion for a submission of the recording; a device may pass its own."""
        self._completion = Completion() if completion is None else completion
        return self._completion

    def completion(self) -> Completion:
        """Return the completion of the last submission; raises DeviceError before the first one."""
        if self._completion is None:
            raise DeviceError(
                f"event {self.name} belongs to a recording that is not submitted yet; "
                "submit it before waiting for the event"
            )
        return self._completion

    @property
    def is_done(self) -> bool:
        """True if the last submission has passed the event."""
        return self._completion is not None and self._completion.is_done()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the event is passed; return False after `timeout` seconds.

        Raises DeviceError if the recording was not submitted, or ended before the event.
        """
        completion = self.completion()
        if not completion.wait(timeout):
            return False
        if completion.failed:
            raise DeviceError(f"the work of event {self.name} ended before it")
        return True

    @property
    def time_ns(self) -> int:
        """The time when the event was passed, by `time.perf_counter_ns`.

        Raises DeviceError before the event is passed.
        """
        completion = self.completion()
        if not completion.is_done() or completion.failed:
            raise DeviceError(f"event {self.name} has not completed")
        return completion.time_ns

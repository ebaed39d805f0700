"""Cancel, from one thread, the device work of other threads.

cancellation = Cancellation()

def task():
    with cancellation:
        device.launch(...)        # raises DeviceError once `cancellation` is cancelled

try:
    ...                           # threads run tasks
except BaseException:
    cancellation.cancel()
    raise
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from quod.errors import DeviceError


class Cancellable(Protocol):
    """Work that another thread can cancel, such as a `Job`; cancelling twice is harmless."""

    def cancel(self) -> None: ...


class Cancellation:
    """A scope (`with`) whose launches, and awaited stream work, can be cancelled from any thread.

    After `cancel`, later launches in the scope are refused.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: list[Cancellable] = []
        self._outer = threading.local()
        self.requested = False

    def cancel(self) -> None:
        """Cancel the running work and refuse later work; may be called more than once."""
        with self._lock:
            self.requested = True
            running = tuple(self._running)
        for work in running:
            work.cancel()

    def begin(self, running: Cancellable) -> None:
        """Register running work; it is cancelled at once if cancellation was already requested."""
        with self._lock:
            self._running.append(running)
            requested = self.requested
        if requested:
            running.cancel()

    def end(self, running: Cancellable) -> None:
        """Unregister work that has ended."""
        with self._lock:
            self._running = [work for work in self._running if work is not running]

    def check(self, what: str) -> None:
        """Raise DeviceError if this cancellation was requested."""
        if self.requested:
            raise DeviceError(f"{what} was stopped")

    def __enter__(self) -> Cancellation:
        stack: list[Cancellation | None] = self._outer.__dict__.setdefault("stack", [])
        stack.append(current())
        _local.cancellation = self
        return self

    def __exit__(self, *_: object) -> None:
        _local.cancellation = self._outer.stack.pop()


_local = threading.local()


def current() -> Cancellation | None:
    """Return the innermost cancellation scope of this thread, or None."""
    cancellation: Cancellation | None = getattr(_local, "cancellation", None)
    return cancellation


@contextmanager
def forwarding_cancellation(running: Cancellable) -> Iterator[None]:
    """Let a cancellation of this thread's scope also cancel `running` during the body."""
    scope = current()
    if scope is None:
        yield
        return
    scope.begin(running)
    try:
        yield
    finally:
        scope.end(running)

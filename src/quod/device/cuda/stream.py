"""A pool of the driver's streams, and waits for their work that Ctrl-C can interrupt."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from quod.device.cuda.driver import Driver

_NON_BLOCKING = 1  # CU_STREAM_NON_BLOCKING
# The driver is polled without a pause at first, then at growing intervals, so that a wait ends at
# most 2 % late. A poll releases the interpreter lock; the shortest sleep takes some 50 us.
_EAGER_SECONDS = 2e-3
_PAUSE_FRACTION = 0.02
_LONGEST_PAUSE = 2e-3


def wait_until(ready: Callable[[], bool], timeout: float | None = None) -> bool:
    """Poll until `ready` returns True; return False after `timeout` seconds.

    Python handles Ctrl-C between two polls, which a wait inside the driver would not allow.
    """
    begin = time.perf_counter()
    while not ready():
        waited = time.perf_counter() - begin
        if timeout is not None and waited >= timeout:
            return False
        if waited >= _EAGER_SECONDS:
            time.sleep(min(_LONGEST_PAUSE, waited * _PAUSE_FRACTION))
    return True


class StreamPool:
    """Idle streams of one context and one priority, for reuse; thread-safe."""

    def __init__(self, driver: Driver, priority: int) -> None:
        """priority: 0 for usual work; the workgroups of streams with a smaller number run first."""
        self._driver, self._priority = driver, priority
        self._lock = threading.Lock()
        self._idle: list[Any] = []

    def acquire(self) -> Any:
        """Return a stream that only the caller uses."""
        with self._lock:
            if self._idle:
                return self._idle.pop()
        return self._driver.cuStreamCreateWithPriority(_NON_BLOCKING, self._priority)

    def release(self, stream: Any) -> None:
        """Take back a stream, which must have no pending work."""
        with self._lock:
            self._idle.append(stream)

    def close(self) -> None:
        with self._lock:
            for stream in self._idle:
                self._driver.cuStreamDestroy(stream)
            self._idle.clear()


class Work:
    """The work of one stream; keeps the resources that it uses alive until it is done.

    The caller calls `mark_enqueued` after enqueuing everything; before that an empty stream does
    not mean that the work is done. `finished` is called once it is done.
    """

    def __init__(self, driver: Driver, streams: StreamPool, keep: object,
                 finished: Callable[[Work], None]) -> None:  # fmt: skip
        self._driver, self._streams = driver, streams
        self.stream = streams.acquire()
        self._keep = keep
        self._finished = finished
        self._lock = threading.Lock()
        self._is_enqueued = False
        self.is_done = False

    def mark_enqueued(self) -> None:
        """Mark the work as completely enqueued."""
        self._is_enqueued = True

    def is_ready(self) -> bool:
        """Ask the driver whether the work is done; raise CudaError if it failed."""
        if self.is_done or not self._is_enqueued:
            return self.is_done
        if self._driver.is_ready("cuStreamQuery", self.stream):
            self.finish()
        return self.is_done

    def release_stream(self) -> None:
        """Return the stream to its pool; no work may be pending."""
        self._streams.release(self.stream)

    def finish(self) -> None:
        """Release the resources and call `finished`, once."""
        with self._lock:
            if self.is_done:
                return
            self.is_done, self._keep = True, None
        self._finished(self)

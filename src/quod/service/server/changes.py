"""Asynchronous waiting for changes of a job, without a thread."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

from quod.service.queue import Job, JobQueue


class Changes:
    """Notifications of the changes of a job, or with `end` only of its end, in a `with` block.

    The instance belongs to the event loop that creates it. `next` misses no change since `watch` or
    its last call.
    """

    def __init__(self, queue: JobQueue, *, end: bool = False) -> None:
        self._queue, self._end = queue, end
        self._woken = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._lock = threading.Lock()
        self._unwatch: Callable[[], None] | None = None
        self._closed = False
        self.outcome: tuple[Job, list[bytes]] | None = None
        """The ended job with its results, if they are known without reading the queue."""

    def __enter__(self) -> Changes:
        return self

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._closed = True
        if self._unwatch is not None:
            self._unwatch()

    @property
    def watching(self) -> bool:
        return self._unwatch is not None

    def watch(self, job: str) -> None:
        """Start watching a job; callable from any thread. Does nothing after the block."""
        with self._lock:
            if self._closed:
                return
            if self._end:
                self._unwatch = self._queue.watch_end(job, self._ended)
            else:
                self._unwatch = self._queue.watch(job, self._wake)

    def _ended(self, outcome: tuple[Job, list[bytes]] | None) -> None:
        self.outcome = outcome
        self._wake()

    def _wake(self) -> None:
        self._loop.call_soon_threadsafe(self._woken.set)

    async def next(self, seconds: float) -> bool:
        """Wait up to `seconds`; return whether there was a change."""
        try:
            async with asyncio.timeout(seconds):
                await self._woken.wait()
        except TimeoutError:
            return False
        self._woken.clear()
        return True

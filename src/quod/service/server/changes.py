"""Waiting for a job to change, without a thread."""

from __future__ import annotations

import asyncio

from quod.service.queue import JobQueue


class Changes:
    """What happens to a job, or its `end` alone, while a `with` block lasts; for one loop's thread.

    What happened since the block began, or since `next` was called last, is not missed.
    """

    def __init__(self, queue: JobQueue, job: str, *, end: bool = False) -> None:
        self._queue, self._job, self._end = queue, job, end
        self._woken = asyncio.Event()

    def __enter__(self) -> Changes:
        loop = asyncio.get_running_loop()

        def wake() -> None:
            loop.call_soon_threadsafe(self._woken.set)

        self._stop = self._queue.watch(self._job, wake, end=self._end)
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()

    async def next(self, seconds: float) -> bool:
        """Waits so long at most; whether anything has happened."""
        try:
            async with asyncio.timeout(seconds):
                await self._woken.wait()
        except TimeoutError:
            return False
        self._woken.clear()
        return True

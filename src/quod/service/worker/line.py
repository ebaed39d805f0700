"""Steps one after the other, each with threads of its own and a bounded queue before it.

Whoever has done a step puts the work into the next queue, and waits while that is full: so a slow
step holds back those before it, and in the end the claims.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from queue import Queue

from quod.frozen import frozen
from quod.service.worker.work import Work

_log = logging.getLogger(__name__)


@frozen
class Step:
    """What is done with work, by how many threads, and how much may wait for it."""

    name: str
    do: Callable[[Work], None]
    threads: int
    room: int


class Line:
    """All of the steps. What a step raises goes to `failed`, which ends the work."""

    def __init__(
        self, steps: Sequence[Step], failed: Callable[[Work, BaseException], None]
    ) -> None:
        self._failed = failed
        self._steps = steps
        self._queues: list[Queue[Work | None]] = [Queue(max(1, step.room)) for step in steps]
        self._threads = [
            [
                threading.Thread(target=self._run, args=(at,), name=f"quod-{step.name}-{number}")
                for number in range(step.threads)
            ]
            for at, step in enumerate(steps)
        ]
        for threads in self._threads:
            for thread in threads:
                thread.start()

    def put(self, work: Work) -> None:
        """Gives work to the first step."""
        self._queues[0].put(work)

    def _run(self, at: int) -> None:
        step, source = self._steps[at], self._queues[at]
        while (work := source.get()) is not None:
            try:
                step.do(work)
                if at + 1 < len(self._steps):
                    self._queues[at + 1].put(work)
            except BaseException as error:
                try:
                    self._failed(work, error)
                except Exception:
                    _log.exception("the end of a failed proof could not be told")
            # Work that has ended must not live on until the next one comes.
            del work

    def close(self) -> None:
        """Does what there is, then ends the threads."""
        for queue, threads in zip(self._queues, self._threads, strict=True):
            for _ in threads:
                queue.put(None)
            for thread in threads:
                thread.join()

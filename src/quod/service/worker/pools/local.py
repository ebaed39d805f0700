"""A pool of workers in the process of the queue, for CPUs and tests."""

from __future__ import annotations

from collections.abc import Sequence

from quod.service.keys import KeyRepository, RegisteredCalculators
from quod.service.queue import JobQueue
from quod.service.worker.jobs import OwnJobs
from quod.service.worker.opening import opener
from quod.service.worker.pools.members import Members
from quod.service.worker.settings import WorkerSettings, sharing
from quod.service.worker.worker import Worker


class LocalPool(Members[Worker]):
    """A `WorkerPool` whose workers are threads of this process."""

    def __init__(
        self, queue: JobQueue, repository: KeyRepository,
        workers: Sequence[WorkerSettings] = (WorkerSettings(),),
    ) -> None:  # fmt: skip
        workers = sharing(workers)
        warm = [key for worker in workers for key in worker.warm]
        calculate = RegisteredCalculators(repository, warm=warm)
        super().__init__(
            queue, repository, workers,
            lambda name, settings: Worker(
                name, OwnJobs(queue, name, self._placement), opener(repository, settings),
                settings, calculate, self._notify,
            ),
        )  # fmt: skip

    def preload(self, key: str, *, worker: str | None = None, timeout: float | None = None) -> None:
        for member in self._chosen(worker):
            member.preload(key, timeout)

    def evict(self, key: str, *, worker: str | None = None) -> None:
        for member in self._chosen(worker):
            member.evict(key)

    def resume(self, worker: str) -> None:
        for member in self._named(worker):
            member.resume()

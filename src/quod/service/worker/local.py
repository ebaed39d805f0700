"""Workers in the process of the queue: for one processor, and for tests."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence

from quod.service.errors import NotFoundError
from quod.service.keys import KeyRepository, ResidentKeys
from quod.service.queue import JobQueue
from quod.service.queue.checks import checked_name
from quod.service.worker.calculators import Calculators
from quod.service.worker.jobs import OwnJobs
from quod.service.worker.pool import StageRecord, WorkerStatus
from quod.service.worker.settings import WorkerSettings, worker_names
from quod.service.worker.worker import Worker
from quod.validation import instance

_log = logging.getLogger(__name__)

Watcher = Callable[[StageRecord], None]


class LocalPool:
    """See `WorkerPool`: a worker for each of the settings, as threads of this process."""

    def __init__(
        self, queue: JobQueue, repository: KeyRepository,
        workers: Sequence[WorkerSettings] = (WorkerSettings(),),
    ) -> None:  # fmt: skip
        instance("the queue", queue, JobQueue, "open_queue opens one")
        instance("the repository", repository, KeyRepository, "KeyRepository(folder) opens one")
        self._watchers: tuple[Watcher, ...] = ()
        names, calculate = worker_names(workers), Calculators(repository)
        self._workers = {
            name: Worker(
                name, OwnJobs(queue, name), _opener(repository, settings), settings,
                calculate, self._tell,
            )
            for name, settings in zip(names, workers, strict=True)
        }  # fmt: skip

    @property
    def ready(self) -> bool:
        return all(worker.ready for worker in self._workers.values())

    def start(self) -> None:
        for worker in self._workers.values():
            worker.start()

    def status(self) -> list[WorkerStatus]:
        return [worker.status() for worker in self._workers.values()]

    def watch(self, callback: Watcher) -> None:
        self._watchers += (callback,)

    def preload(self, key: str, *, worker: str | None = None, timeout: float | None = None) -> None:
        for one in self._chosen(worker):
            one.preload(key, timeout)

    def evict(self, key: str, *, worker: str | None = None) -> None:
        for one in self._chosen(worker):
            one.evict(key)

    def resume(self, worker: str) -> None:
        for one in self._chosen(checked_name("the worker", worker)):
            one.resume()

    def drain(self, timeout: float | None = None) -> bool:
        limit = None if timeout is None else time.monotonic() + timeout
        left = timeout
        for worker in self._workers.values():
            # All of them stop claiming before any is waited for.
            worker.drain(0)
        drained = []
        for worker in self._workers.values():
            if limit is not None:
                left = max(0.0, limit - time.monotonic())
            drained.append(worker.drain(left))
        return all(drained)

    def close(self) -> None:
        for worker in self._workers.values():
            worker.close()

    def _chosen(self, worker: str | None) -> list[Worker]:
        return chosen(self._workers, worker)

    def _tell(self, record: StageRecord) -> None:
        for watcher in self._watchers:
            try:
                watcher(record)
            except Exception:
                _log.exception("a watcher of the workers has failed")


def chosen(workers: dict[str, Worker], name: str | None) -> list[Worker]:
    """The worker of a name, or all of them; `NotFoundError` if there is none."""
    if name is None:
        return list(workers.values())
    if checked_name("the worker", name) not in workers:
        raise NotFoundError(f"there is no worker {name!r}; the workers are {', '.join(workers)}")
    return [workers[name]]


def _opener(repository: KeyRepository, settings: WorkerSettings) -> Callable[[], ResidentKeys]:
    return lambda: ResidentKeys(
        repository, settings.device, host_bytes=settings.host_bytes,
        device_bytes=settings.device_bytes, lanes=settings.lanes,
    )  # fmt: skip

"""The common part of all pools: workers by name."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from typing import Generic, Protocol, TypeVar

from quod.frozen import replace
from quod.service.errors import NotFoundError
from quod.service.keys import KeyRepository
from quod.service.queue import JobQueue
from quod.service.queue.validation import checked_name
from quod.service.worker.pools.placement import Placement
from quod.service.worker.pools.pool import StageRecord, WorkerStatus
from quod.service.worker.settings import WorkerSettings, worker_names

_log = logging.getLogger(__name__)

Watcher = Callable[[StageRecord], None]


class Member(Protocol):
    """The interface of a pool to one worker."""

    @property
    def ready(self) -> bool: ...
    def start(self) -> None: ...
    def status(self) -> WorkerStatus: ...
    def drain(self, timeout: float | None = None) -> bool: ...
    def close(self) -> None: ...


M = TypeVar("M", bound=Member)


class Members(Generic[M]):
    """The common part of `WorkerPool` implementations.

    make: creates a worker from its name and settings.
    """

    def __init__(
        self, queue: JobQueue, repository: KeyRepository, workers: Sequence[WorkerSettings],
        make: Callable[[str, WorkerSettings], M],
    ) -> None:  # fmt: skip
        names = worker_names(workers)
        self._watchers: tuple[Watcher, ...] = ()
        self._placement = Placement(self._worker_statuses) if len(names) > 1 else None
        self._workers = {
            name: make(name, worker) for name, worker in zip(names, workers, strict=True)
        }

    @property
    def ready(self) -> bool:
        return all(worker.ready for worker in self._workers.values())

    def start(self) -> None:
        for worker in self._workers.values():
            worker.start()

    def status(self) -> list[WorkerStatus]:
        placement = self._placement
        return [
            worker_status if placement is None
            else replace(worker_status, replications=placement.replications(worker_status.name))
            for worker_status in self._worker_statuses()
        ]  # fmt: skip

    def _worker_statuses(self) -> list[WorkerStatus]:
        return [worker.status() for worker in self._workers.values()]

    def watch(self, callback: Watcher) -> None:
        self._watchers += (callback,)

    def drain(self, timeout: float | None = None) -> bool:
        deadline = None if timeout is None else time.monotonic() + timeout
        for worker in self._workers.values():
            # All workers stop claiming before the first wait.
            worker.drain(0)
        drained = [
            worker.drain(None if deadline is None else max(0.0, deadline - time.monotonic()))
            for worker in self._workers.values()
        ]
        return all(drained)

    def close(self) -> None:
        threads = [threading.Thread(target=worker.close) for worker in self._workers.values()]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _chosen(self, worker: str | None) -> list[M]:
        """Return the worker of a name, or all workers."""
        return list(self._workers.values()) if worker is None else self._named(worker)

    def _named(self, worker: str) -> list[M]:
        if checked_name("the worker", worker) not in self._workers:
            names = ", ".join(self._workers)
            raise NotFoundError(f"there is no worker {worker!r}; the workers are {names}")
        return [self._workers[worker]]

    def _notify(self, record: StageRecord) -> None:
        for watcher in self._watchers:
            try:
                watcher(record)
            except Exception:
                _log.exception("a watcher of the workers has failed")

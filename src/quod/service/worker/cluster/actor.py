"""A worker in a Ray actor, with its own connection to the queue's database."""

from __future__ import annotations

import threading
from collections import deque
from typing import Any

from quod.ceremony.core_dumps import forbid_core_dumps
from quod.frozen import frozen
from quod.service.encoding import encode_error, encode_frame
from quod.service.keys import KeyRepository, RegisteredCalculators
from quod.service.logs import write_log
from quod.service.queue import JobQueue, Limits, open_queue
from quod.service.worker.jobs import OwnJobs
from quod.service.worker.opening import opener
from quod.service.worker.pools.pool import StageRecord
from quod.service.worker.settings import WorkerSettings
from quod.service.worker.worker import Worker

_MAX_RECORDS = 20_000


@frozen
class SharedStorage:
    """The queue and the keys, reachable from all machines of a cluster.

    data, repository: folders that all machines share.
    """

    data: str
    database: str
    schema: str
    limits: Limits
    repository: str


class ClusterWorker:
    """An actor with a worker; its calls return JSON frames (see `quod.service.encoding`).

    Errors are encoded too, as Quod's errors cannot be pickled.
    """

    def __init__(self, name: str, storage: SharedStorage, settings: WorkerSettings) -> None:
        self._name, self._storage, self._settings = name, storage, settings
        self._records: deque[StageRecord] = deque(maxlen=_MAX_RECORDS)
        self._lock = threading.Lock()
        self._queue: JobQueue | None = None
        self._worker: Worker | None = None

    def begin(self) -> dict[str, Any]:
        """Open the queue and the keys, and start the worker."""
        storage, settings = self._storage, self._settings
        # Ray keeps the standard error of the process in its own files.
        forbid_core_dumps()
        write_log("info", as_json=True)

        def start() -> None:
            # The server runs the sweeps.
            self._queue = open_queue(
                storage.data, database=storage.database, schema=storage.schema,
                limits=storage.limits, sweep_seconds=None,
            )  # fmt: skip
            repository = KeyRepository(storage.repository)
            self._worker = Worker(
                self._name, OwnJobs(self._queue, self._name), opener(repository, settings),
                settings, RegisteredCalculators(repository, warm=settings.warm), self._record,
            )  # fmt: skip
            self._worker.start()

        return _encoded_outcome(start)

    def poll(self) -> dict[str, Any]:
        """Return the worker's status and the stages finished since the last call."""

        def read_status() -> dict[str, Any]:
            with self._lock:
                records = list(self._records)
                self._records.clear()
            return {
                "status": encode_frame(self._running_worker().status()),
                "records": encode_frame(records),
            }

        return _encoded_outcome(read_status)

    def call(self, what: str, *arguments: Any) -> dict[str, Any]:
        """Call `preload`, `evict`, `resume` or `drain` of the worker."""
        return _encoded_outcome(lambda: getattr(self._running_worker(), what)(*arguments))

    def close(self) -> None:
        """Stop the worker; unfinished work is released to the queue."""
        if self._worker is not None:
            self._worker.close()
        if self._queue is not None:
            self._queue.close()

    def _running_worker(self) -> Worker:
        assert self._worker is not None
        return self._worker

    def _record(self, record: StageRecord) -> None:
        with self._lock:
            self._records.append(record)


def _encoded_outcome(work: Any) -> dict[str, Any]:
    try:
        return {"value": work()}
    except Exception as error:
        return {"error": encode_error(error)}

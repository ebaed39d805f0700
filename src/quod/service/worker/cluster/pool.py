"""A pool of workers on a Ray cluster, which share the queue's database."""

from __future__ import annotations

import os
from collections.abc import Sequence

from quod.device.backends import backend_of
from quod.errors import InputError, ServiceError
from quod.extras import installation
from quod.service.keys import KeyRepository
from quod.service.queue import JobQueue
from quod.service.worker.pools.members import Members
from quod.service.worker.settings import WorkerSettings

try:
    import ray
except ImportError:
    raise ServiceError(f"a cluster needs Ray: {installation('ray')}") from None

from quod.service.worker.cluster.actor import SharedStorage
from quod.service.worker.cluster.member import ClusterMember


class RayPool(Members[ClusterMember]):
    """A `WorkerPool` of Ray actors; a worker on a GPU reserves one GPU of the cluster.

    address: the Ray address (``auto``, or HOST:PORT of the head); ignored by a process already in a
        cluster.
    data: the folder of the queue; it and the repository must have the same path on all machines.
    database: the Postgres URL of the queue. Ray places actors and carries calls, but stores no
        jobs.
    Raises InputError if there is no database.
    """

    def __init__(
        self, queue: JobQueue, repository: KeyRepository, workers: Sequence[WorkerSettings], *,
        address: str, data: str | os.PathLike[str], database: str | None, schema: str = "quod",
    ) -> None:  # fmt: skip
        if database is None:
            raise InputError(
                "workers on a cluster share a queue in Postgres; give the URL of its database"
            )
        if not ray.is_initialized():
            try:
                ray.init(address=address, namespace="quod", log_to_driver=False)
            except ConnectionError as error:
                raise ServiceError(f"there is no cluster of Ray at {address!r}") from error
        storage = SharedStorage(
            os.path.abspath(data), database, schema, queue.limits, os.path.abspath(repository.path)
        )
        super().__init__(
            queue, repository, workers,
            lambda name, settings: ClusterMember(
                name, storage, settings, _gpus_of(settings.device), self._notify
            ),
        )  # fmt: skip

    def preload(self, key: str, *, worker: str | None = None, timeout: float | None = None) -> None:
        for member in self._chosen(worker):
            member.ask("preload", key, timeout)

    def evict(self, key: str, *, worker: str | None = None) -> None:
        for member in self._chosen(worker):
            member.ask("evict", key)

    def resume(self, worker: str) -> None:
        for member in self._named(worker):
            member.ask("resume")


def _gpus_of(device: str) -> int:
    backend = backend_of(device)
    return 0 if backend is None or backend.of_the_processor else 1

"""The pool of workers that prove Filecoin jobs, one for each device, in the server's process."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from quod.filecoin.parameters.files import AnyPath
from quod.service.errors import UnavailableError
from quod.service.filecoin.circuit_ids import parameters_of
from quod.service.filecoin.provers import Provers
from quod.service.filecoin.worker import FilecoinWorker
from quod.service.keys import KeyRepository
from quod.service.queue import JobQueue
from quod.service.worker.pools.members import Members
from quod.service.worker.settings import WorkerSettings, sharing


class FilecoinPool(Members[FilecoinWorker]):
    """A `WorkerPool` for jobs whose keys are circuits of Filecoin (`CIRCUITS`).

    folder: the folder of the parameters.
    """

    def __init__(
        self, queue: JobQueue, repository: KeyRepository, workers: Sequence[WorkerSettings],
        folder: AnyPath,
    ) -> None:  # fmt: skip
        super().__init__(
            queue, repository, sharing(workers),
            lambda name, settings: FilecoinWorker(
                name, queue, settings, partial(Provers, settings.device, folder), self._notify
            ),
        )  # fmt: skip

    def preload(self, key: str, *, worker: str | None = None, timeout: float | None = None) -> None:
        """Open the parameters of a circuit; `timeout` has no effect."""
        for member in self._chosen(worker):
            _opened(member).open(parameters_of(key))

    def evict(self, key: str, *, worker: str | None = None) -> None:
        for member in self._chosen(worker):
            _opened(member).evict(parameters_of(key))

    def resume(self, worker: str) -> None:
        """Do nothing but check the name: these workers are never quarantined."""
        self._named(worker)


def _opened(worker: FilecoinWorker) -> Provers:
    if worker.provers is None:
        raise UnavailableError(
            f"the worker {worker.name} has no device open; ask again", retry_seconds=1.0
        )
    return worker.provers

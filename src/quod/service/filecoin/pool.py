"""The pool of workers that prove Filecoin jobs, one for each device, in the server's process."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from quod.errors import InsecureKeyError, ServiceError
from quod.filecoin.parameters.files import AnyPath
from quod.service.errors import UnavailableError
from quod.service.filecoin.circuit_ids import parameters_of
from quod.service.filecoin.parameter_folder import require_parameters
from quod.service.filecoin.provers import Provers
from quod.service.filecoin.worker import FilecoinWorker
from quod.service.keys import KeyRepository
from quod.service.queue import JobQueue
from quod.service.worker.pools.members import Members
from quod.service.worker.settings import WorkerSettings, sharing


class FilecoinPool(Members[FilecoinWorker]):
    """A `WorkerPool` for jobs whose keys are circuits of Filecoin (`CIRCUITS`).

    folder: the folder of the parameters.
    allow_insecure: whether to prove with test keys.
    """

    def __init__(
        self, queue: JobQueue, repository: KeyRepository, workers: Sequence[WorkerSettings],
        folder: AnyPath, *, allow_insecure: bool = False,
    ) -> None:  # fmt: skip
        self._folder = folder
        super().__init__(
            queue, repository, sharing(workers),
            lambda name, settings: FilecoinWorker(
                name, queue, settings,
                partial(Provers, settings.device, folder, allow_insecure=allow_insecure),
                self._notify,
            ),
        )  # fmt: skip

    def preload(self, key: str, *, worker: str | None = None, timeout: float | None = None) -> None:
        """Open the parameters of a circuit; `timeout` has no effect.

        Raises NotFoundError if the folder lacks them, and ServiceError for a test key that the
        server does not accept.
        """
        parameters = parameters_of(key)
        require_parameters(self._folder, parameters)
        for member in self._chosen(worker):
            try:
                _opened(member).open(parameters)
            except InsecureKeyError as error:
                raise ServiceError(str(error)) from None

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

"""The pool of workers that generate text, one for each device, in the server's process."""

from __future__ import annotations

from collections.abc import Sequence

from quod.service.errors import KeyInUseError
from quod.service.generation.models import Models
from quod.service.generation.worker import GenerationWorker
from quod.service.keys import KeyRepository
from quod.service.queue import JobQueue
from quod.service.worker.pools.members import Members
from quod.service.worker.settings import WorkerSettings, sharing


class GenerationPool(Members[GenerationWorker]):
    """A `WorkerPool` for jobs whose keys are names of language models."""

    def __init__(
        self, queue: JobQueue, repository: KeyRepository, workers: Sequence[WorkerSettings],
        models: Models,
    ) -> None:  # fmt: skip
        self.models = models
        super().__init__(
            queue,
            repository,
            sharing(workers),
            lambda name, settings: GenerationWorker(name, queue, settings, models, self._notify),
        )

    def preload(self, key: str, *, worker: str | None = None, timeout: float | None = None) -> None:
        """Check the name of a model: each worker has opened all of them."""
        self.models.of(key)
        self._chosen(worker)

    def evict(self, key: str, *, worker: str | None = None) -> None:
        """Raise KeyInUseError: models stay open until the server ends."""
        self.models.of(key)
        self._chosen(worker)
        raise KeyInUseError("the models of a server stay open; remove it from its configuration")

    def resume(self, worker: str) -> None:
        """Do nothing but check the name: these workers are never quarantined."""
        self._named(worker)

"""A pool of workers in separate processes, for GPUs: a crash ends one worker only."""

from __future__ import annotations

from collections.abc import Sequence

from quod.service.keys import KeyRepository
from quod.service.queue import JobQueue
from quod.service.queue.validation import checked_list
from quod.service.worker.pools.members import Members
from quod.service.worker.process.supervisor import CHILD, Supervisor
from quod.service.worker.settings import WorkerSettings, sharing
from quod.validation import instance


class ProcessPool(Members[Supervisor]):
    """A `WorkerPool` with a process for each worker, started with `command`.

    The queue stays in this process; workers access it over a socket and end with this process. A
    crashed worker is restarted.
    """

    def __init__(
        self, queue: JobQueue, repository: KeyRepository,
        workers: Sequence[WorkerSettings] = (WorkerSettings(),), *,
        command: Sequence[str] = CHILD,
    ) -> None:  # fmt: skip
        for word in checked_list("the command", command):
            instance("a word of the command", word, str, "give a program and its arguments")
        super().__init__(
            queue, repository, sharing(workers),
            lambda name, settings: Supervisor(
                name, queue, repository, settings, self._notify, self._placement, command
            ),
        )  # fmt: skip

    def preload(self, key: str, *, worker: str | None = None, timeout: float | None = None) -> None:
        for member in self._chosen(worker):
            member.ask("preload", key=key, timeout=timeout)

    def evict(self, key: str, *, worker: str | None = None) -> None:
        for member in self._chosen(worker):
            member.ask("evict", key=key)

    def resume(self, worker: str) -> None:
        for member in self._named(worker):
            member.ask("resume")

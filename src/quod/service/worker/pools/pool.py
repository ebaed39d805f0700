"""The interface between a server and its workers.

`LocalPool(queue, repository, [WorkerSettings(device=..., warm=...)])` is a pool in the process of
the queue; `ProcessPool`, with the same arguments, has a process for each worker. A job names its
key by the key's identity, a digest. The payload of a job has the format of `quod.service.payload`,
and the result of a partition that of `quod.service.worker.result`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Annotated, Protocol

from quod.frozen import frozen
from quod.service.encoding import Wire
from quod.service.keys.leases import CacheStatus


class WorkerState(StrEnum):
    """The state of a worker; only READY and BUSY workers claim work."""

    STARTING = "starting"
    READY = "ready"
    BUSY = "busy"
    DRAINING = "draining"
    """The worker finishes claimed work and claims no more."""
    QUARANTINED = "quarantined"
    """Its device computed a proof that does not verify; an operator must check it."""
    DEAD = "dead"
    """Its process has ended and will be restarted."""


class Stage(StrEnum):
    """The stages of a proof in order, then those of a text.

    PROVE and GENERATE are the computation on the device.
    """

    WITNESS = "witness"
    """The witness is read, or computed from inputs."""
    KEY = "key"
    """The key is leased, and loaded if necessary."""
    UPLOAD = "upload"
    PROVE = "prove"
    CHECK = "check"
    PROMPT = "prompt"
    """The prompt of a text is evaluated."""
    GENERATE = "generate"


@frozen
class StageRecord:
    """A finished stage of a proof, for metrics, timelines and the status page.

    HTTP answers omit `key` and name `copied_bytes` "bytes".

    begin, end: seconds by the server's wall clock.
    copied_bytes: the bytes copied to or from the device; 0 if none.
    """

    worker: str
    job: str
    partition: int
    key: Annotated[str, Wire(answer=None)]
    stage: Stage
    begin: float
    end: float
    copied_bytes: Annotated[int, Wire(answer="bytes")] = 0


@frozen
class WorkerStatus:
    """A snapshot of a worker; HTTP answers omit `keys` and `wanted`.

    jobs: the stage of each job it holds.
    busy_seconds: the time for which the device has computed since the start (union of intervals).
    memory: device memory in bytes by purpose ("keys", "workspace", "free").
    keys: its loaded keys.
    problem: the reason why it is quarantined or dead, in one line.
    wanted: the keys of the work it holds.
    replications: how often it was given a key because its work waited at other workers.
    """

    name: str
    device: str
    state: WorkerState
    started: float
    restarts: int
    jobs: Mapping[str, Stage]
    proofs: int
    failures: int
    busy_seconds: float
    memory: Mapping[str, int]
    keys: Annotated[CacheStatus, Wire(answer=None)]
    problem: str
    wanted: Annotated[tuple[str, ...], Wire(answer=None)] = ()
    replications: int = 0

    @property
    def ready(self) -> bool:
        """Report whether the warm keys are loaded and warmed up."""
        return self.keys.ready and self.state not in (WorkerState.STARTING, WorkerState.DEAD)


class WorkerPool(Protocol):
    """The workers of a server. Thread-safe."""

    @property
    def ready(self) -> bool:
        """Report whether all workers have loaded their warm keys."""

    def start(self) -> None:
        """Start the workers, which then claim work; return at once."""

    def status(self) -> list[WorkerStatus]:
        """Return the status of every worker."""

    def watch(self, callback: Callable[[StageRecord], None]) -> None:
        """Call `callback` for each finished stage, in a thread that it must not block."""

    def preload(self, key: str, *, worker: str | None = None, timeout: float | None = None) -> None:
        """Load a key on all workers or one; raises as a lease does."""

    def evict(self, key: str, *, worker: str | None = None) -> None:
        """Evict a key; raises KeyInUseError while it is in use."""

    def resume(self, worker: str) -> None:
        """Resume a quarantined worker, after its device was checked."""

    def drain(self, timeout: float | None = None) -> bool:
        """Stop claiming and wait for claimed work; return whether all of it was finished."""

    def close(self) -> None:
        """Stop the workers; unfinished work is released to the queue."""

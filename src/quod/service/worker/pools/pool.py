"""What a server needs of its workers, and what they tell it; a server knows no more of them.

`LocalPool(queue, repository, [WorkerSettings(device=..., warm=...)])` is such a pool in the process
of the queue; `ProcessPool`, with the same arguments, has a process for each worker. A job's key is
an identity, its payload as `quod.service.payload` writes it, and a result of a partition as
`quod.service.worker.result` has it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Annotated, Protocol

from quod.frozen import frozen
from quod.service.encoding import Wire
from quod.service.keys.leases import CacheStatus


class WorkerState(StrEnum):
    """What a worker does; only READY and BUSY take work."""

    STARTING = "starting"
    READY = "ready"
    BUSY = "busy"
    DRAINING = "draining"
    """It finishes what it has begun and takes nothing more."""
    QUARANTINED = "quarantined"
    """Its device has made a proof that does not verify; an operator must look at it."""
    DEAD = "dead"
    """Its process has ended and is about to be started again."""


class Stage(StrEnum):
    """What is done for a proof, in this order; what a device does meanwhile is PROVE."""

    WITNESS = "witness"
    """Inputs become a witness by the circuit's own program."""
    KEY = "key"
    """The key is loaded, or has to wait for room."""
    UPLOAD = "upload"
    PROVE = "prove"
    CHECK = "check"


@frozen
class StageRecord:
    """One stage of one proof, for metrics, timelines and the page.

    `begin` and `end` are seconds by the wall clock of the server. `payload` counts the bytes that a
    stage copies to or from the device, 0 where it copies none.
    """

    worker: str
    job: str
    partition: int
    key: Annotated[str, Wire(answer=None)]
    stage: Stage
    begin: float
    end: float
    payload: Annotated[int, Wire(answer="bytes")] = 0


@frozen
class WorkerStatus:
    """A worker at a moment: its device, what it does, and the keys that it has loaded.

    `jobs` maps each job in hand to its stage. `busy_seconds` is how long the device has computed
    since the worker started (the union of intervals), `memory` what of the device's memory is in
    use, in bytes by purpose ("keys", "workspace", "free"). `problem` says in one line why it is
    quarantined or dead. `wanted` are the keys of what is in hand; `replications` counts keys that
    it was given because their work waited at other workers.
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
        """Whether the keys of the start are loaded and have been tried."""
        return self.keys.ready and self.state not in (WorkerState.STARTING, WorkerState.DEAD)


class WorkerPool(Protocol):
    """All workers of a server. Calls come from any thread."""

    @property
    def ready(self) -> bool:
        """Whether the keys to be warm at the start are loaded, on every worker that has to."""

    def start(self) -> None:
        """Starts the workers, which then claim by themselves; returns at once."""

    def status(self) -> list[WorkerStatus]:
        """Every worker, by name."""

    def watch(self, callback: Callable[[StageRecord], None]) -> None:
        """Calls back for each stage that ends, from a thread that it must not keep."""

    def preload(self, key: str, *, worker: str | None = None, timeout: float | None = None) -> None:
        """Loads a key where it is not loaded yet, on all workers or one; raises as a lease does."""

    def evict(self, key: str, *, worker: str | None = None) -> None:
        """Gives a key's memory back; `KeyInUseError` while proofs need it."""

    def resume(self, worker: str) -> None:
        """Lets a quarantined worker work again, after somebody has looked at its device."""

    def drain(self, timeout: float | None = None) -> bool:
        """Takes no more work and waits for what is in hand; whether all of it was finished."""

    def close(self) -> None:
        """Ends the workers; what they still had goes back to the queue."""

"""The queue's interface for a worker, in this process or in another one."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import BinaryIO, Protocol

from quod.errors import QuodError, ServiceError
from quod.service.queue import JobQueue, Lease
from quod.service.worker.pools.placement import Placement


class Jobs(Protocol):
    """The queue for one worker; the methods match those of `JobQueue`."""

    @property
    def lease_seconds(self) -> float: ...

    def claim(self, *, keys: Sequence[str] | None, most: int, wait: float) -> list[Lease]: ...

    def elsewhere(self) -> Collection[str]:
        """Return the keys that other workers have loaded as well."""

    def renew(self, leases: Sequence[Lease], stage: str) -> list[ServiceError | None]: ...

    def finish(self, results: Sequence[tuple[Lease, bytes]]) -> list[QuodError | None]:
        """Store results; return for each None or its error."""

    def fail(self, lease: Lease, code: str, message: str, retry: bool) -> None: ...

    def lose(self, lease: Lease, code: str, message: str) -> None: ...

    def release(self, lease: Lease) -> None: ...

    def forget(self, lease: Lease) -> None:
        """Drop a lease that the queue has voided, without a report."""

    def open(self, lease: Lease) -> BinaryIO:
        """Open the payload of a job."""


class OwnJobs:
    """`Jobs` on a queue in this process."""

    def __init__(self, queue: JobQueue, worker: str, placement: Placement | None = None) -> None:
        self._queue, self._worker, self._placement = queue, worker, placement

    @property
    def lease_seconds(self) -> float:
        return self._queue.limits.lease_seconds

    def claim(self, *, keys: Sequence[str] | None, most: int, wait: float) -> list[Lease]:
        return self._queue.claim(
            self._worker, keys=keys, most=most, wait=wait, chooser=self._placement
        )

    def elsewhere(self) -> Collection[str]:
        return () if self._placement is None else self._placement.elsewhere(self._worker)

    def renew(self, leases: Sequence[Lease], stage: str) -> list[ServiceError | None]:
        return self._queue.renew(leases, stage=stage)

    def finish(self, results: Sequence[tuple[Lease, bytes]]) -> list[QuodError | None]:
        return self._queue.finish_many(results)

    def fail(self, lease: Lease, code: str, message: str, retry: bool) -> None:
        self._queue.fail(lease, code, message, retry=retry)

    def lose(self, lease: Lease, code: str, message: str) -> None:
        self._queue.lose(lease, code, message)

    def release(self, lease: Lease) -> None:
        self._queue.release(lease)

    def forget(self, lease: Lease) -> None:
        """Do nothing: the queue has ended the lease itself."""

    def open(self, lease: Lease) -> BinaryIO:
        return self._queue.open_payload(lease)

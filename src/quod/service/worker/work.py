"""The state of a partition in a worker, from its lease to its end."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from typing import BinaryIO

from quod.device.runtime.cancellation import Cancellation
from quod.formats import Witness
from quod.frozen import replace
from quod.groth16 import Proof, ProvingKey
from quod.groth16.batch_prover import AnyPending
from quod.service.keys import Lease as KeyLease
from quod.service.queue import Lease
from quod.service.worker.buffers import Bytes, WitnessBuffers
from quod.service.worker.concurrency_limit import UNITS_PER_PERMIT
from quod.service.worker.jobs import Jobs
from quod.service.worker.pools.pool import Stage


class AbandonedError(Exception):
    """The work is cancelled, its lease lost, or the worker closes."""


class Work:
    """The state of a partition that the stages share.

    entered: the time at which it entered its stage, by the monotonic clock.
    reported_stage: the stage last reported to the queue.
    renewed: the time of the last renewal, by the monotonic clock.
    reserved: the bytes of the memory budget that it holds.
    max_bytes: the maximum size of its witness file.
    permit_units: the units of a permit that it needs; `held_units` are those that it still holds.
    limit: the permit limit at its claim.
    is_batched: whether it was started in a batch.
    result: the encoded result.
    buffer: the page-locked buffer of its witness, from `buffers`, or None.
    digest: the digest of the client's file when `buffer` was filled.
    """

    def __init__(self, lease: Lease, permit_units: int = UNITS_PER_PERMIT, limit: int = 1) -> None:
        self.lease = replace(lease, body=b"") if lease.body else lease
        self.permit_units, self.limit, self.held_units = permit_units, limit, 0
        self.stage = Stage.WITNESS
        self.entered = self.renewed = time.monotonic()
        self.reported_stage: Stage | None = None
        self.reserved = self.max_bytes = 0
        self.is_abandoned = self.ended = self.is_batched = False
        self.cancellation = Cancellation()
        self.witness: Witness | None = None
        self.key: KeyLease[ProvingKey] | None = None
        self.pending: AnyPending | None = None
        self.proof: Proof | None = None
        self.result: bytes | None = None
        self.buffers: WitnessBuffers | None = None
        self.buffer: Bytes | None = None
        self.digest: bytes | None = None
        self.payload_file = BytesIO(lease.body) if lease.body else None

    def enter(self, stage: Stage) -> None:
        """Enter a stage; raises AbandonedError if the work was cancelled."""
        self.check()
        self.stage, self.entered = stage, time.monotonic()

    def check(self) -> None:
        """Raise AbandonedError if the work was cancelled."""
        if self.is_abandoned:
            raise AbandonedError

    @property
    def is_retry(self) -> bool:
        """Report whether an earlier attempt failed or lost its worker."""
        return self.lease.attempt > 1

    def can_batch_with(self, other: Work) -> bool:
        """Report whether two partitions can be batched: same key, and first leases both.

        A retried partition may be the cause of an earlier failure.
        """
        if self.key is None or other.key is None or self.key.value is not other.key.value:
            return False
        return self.lease.token == other.lease.token == 1

    def abandon(self) -> None:
        """Cancel the work: stop what can be stopped; the stage that runs may still end."""
        self.is_abandoned = True
        self.cancellation.cancel()
        pending = self.pending
        if pending is not None:
            pending.cancel()

    @contextmanager
    def payload(self, jobs: Jobs) -> Iterator[BinaryIO]:
        """Open the job's payload; a payload stored in the database is read once and cached."""
        file = self.payload_file or jobs.open(self.lease)
        if isinstance(file, BytesIO):
            self.payload_file = file
            yield file
            return
        with file:
            yield file

    def release_buffer(self) -> None:
        """Release the page-locked buffer; the witness in it is gone."""
        buffers, buffer, self.buffer = self.buffers, self.buffer, None
        if buffers is not None and buffer is not None:
            self.witness = None
            buffers.give_back(buffer)

    def release(self) -> None:
        """Release the key and all memory."""
        pending, key = self.pending, self.key
        self.pending = self.key = None
        self.witness = self.proof = self.payload_file = self.result = None
        if pending is not None:
            pending.close()
        self.release_buffer()
        if key is not None:
            key.release()

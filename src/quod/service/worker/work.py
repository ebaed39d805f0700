"""A partition in a worker's hands, from its lease to its end."""

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
from quod.service.worker.concurrency_limit import WHOLE
from quod.service.worker.jobs import Jobs
from quod.service.worker.pools.pool import Stage


class GoneError(Exception):
    """The work is not wanted any more: cancelled, lost, or the worker ends."""


class Work:
    """What a stage finds of a partition, and leaves for the next one.

    `entered` is when it came to its stage, by the monotonic clock; `told` the stage that the queue
    was told of, and `renewed` when. `reserved` bytes of the budget are its own, and the file of its
    witness may have `most_bytes`; `part` is what it is given of a permit, of `limit` that there
    were, and `permitted` what it has of one; `together` says that it was begun with others.
    `result` is what it came to, and `buffer` what its witness is read into, if that is no memory of
    its own: one of `buffers`. `digest` is then the digest of the client's file, as it was read.
    """

    def __init__(self, lease: Lease, part: int = WHOLE, limit: int = 1) -> None:
        self.lease = replace(lease, body=b"") if lease.body else lease
        self.part, self.limit, self.permitted = part, limit, 0
        self.stage = Stage.WITNESS
        self.entered = self.renewed = time.monotonic()
        self.told: Stage | None = None
        self.reserved = self.most_bytes = 0
        self.gone = self.ended = self.together = False
        self.cancellation = Cancellation()
        self.witness: Witness | None = None
        self.key: KeyLease[ProvingKey] | None = None
        self.pending: AnyPending | None = None
        self.proof: Proof | None = None
        self.result: bytes | None = None
        self.buffers: WitnessBuffers | None = None
        self.buffer: Bytes | None = None
        self.digest: bytes | None = None
        self.kept = BytesIO(lease.body) if lease.body else None

    def enter(self, stage: Stage) -> None:
        """Goes on to a stage; GoneError if nobody wants it any more."""
        self.check()
        self.stage, self.entered = stage, time.monotonic()

    def check(self) -> None:
        """GoneError if nobody wants it any more."""
        if self.gone:
            raise GoneError

    @property
    def tried(self) -> bool:
        """Whether an attempt at it has failed, or a worker has died with it."""
        return self.lease.attempt > 1

    def goes_with(self, other: Work) -> bool:
        """Whether both may be begun together: of one key, and in no worker's hands before.

        What one had that died, or that failed with others, is guilty or not.
        """
        if self.key is None or other.key is None or self.key.value is not other.key.value:
            return False
        return self.lease.token == other.lease.token == 1

    def give_up(self) -> None:
        """Nobody wants it any more: what can be stopped stops, the rest ends with its stage."""
        self.gone = True
        self.cancellation.cancel()
        pending = self.pending
        if pending is not None:
            pending.cancel()

    @contextmanager
    def payload(self, jobs: Jobs) -> Iterator[BinaryIO]:
        """The job's payload; one that is no file is asked for once, and kept as long as that is."""
        file = self.kept or jobs.open(self.lease)
        if isinstance(file, BytesIO):
            self.kept = file
            yield file
            return
        with file:
            yield file

    def leave_buffer(self) -> None:
        """Gives the page-locked memory back; the witness in it is gone."""
        buffers, buffer, self.buffer = self.buffers, self.buffer, None
        if buffers is not None and buffer is not None:
            self.witness = None
            buffers.give_back(buffer)

    def let_go(self) -> None:
        """Gives back what it has of the key, and its memory."""
        pending, key = self.pending, self.key
        self.pending = self.key = None
        self.witness = self.proof = self.kept = self.result = None
        if pending is not None:
            pending.close()
        self.leave_buffer()
        if key is not None:
            key.release()

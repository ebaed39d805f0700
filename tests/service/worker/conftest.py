"""A queue, a repository with small keys, and in-process workers."""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest

from quod.groth16 import VerifyingKey
from quod.service.keys import KeyRepository
from quod.service.payload import PayloadKind, payload_header
from quod.service.queue import Clock, Job, JobQueue, Limits, Submission, open_queue
from quod.service.queue.clock import MICROSECONDS
from quod.service.worker.pools.local import LocalPool
from quod.service.worker.pools.pool import Stage, StageRecord, WorkerPool
from quod.service.worker.result import read_result
from quod.service.worker.settings import WorkerSettings
from tests.service.keys.conftest import BLS, BN254
from tests.service.queue.crash_child import stored

P = TypeVar("P", bound=WorkerPool)

WITNESS = (BN254 / "witness.wtns").read_bytes()
SECONDS = 300.0
"""Longer than anything here takes, kernels that are compiled on a busy machine included."""


class LateClock(Clock):
    """Deadlines, and they alone, come by as much earlier as `late` says."""

    late = 0.0

    def wall(self) -> int:
        return super().wall() + int(self.late * MICROSECONDS)


class Bench:
    """A queue with its keys and workers, for tests."""

    def __init__(self, folder: Path, **limits: Any) -> None:
        self.repository = KeyRepository(folder / "keys", create=True)
        self.key = self.repository.add(BN254 / "circuit.zkey", names=["small"]).identity
        self.other = self.repository.add(BLS / "circuit.zkey", names=["other"]).identity
        queue_limits = Limits(**({"ballast_bytes": 4096} | limits))
        self.clock = LateClock()
        self.queue: JobQueue = open_queue(
            folder / "queue", limits=queue_limits, sweep_seconds=0.05, clock=self.clock
        )
        self.verifying = VerifyingKey.from_json(BN254 / "verification_key.json")
        self.records: list[StageRecord] = []
        self._pools: list[WorkerPool] = []

    def pool(self, *workers: WorkerSettings, **options: Any) -> LocalPool:
        """Workers, which are started and watched."""
        pool = LocalPool(self.queue, self.repository, workers or (WorkerSettings(),), **options)
        return self.started(pool)

    def started(self, pool: P) -> P:
        """Begins with a pool, which ends with the test."""
        self._pools.append(pool)
        pool.watch(self.records.append)
        pool.start()
        return pool

    def submit(
        self, *bodies: bytes, key: str | None = None, kind: PayloadKind = PayloadKind.WTNS,
        **fields: Any,
    ) -> Job:  # fmt: skip
        """A job with a partition for each body."""
        bodies = bodies or (WITNESS,)
        header = payload_header(kind, [len(body) for body in bodies])
        # Of one partition as servers keep it, of several as a file.
        payload = stored(self.queue, b"".join([header, *bodies]), as_row=len(bodies) == 1)
        digest = hashlib.sha256(b"").digest()
        return self.queue.submit(
            Submission("ann", key or self.key, digest, partitions=len(bodies), **payload, **fields)
        )

    def ended(self, job: Job) -> Job:
        """The job once it has ended."""
        ended_job, _ = self.queue.wait(job.id, timeout=SECONDS)
        assert ended_job.state.ended, f"{ended_job.state.name} after {SECONDS} s"
        return ended_job

    def check_results(self, job: Job) -> None:
        """Each partition has a result that verifies."""
        results = self.queue.results(job.id)
        assert len(results) == job.partitions
        for result in results:
            proof, public = read_result(result)
            assert self.verifying.verify(public, proof)

    def close(self) -> None:
        for pool in self._pools:
            pool.close()
        self.queue.close()


PROOF_STAGES = [Stage.WITNESS, Stage.KEY, Stage.UPLOAD, Stage.PROVE, Stage.CHECK]
"""The stages of a proof in order."""


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    harness = Bench(tmp_path)
    yield harness
    harness.close()


def eventually(what: Callable[[], object]) -> None:
    """Waits until something is true."""
    limit, pause = time.monotonic() + SECONDS, threading.Event()
    while not what():
        assert time.monotonic() < limit
        pause.wait(0.005)

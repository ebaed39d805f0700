"""Workers that prove nothing: what they claim they finish with a result that the test knows."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping

from quod.service.errors import KeyInUseError, LeaseLostError
from quod.service.keys.leases import CacheStatus
from quod.service.keys.needs import Tier
from quod.service.queue import JobQueue, Lease
from quod.service.worker.pools.pool import Stage, StageRecord, WorkerState, WorkerStatus

RESULT = json.dumps({"proof": {"protocol": "none"}, "publicSignals": ["7"]})


class FakePool:
    """A worker that waits for leave before each proof, unless it is told to go on."""

    def __init__(self, queue: JobQueue, *, go: bool = True) -> None:
        self._queue = queue
        self.ready = True
        self.calls: list[tuple[str, str, str | None]] = []
        self.leave = threading.Event()
        if go:
            self.leave.set()
        self.fail_with = ""
        self._watchers: list[Callable[[StageRecord], None]] = []
        self.stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._busy = threading.Lock()
        self.proofs = 0

    def start(self) -> None:
        self._thread.start()

    def status(self) -> list[WorkerStatus]:
        memory: Mapping[str, int] = {"keys": 1, "workspace": 2, "free": 3}
        keys = CacheStatus(True, {Tier.HOST: 10}, {Tier.HOST: 4}, 0, ())
        return [
            WorkerStatus(
                "fake", "cpu", WorkerState.READY, 1.0, 0, {}, self.proofs, 0, 0.5, memory, keys, ""
            )
        ]

    def watch(self, callback: Callable[[StageRecord], None]) -> None:
        self._watchers.append(callback)

    def preload(self, key: str, *, worker: str | None = None, timeout: float | None = None) -> None:
        self.calls.append(("preload", key, worker))

    def evict(self, key: str, *, worker: str | None = None) -> None:
        self.calls.append(("evict", key, worker))
        if worker is not None:
            raise KeyInUseError("the key is leased")

    def resume(self, worker: str) -> None:
        self.calls.append(("resume", worker, None))

    def drain(self, timeout: float | None = None) -> bool:
        self.stopping.set()
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def close(self) -> None:
        self.stopping.set()
        self.leave.set()
        if self._thread.ident is not None:
            self._thread.join()

    def _run(self) -> None:
        while not self.stopping.is_set():
            for lease in self._queue.claim("fake", wait=0.05):
                self._prove(lease)

    def _prove(self, lease: Lease) -> None:
        begin = time.time()
        self.leave.wait()
        if self.fail_with:
            self._queue.fail(lease, "INVALID_ARGUMENT", self.fail_with, retry=False)
            return
        [problem] = self._queue.renew([lease], stage="prove")
        if problem is not None:
            return
        # Counted first: whoever waits for the job may look at once.
        self.proofs += 1
        try:
            self._queue.finish(lease, RESULT.encode())
        except LeaseLostError:
            # The client cancelled the job after it was proved.
            return
        for stage in (Stage.UPLOAD, Stage.CHECK):
            record = StageRecord(
                "fake", lease.job, lease.partition, lease.key, stage, begin, time.time(), 5
            )
            for watcher in self._watchers:
                watcher(record)

"""The stages of a proof, from a lease to a result: what each of them does with a partition."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from quod.errors import VerificationError
from quod.formats import Witness
from quod.frozen import frozen
from quod.groth16 import Proof
from quod.proving.busy import BusyMeter
from quod.service.errors import NotFoundError
from quod.service.keys import ResidentKeys
from quod.service.worker.arbiter import proved_again
from quod.service.worker.jobs import Jobs
from quod.service.worker.line import Step
from quod.service.worker.pool import Stage, StageRecord
from quod.service.worker.result import result_bytes
from quod.service.worker.settings import WorkerSettings
from quod.service.worker.witnesses import Calculate, witness_of
from quod.service.worker.work import GoneError, Work

# Files are read, and inputs computed, by so many at a time.
_READERS = 2


@frozen(eq=False)
class Stages:
    """What the stages work with.

    `computed`, `done` and `faulty` are told how work gets on; `tell` calls the queue, again while
    it does not answer.
    """

    worker: str
    jobs: Jobs
    keys: ResidentKeys
    settings: WorkerSettings
    meter: BusyMeter
    calculate: Calculate
    record: Callable[[StageRecord], None]
    computed: Callable[[Work], None]
    done: Callable[[Work], None]
    tell: Callable[[Callable[[], None]], None]
    faulty: Callable[[str], None]

    def steps(self) -> list[Step]:
        """As a line does them. One thread submits to the device, several wait for it."""
        settings = self.settings
        waiting = 2 * settings.most_lanes
        return [
            Step("witness", self.read, _READERS, settings.ahead + waiting),
            # One more than may wait for keys that are loaded.
            Step("key", self.lease, settings.ahead + 1, 1),
            Step("upload", self.begin, 1, 1),
            Step("prove", self.compute, waiting, 1),
            Step("check", self.check, settings.checks, settings.checks),
        ]

    def read(self, work: Work) -> None:
        """The witness, from wherever it is."""
        with self._stage(work, Stage.WITNESS):
            work.witness = self._witness(work)

    def _witness(self, work: Work) -> Witness:
        try:
            with work.payload(self.jobs) as file:
                return witness_of(file, work.lease, self.calculate, work.buffer)
        except NotFoundError:
            # The payload goes when its job has ended.
            raise GoneError from None

    def lease(self, work: Work) -> None:
        """The key, which may have to be loaded."""
        with self._stage(work, Stage.KEY), work.cancellation:
            work.key = self.keys.lease(work.lease.key)

    def begin(self, work: Work) -> None:
        """The witness goes to the device, and what it has to do."""
        assert work.witness is not None
        assert work.key is not None
        work.enter(Stage.UPLOAD)
        begin = time.perf_counter_ns()
        copied = work.witness.values.nbytes
        work.pending = work.key.value.begin(
            work.witness, meter=self.meter, pinned=work.buffer is not None
        )
        # It is on the device, and another one may be read meanwhile.
        work.leave_buffer()
        span = work.pending.spans.get("upload", (begin, begin))
        self._record(work, Stage.UPLOAD, *span, copied)
        work.check()

    def compute(self, work: Work) -> None:
        """Waits for the device."""
        assert work.pending is not None
        work.enter(Stage.PROVE)
        begin = time.perf_counter_ns()
        work.proof = work.pending.compute()
        span = work.pending.spans.get("compute", (begin, time.perf_counter_ns()))
        self._record(work, Stage.PROVE, *span)
        self.computed(work)

    def check(self, work: Work) -> None:
        """The verifier's answer, and the result to the queue."""
        assert work.pending is not None
        assert work.proof is not None
        proof, public = work.proof, work.pending.public
        # The host goes on with a proof when the device has ended.
        _, since = work.pending.spans.get("compute", (0, time.perf_counter_ns()))
        with self._stage(work, Stage.CHECK, since):
            try:
                work.pending.check(proof)
            except VerificationError:
                proof, public = self._again(work)
        result = result_bytes(proof, public)
        self.tell(lambda: self.jobs.finish(work.lease, result))
        self.done(work)

    def _again(self, work: Work) -> tuple[Proof, list[int]]:
        assert work.key is not None
        witness = work.witness or self._witness(work)
        found = proved_again(work.key.value, witness, self.settings.arbiter_constraints)
        self.faulty(f"a proof of the job {work.lease.job} did not verify, and the next one did")
        return found

    @contextmanager
    def _stage(self, work: Work, stage: Stage, since: int | None = None) -> Iterator[None]:
        work.enter(stage)
        begin = since or time.perf_counter_ns()
        yield
        self._record(work, stage, begin, time.perf_counter_ns())

    def _record(self, work: Work, stage: Stage, begin: int, end: int, payload: int = 0) -> None:
        """Tells of a stage whose times are `time.perf_counter_ns`."""
        to_wall = time.time_ns() - time.perf_counter_ns()
        lease = work.lease
        self.record(
            StageRecord(
                self.worker, lease.job, lease.partition, lease.key, stage,
                (begin + to_wall) / 1e9, (end + to_wall) / 1e9, payload,
            )
        )  # fmt: skip

"""The stages of a proof, from the lease of a partition to its result."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial

from quod.device.runtime.busy_time import BusyMeter
from quod.errors import InputError, TryAgainError, VerificationError
from quod.formats import Witness
from quod.frozen import frozen
from quod.groth16 import Proof
from quod.groth16.batch_prover import PendingOrError
from quod.service.errors import NotFoundError
from quod.service.keys import ResidentKeys
from quod.service.worker.jobs import Jobs
from quod.service.worker.partition_queue import Group
from quod.service.worker.pipeline import Step
from quod.service.worker.pools.pool import Stage, StageRecord
from quod.service.worker.result import result_bytes
from quod.service.worker.reverification import prove_again
from quod.service.worker.settings import WorkerSettings
from quod.service.worker.witnesses import NAME, Calculate, witness_of
from quod.service.worker.work import AbandonedError, Work

# The number of threads that read files and compute witnesses.
_READERS = 2


@frozen(eq=False)
class Stages:
    """The context of the stages.

    computed: called when the device has computed a partition's proof.
    done: called when the queue has the partition's result.
    failed: called with the error of a partition that failed.
    faulty: called if the device computed a wrong proof.
    report: calls its argument, a call of the queue, and repeats it while the queue does not answer.
    batch_sizes: the batch size by key, recorded when a key is leased.
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
    failed: Callable[[Work, BaseException], None]
    batch_sizes: dict[str, int]
    report: Callable[[Callable[[], None]], None]
    faulty: Callable[[str], None]

    def steps(self) -> list[Step]:
        """Return the pipeline's steps: one thread submits to the device, several wait for it."""
        settings = self.settings
        computed_at_once = 2 * settings.max_lanes
        # Two groups per lane are in progress at a time, and at least three.
        groups_in_progress = max(computed_at_once, 3)
        return [
            Step("witness", self._for_all(self.read), _READERS, settings.ahead + computed_at_once),
            # One more than may wait for keys to load.
            Step("key", self._for_all(self.lease), settings.ahead + 1, 1),
            Step("upload", self.begin_group, 1, 1, self._wait_for_turn),
            Step(
                "prove",
                self._for_all(_enter(Stage.PROVE), self.compute),
                groups_in_progress,
                groups_in_progress,
            ),
            Step("check", self.check_group, settings.checks, settings.checks),
        ]

    def _for_all(self, *steps: Callable[[Work], None]) -> Callable[[Group], None]:
        """Run each step for all partitions of a group before the next step.

        A failing work does not affect the others.
        """

        def run_steps(group: Group) -> None:
            for step in steps:
                for work in group:
                    if not work.ended:
                        self._attempt(work, step)

        return run_steps

    def _attempt(self, work: Work, do: Callable[[Work], None]) -> None:
        try:
            do(work)
        except BaseException as error:
            self.failed(work, error)

    def read(self, work: Work) -> None:
        """Read or compute the witness."""
        with self._stage(work, Stage.WITNESS):
            work.witness = self._witness(work)

    def _witness(self, work: Work) -> Witness:
        # The buffer is reused after the upload, so repeating a wrong proof reads the witness again.
        is_repeated = work.digest is not None
        client_bytes = hashlib.sha256() if is_repeated or work.buffer is not None else None
        try:
            with work.payload(self.jobs) as file:
                witness = witness_of(
                    file, work.lease, self.calculate, work.max_bytes, work.buffer, client_bytes
                )
        except NotFoundError:
            # A payload is deleted when its job ends.
            raise AbandonedError from None
        finally:
            work.payload_file = None
        digest = None if client_bytes is None else client_bytes.digest()
        if is_repeated and digest != work.digest:
            raise InputError("has changed since it was first read; submit it again", path=NAME)
        work.digest = digest
        return witness

    def lease(self, work: Work) -> None:
        """Lease the key, which may load it."""
        with self._stage(work, Stage.KEY), work.cancellation:
            work.key = self.keys.lease(work.lease.key)
        self.batch_sizes[work.lease.key] = work.key.value.max_batch

    def _wait_for_turn(self, work: Work, waiting: Callable[[], int]) -> int:
        """Wait until the device can take a batch; return its maximum size.

        Raises AbandonedError if the work is cancelled, as the device may hang.
        """
        assert work.key is not None
        key = work.key.value

        def count_waiting() -> int:
            work.check()
            return waiting()

        key.wait_for_turn(count_waiting)
        return key.max_batch

    def begin_group(self, group: Group) -> None:
        """Start one partition, or a batch."""
        self._for_all(_enter(Stage.UPLOAD))(group)
        active_works = [work for work in group if not work.ended]
        if len(active_works) == 1:
            self._attempt(active_works[0], self.begin)
        elif active_works:
            self._begin_batch(active_works)

    def _begin_batch(self, group: Group) -> None:
        begin = time.perf_counter_ns()
        key, witnesses = group[0].key, [work.witness for work in group if work.witness is not None]
        assert key is not None
        for work in group:
            work.is_batched = True
        submitted = key.value.begin_batch(witnesses, meter=self.meter)
        # All are assigned before the first may fail, so that every work releases its resources.
        for work, pending_or_error in zip(group, submitted, strict=True):
            work.pending = None if isinstance(pending_or_error, Exception) else pending_or_error
        for work, pending_or_error in zip(group, submitted, strict=True):
            self._attempt(work, partial(self._record_upload, pending_or_error, begin))

    def begin(self, work: Work) -> None:
        """Upload the witness and submit the proof."""
        assert work.witness is not None
        assert work.key is not None
        begin = time.perf_counter_ns()
        work.pending = work.key.value.begin(
            work.witness, meter=self.meter, pinned=work.buffer is not None
        )
        self._record_upload(work.pending, begin, work)

    def _record_upload(self, pending: PendingOrError, since: int, work: Work) -> None:
        """Record a submitted proof, or raise its error.

        since: the time before the submission, for a proof whose upload was not timed.
        """
        if isinstance(pending, Exception):
            raise pending
        assert work.witness is not None
        copied_bytes = work.witness.values.nbytes
        # Another witness may use the buffer now.
        work.release_buffer()
        span = pending.spans.get("upload", (since, since))
        self._record(work, Stage.UPLOAD, *span, copied_bytes)
        work.check()

    def compute(self, work: Work) -> None:
        """Wait until the device has computed the proof."""
        assert work.pending is not None
        work.enter(Stage.PROVE)
        begin = time.perf_counter_ns()
        work.proof = work.pending.compute()
        span = work.pending.spans.get("compute", (begin, time.perf_counter_ns()))
        self._record(work, Stage.PROVE, *span)
        self.computed(work)

    def check_group(self, group: Group) -> None:
        """Verify proofs and store the results in the queue.

        The results of proofs that verify are stored before the others are repeated.
        """
        self._for_all(_enter(Stage.CHECK), self.check)(group)
        self._store_results([work for work in group if work.result is not None])
        for work in group:
            if not work.ended:
                self._attempt(work, self.check_again)
                self._store_results([work] if work.result is not None else [])

    def check(self, work: Work) -> None:
        """Verify a proof and set its result if it is valid."""
        assert work.pending is not None
        assert work.proof is not None
        with suppress(VerificationError), self._stage(work, Stage.CHECK, _computed_at(work)):
            work.pending.check(work.proof)
            work.result = result_bytes(work.proof, work.pending.public)

    def check_again(self, work: Work) -> None:
        """Repeat a proof that did not verify, and set its result."""
        with self._stage(work, Stage.CHECK, _computed_at(work)):
            work.result = result_bytes(*self._prove_again(work))

    def _store_results(self, unsettled: list[Work]) -> None:
        """Store results in the queue; retry those that the queue could not store now."""

        def finish() -> None:
            results = [(work.lease, work.result) for work in unsettled if work.result is not None]
            unavailable: TryAgainError | None = None
            for work, outcome in zip(tuple(unsettled), self.jobs.finish(results), strict=True):
                if isinstance(outcome, TryAgainError):
                    unavailable = outcome
                    continue
                unsettled.remove(work)
                if outcome is None:
                    self.done(work)
                else:
                    self.failed(work, outcome)
            if unavailable is not None:
                raise unavailable

        if unsettled:
            self.report(finish)

    def _prove_again(self, work: Work) -> tuple[Proof, list[int]]:
        assert work.key is not None
        witness = work.witness or self._witness(work)
        proof_and_public = prove_again(
            work.key.value, witness, self.settings.reverification_constraints
        )
        self.faulty(f"a proof of the job {work.lease.job} did not verify, and the next one did")
        return proof_and_public

    @contextmanager
    def _stage(self, work: Work, stage: Stage, since: int | None = None) -> Iterator[None]:
        work.enter(stage)
        begin = since or time.perf_counter_ns()
        yield
        self._record(work, stage, begin, time.perf_counter_ns())

    def _record(
        self, work: Work, stage: Stage, begin: int, end: int, copied_bytes: int = 0
    ) -> None:
        """Record a stage; `begin` and `end` are of `time.perf_counter_ns`."""
        wall_offset = time.time_ns() - time.perf_counter_ns()
        lease = work.lease
        self.record(
            StageRecord(
                self.worker, lease.job, lease.partition, lease.key, stage,
                (begin + wall_offset) / 1e9, (end + wall_offset) / 1e9, copied_bytes,
            )
        )  # fmt: skip


def _computed_at(work: Work) -> int:
    """Return the time at which the device finished and the host continues."""
    assert work.pending is not None
    _, end = work.pending.spans.get("compute", (0, time.perf_counter_ns()))
    return end


def _enter(stage: Stage) -> Callable[[Work], None]:
    """Return a step that moves a partition to a stage."""
    return lambda work: work.enter(stage)

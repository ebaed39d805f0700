"""The stages of a proof, from a lease to a result: what each of them does with a partition."""

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
from quod.groth16.batch_prover import Begun
from quod.service.errors import NotFoundError
from quod.service.keys import ResidentKeys
from quod.service.worker.jobs import Jobs
from quod.service.worker.pipeline import Step
from quod.service.worker.pools.pool import Stage, StageRecord
from quod.service.worker.result import result_bytes
from quod.service.worker.reverification import proved_again
from quod.service.worker.settings import WorkerSettings
from quod.service.worker.waiting import Group
from quod.service.worker.witnesses import NAME, Calculate, witness_of
from quod.service.worker.work import GoneError, Work

# Files are read, and inputs computed, by so many at a time.
_READERS = 2


@frozen(eq=False)
class Stages:
    """What the stages work with.

    `computed`, `done`, `failed` and `faulty` are told how work gets on; `tell` calls the queue,
    again while it does not answer. `together` is told how many witnesses of a key that was leased
    are proved together.
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
    together: dict[str, int]
    tell: Callable[[Callable[[], None]], None]
    faulty: Callable[[str], None]

    def steps(self) -> list[Step]:
        """As a line does them. One thread submits to the device, several wait for it."""
        settings = self.settings
        waiting = 2 * settings.most_lanes
        # Two of each lane are begun at a time, or three groups.
        begun = max(waiting, 3)
        return [
            Step("witness", self._each(self.read), _READERS, settings.ahead + waiting),
            # One more than may wait for keys that are loaded.
            Step("key", self._each(self.lease), settings.ahead + 1, 1),
            Step("upload", self.begin_group, 1, 1, self._turn),
            Step("prove", self._each(_enter(Stage.PROVE), self.compute), begun, begun),
            Step("check", self.check_group, settings.checks, settings.checks),
        ]

    def _each(self, *steps: Callable[[Work], None]) -> Callable[[Group], None]:
        """Takes each step with all works of a group before the next one.

        A work that fails leaves the others alone.
        """

        def in_turn(group: Group) -> None:
            for step in steps:
                for work in group:
                    if not work.ended:
                        self._attempt(work, step)

        return in_turn

    def _attempt(self, work: Work, do: Callable[[Work], None]) -> None:
        try:
            do(work)
        except BaseException as error:
            self.failed(work, error)

    def read(self, work: Work) -> None:
        """The witness, from wherever it is."""
        with self._stage(work, Stage.WITNESS):
            work.witness = self._witness(work)

    def _witness(self, work: Work) -> Witness:
        # A witness in page-locked memory may be read again, to find the cause of a wrong proof.
        again = work.digest is not None
        client_bytes = hashlib.sha256() if again or work.buffer is not None else None
        try:
            with work.payload(self.jobs) as file:
                witness = witness_of(
                    file, work.lease, self.calculate, work.most_bytes, work.buffer, client_bytes
                )
        except NotFoundError:
            # The payload goes when its job has ended.
            raise GoneError from None
        finally:
            work.kept = None
        digest = None if client_bytes is None else client_bytes.digest()
        if again and digest != work.digest:
            raise InputError("has changed since it was first read; submit it again", path=NAME)
        work.digest = digest
        return witness

    def lease(self, work: Work) -> None:
        """The key, which may have to be loaded."""
        with self._stage(work, Stage.KEY), work.cancellation:
            work.key = self.keys.lease(work.lease.key)
        self.together[work.lease.key] = work.key.value.most_together

    def _turn(self, work: Work, waiting: Callable[[], int]) -> int:
        """Waits until the device can take what waits with a work; how many of that are begun.

        Not longer than anybody wants the work: what the device computes may hang.
        """
        assert work.key is not None
        key = work.key.value

        def wanted() -> int:
            work.check()
            return waiting()

        key.wait_for_turn(wanted)
        return key.most_together

    def begin_group(self, group: Group) -> None:
        """Begins one work, or several together."""
        self._each(_enter(Stage.UPLOAD))(group)
        wanted = [work for work in group if not work.ended]
        if len(wanted) == 1:
            self._attempt(wanted[0], self.begin)
        elif wanted:
            self._begin_together(wanted)

    def _begin_together(self, group: Group) -> None:
        begin = time.perf_counter_ns()
        key, witnesses = group[0].key, [work.witness for work in group if work.witness is not None]
        assert key is not None
        for work in group:
            work.together = True
        begun = key.value.begin_together(witnesses, meter=self.meter)
        # Whatever fails now, each has what is to be given back.
        for work, own in zip(group, begun, strict=True):
            work.pending = None if isinstance(own, Exception) else own
        for work, own in zip(group, begun, strict=True):
            self._attempt(work, partial(self._begun, own, begin))

    def begin(self, work: Work) -> None:
        """The witness goes to the device, and what it has to do."""
        assert work.witness is not None
        assert work.key is not None
        begin = time.perf_counter_ns()
        work.pending = work.key.value.begin(
            work.witness, meter=self.meter, pinned=work.buffer is not None
        )
        self._begun(work.pending, begin, work)

    def _begun(self, pending: Begun, since: int, work: Work) -> None:
        """What is on the device."""
        if isinstance(pending, Exception):
            raise pending
        assert work.witness is not None
        copied = work.witness.values.nbytes
        # Another one may be read meanwhile.
        work.leave_buffer()
        span = pending.spans.get("upload", (since, since))
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

    def check_group(self, group: Group) -> None:
        """The verifier's answers, and the results to the queue.

        Those that verify do not wait until the others were made again.
        """
        self._each(_enter(Stage.CHECK), self.check)(group)
        self._hand_in([work for work in group if work.result is not None])
        for work in group:
            if not work.ended:
                self._attempt(work, self.check_again)
                self._hand_in([work] if work.result is not None else [])

    def check(self, work: Work) -> None:
        """The verifier's answer, and the result if it is that the proof holds."""
        assert work.pending is not None
        assert work.proof is not None
        with suppress(VerificationError), self._stage(work, Stage.CHECK, _computed_at(work)):
            work.pending.check(work.proof)
            work.result = result_bytes(work.proof, work.pending.public)

    def check_again(self, work: Work) -> None:
        """The result where the verifier's answer was no."""
        with self._stage(work, Stage.CHECK, _computed_at(work)):
            work.result = result_bytes(*self._again(work))

    def _hand_in(self, left: list[Work]) -> None:
        """Results to the queue, which is told again of those that it could not take."""

        def finish() -> None:
            results = [(work.lease, work.result) for work in left if work.result is not None]
            again: TryAgainError | None = None
            for work, outcome in zip(tuple(left), self.jobs.finish(results), strict=True):
                if isinstance(outcome, TryAgainError):
                    again = outcome
                    continue
                left.remove(work)
                if outcome is None:
                    self.done(work)
                else:
                    self.failed(work, outcome)
            if again is not None:
                raise again

        if left:
            self.tell(finish)

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


def _computed_at(work: Work) -> int:
    """When the device had ended, from where on the host goes on with a proof."""
    assert work.pending is not None
    _, end = work.pending.spans.get("compute", (0, time.perf_counter_ns()))
    return end


def _enter(stage: Stage) -> Callable[[Work], None]:
    """Has works come to a stage, all of a group before the first one passes it for all."""
    return lambda work: work.enter(stage)

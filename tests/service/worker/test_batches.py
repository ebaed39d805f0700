"""Waiting jobs of one small key: one launch schedule, with an outcome for each."""

from __future__ import annotations

import itertools
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from quod.device.memory.budget import OutOfMemory
from quod.errors import DeviceError, InputError
from quod.groth16.batch_prover import BatchedProof
from quod.service.errors import KeyInUseError
from quod.service.keys import RegisteredCalculators, ResidentKeys
from quod.service.keys.loader import Groth16Loader
from quod.service.queue import Job, JobState, Outcome
from quod.service.worker import lease_heartbeat as keeper
from quod.service.worker import pipeline, stages
from quod.service.worker.jobs import OwnJobs
from quod.service.worker.partition_queue import PartitionQueue
from quod.service.worker.pools.pool import Stage, WorkerState
from quod.service.worker.pools.processes import ProcessPool
from quod.service.worker.settings import WorkerSettings
from quod.service.worker.stages import Stages
from quod.service.worker.work import Work
from quod.service.worker.worker import Worker
from tests.groth16.test_batch_prover import Batches, failing
from tests.service.keys.conftest import BLS
from tests.service.worker.conftest import PROOF_STAGES, SECONDS, WITNESS, Bench, eventually
from tests.service.worker.test_faults import Gate

_MOST = 4
_WRONG = WITNESS[:-32] + bytes(32)
_ABSENT = WITNESS[:-32] + b"\xff" * 32
_OTHER = (BLS / "witness.wtns").read_bytes()


def batch_all(loader: type[Groth16Loader]) -> list[Batches]:
    """Has each key that is loaded prove up to `_MOST` together, with sums of the processor."""
    all_batches: list[Batches] = []
    prepare = loader.prepare

    def prepared(self: Groth16Loader, *arguments: Any) -> Any:
        key, needs = prepare(self, *arguments)
        batches = Batches(key)
        batches.most = _MOST
        key.resident.batches = batches  # type: ignore[misc]
        all_batches.append(batches)
        return key, needs

    loader.prepare = prepared  # type: ignore[method-assign]
    return all_batches


@pytest.fixture
def loaded_batches(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Batches]]:
    """Batches of the keys that are loaded; none is left open."""
    monkeypatch.setattr(Groth16Loader, "prepare", Groth16Loader.prepare)
    all_batches = batch_all(Groth16Loader)
    yield all_batches
    assert not any(batches.open for batches in all_batches)


_ERRORS: dict[str, Exception] = {
    "an illegal address": DeviceError("an illegal address"),
    "no room": OutOfMemory("too little"),
    # Of one of them, perhaps, but nobody knows of which.
    "a value that is none": InputError("a value is none"),
}


class Held:
    """A worker whose first proof stands still where it is begun, so that others wait behind it."""

    def __init__(self, bench: Bench, patch: pytest.MonkeyPatch, **settings: Any) -> None:
        # A queue is told at once of what has moved on.
        patch.setattr(keeper, "_MIN_STAGE_SECONDS", 0.005)
        self._bench = bench
        self.gate = Gate(patch, Stages, "begin_group")
        self.pool = bench.pool(WorkerSettings(warm=("small",), **settings))
        self.worker = self.pool._workers["cpu"]
        eventually(lambda: self.pool.ready)
        self.first = bench.submit()
        assert self.gate.reached.wait(SECONDS)

    def wait(self, count: int) -> None:
        """Until so many works wait for the device."""
        works = self.worker._works
        eventually(lambda: sum(work.key is not None for work in works()) == count + 1)

    def renew(self) -> None:
        """Looks which leases go on: here the test is the clock."""
        heartbeat = keeper.LeaseHeartbeat(
            self.worker._jobs, self.worker._works, SECONDS, lambda _: None
        )
        heartbeat.renew(time.monotonic() + SECONDS / 4)
        heartbeat.close()

    def succeeded(self, *jobs: Job) -> None:
        for job in jobs:
            assert self._bench.ended(job).state is JobState.SUCCEEDED
            self._bench.check_results(job)

    def ended(self) -> None:
        """Nothing is in hand any more, nor anything held for it."""
        assert self.pool.drain(SECONDS)
        assert not self.worker._works()
        # A claim that comes too late gives back what it took.
        eventually(lambda: self.worker._permits._used_units == 0)
        assert self.worker.status().memory["workspace"] == 0


def test_waiting_jobs_are_proved_in_one_batch(
    bench: Bench, loaded_batches: list[Batches], monkeypatch: pytest.MonkeyPatch
) -> None:
    held = Held(bench, monkeypatch)
    jobs = [bench.submit() for _ in range(_MOST + 3)]
    held.wait(_MOST + 3)
    finished: list[int] = []
    finish = OwnJobs.finish

    def counted(self: OwnJobs, results: Any) -> Any:
        finished.append(len(results))
        return finish(self, results)

    monkeypatch.setattr(OwnJobs, "finish", counted)
    # The rehearsal was of as many as it can.
    assert loaded_batches[0].sizes == [_MOST]
    held.gate.open.set()
    held.succeeded(held.first, *jobs)
    # The rest comes behind, as it finds room.
    assert loaded_batches[0].sizes[:2] == [_MOST, _MOST]
    assert max(finished) == _MOST
    assert sum(finished) == _MOST + 4
    # Each has its own records and events, as if it had been alone.
    for job in jobs:
        passed = [record.stage for record in bench.records if record.job == job.id]
        assert passed == PROOF_STAGES
        [attempt] = bench.queue.attempts(job.id)
        assert attempt.outcome is Outcome.SUCCEEDED
        kinds = [event.kind for event in bench.queue.events(job.id)]
        assert [kinds[0], kinds[1], kinds[-1]] == ["queued", "started", "ended"]
    held.ended()
    assert held.worker.status().proofs == _MOST + 4


def test_single_job_does_not_wait_for_a_batch(
    bench: Bench, loaded_batches: list[Batches], monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[int] = []
    monkeypatch.setattr(Batches, "wait", lambda _, waiting: waits.append(waiting()))
    pool = bench.pool(WorkerSettings(warm=("small",)))
    for _ in range(3):
        job = bench.submit()
        assert bench.ended(job).state is JobState.SUCCEEDED
        bench.check_results(job)
    assert waits == [1] * 3
    assert loaded_batches[0].sizes == [_MOST]
    eventually(lambda: pool.status()[0].proofs == 3)


def test_each_job_in_a_batch_has_its_own_outcome(
    bench: Bench, loaded_batches: list[Batches], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Invalid jobs fail as they would alone; their payloads are deleted."""
    held = Held(bench, monkeypatch)
    jobs = [bench.submit(body) for body in (WITNESS, _ABSENT, _WRONG, WITNESS)]
    other = bench.submit(_OTHER)
    held.wait(4)
    held.gate.open.set()
    held.succeeded(held.first, jobs[0], jobs[3])
    ended_jobs = [bench.ended(job) for job in (jobs[1], jobs[2], other)]
    for job, text in zip(
        ended_jobs,
        ("value 4 is not below the prime", "does not satisfy the circuit", "over bls12_381"),
        strict=True,
    ):
        assert (job.state, job.code) == (JobState.FAILED, "INVALID_ARGUMENT")
        assert text in job.message
        assert len(bench.queue.attempts(job.id)) == 1
    assert loaded_batches[0].sizes == [_MOST, 3]
    assert held.pool.status()[0].state is not WorkerState.QUARANTINED
    assert _payloads(bench) == 0
    held.ended()


def test_valid_proofs_do_not_wait_for_retried_ones(
    bench: Bench, loaded_batches: list[Batches], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Slow retries follow the results of the other jobs."""
    again = Gate(monkeypatch, stages, "prove_again")
    held = Held(bench, monkeypatch)
    jobs = [bench.submit(body) for body in (_WRONG, WITNESS, _WRONG, WITNESS)]
    held.wait(4)
    held.gate.open.set()
    assert again.reached.wait(SECONDS)
    held.succeeded(held.first, jobs[1], jobs[3])
    # It is dropped before it is made again.
    bench.queue.cancel(jobs[2].id)
    held.renew()
    again.open.set()
    assert bench.ended(jobs[0]).code == "INVALID_ARGUMENT"
    held.ended()
    assert loaded_batches[0].sizes == [_MOST, _MOST]
    assert not any(
        record.job == jobs[2].id for record in bench.records if record.stage is Stage.CHECK
    )


def test_outcome_reporting_error_does_not_affect_others(
    bench: Bench, loaded_batches: list[Batches], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither the batch nor the worker that claimed the job is affected."""
    monkeypatch.setattr(OwnJobs, "fail", failing(OSError("nobody foresaw")))
    held = Held(bench, monkeypatch, memory_bytes=2 * _MOST * len(WITNESS))
    other, *jobs = (bench.submit(body) for body in (_OTHER, WITNESS, WITNESS))
    held.wait(3)
    large = bench.submit(WITNESS + bytes(2 * _MOST * len(WITNESS)))
    eventually(lambda: bench.queue.job(large.id).state is JobState.RUNNING)
    held.gate.open.set()
    held.succeeded(held.first, *jobs, bench.submit())
    for job in jobs:
        [attempt] = bench.queue.attempts(job.id)
        assert attempt.outcome is Outcome.SUCCEEDED
    assert held.worker.status().restarts == 0
    # Their leases run out.
    assert {bench.queue.job(job.id).state for job in (other, large)} == {JobState.RUNNING}
    held.ended()
    assert loaded_batches[0].sizes == [_MOST, 2]


def _payloads(bench: Bench) -> int:
    """Payloads that are kept, of jobs that have not ended."""
    bench.queue.sweep()
    [(count,)] = bench.queue._store.read(lambda tx: tx.rows("SELECT count(*) FROM payload"))
    return int(count)


@pytest.mark.parametrize("stage", ["waiting", "computing"])
def test_cancelled_jobs_leave_the_rest_of_the_batch(
    bench: Bench, loaded_batches: list[Batches], monkeypatch: pytest.MonkeyPatch, stage: str
) -> None:
    """One is cancelled and one late, before they are begun or while they are computed."""
    compute = Gate(monkeypatch, BatchedProof, "compute")
    compute.open.set()
    held = Held(bench, monkeypatch)
    late = bench.submit(deadline=time.time() + 600)
    cancelled, good, last = (bench.submit() for _ in range(3))
    held.wait(4)
    if stage == "computing":
        compute.open.clear()
        compute = Gate(monkeypatch, BatchedProof, "compute")
        held.gate.open.set()
        assert compute.reached.wait(SECONDS)
    bench.queue.cancel(cancelled.id)
    bench.clock.late = 600
    eventually(lambda: bench.queue.job(late.id).state.ended)
    held.renew()
    compute.open.set()
    held.gate.open.set()
    held.succeeded(held.first, good, last)
    held.ended()
    assert bench.queue.job(late.id).state is JobState.EXPIRED
    assert bench.queue.job(cancelled.id).state is JobState.CANCELLED
    # They were computed with the others, if at all, and not checked.
    assert loaded_batches[0].sizes == [_MOST, _MOST if stage == "computing" else 2]
    checked = {record.job for record in bench.records if record.stage is Stage.CHECK}
    assert checked == {held.first.id, good.id, last.id}
    assert held.worker.status().failures == 0


def test_batch_stops_if_all_jobs_are_cancelled(
    bench: Bench, loaded_batches: list[Batches], monkeypatch: pytest.MonkeyPatch
) -> None:
    held = Held(bench, monkeypatch)
    compute = Gate(monkeypatch, BatchedProof, "compute")
    jobs = [bench.submit() for _ in range(3)]
    held.wait(3)
    held.gate.open.set()
    assert compute.reached.wait(SECONDS)
    [first, *_] = [work for work in held.worker._works() if work.is_batched]
    pending: Any = first.pending
    for job in jobs:
        bench.queue.cancel(job.id)
    held.renew()
    with pytest.raises(DeviceError):
        pending._shared.batch.context.cancellation.check("it")
    compute.open.set()
    held.succeeded(held.first)
    held.ended()
    assert {bench.queue.job(job.id).state for job in jobs} == {JobState.CANCELLED}


@pytest.mark.parametrize("where", ["start", *_ERRORS])
def test_failed_batch_is_retried_one_by_one(
    tmp_path: Path, loaded_batches: list[Batches], monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    """No job loses its only attempt, whichever job is to blame."""
    bench = Bench(tmp_path, max_attempts=1)
    try:
        held = Held(bench, monkeypatch)
        jobs = [bench.submit() for _ in range(3)]
        held.wait(3)
        if where == "start":
            loaded_batches[0].error = ValueError("nobody foresaw")
        else:
            monkeypatch.setattr(BatchedProof, "compute", failing(_ERRORS[where]))
        held.gate.open.set()
        held.succeeded(held.first, *jobs)
        for job in jobs:
            outcomes = [attempt.outcome for attempt in bench.queue.attempts(job.id)]
            assert outcomes == [Outcome.RELEASED, Outcome.SUCCEEDED]
        held.ended()
        assert loaded_batches[0].sizes == [_MOST] + [3] * (where != "start")
        # Three were short of memory at one time.
        assert held.worker._permits.limit == (2 if where == "no room" else 4)
    finally:
        bench.close()


def test_started_work_keeps_its_suspended_key(
    bench: Bench, loaded_batches: list[Batches], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Work that has begun keeps its key, and is finished."""
    held = Held(bench, monkeypatch)
    jobs = [bench.submit() for _ in range(3)]
    held.wait(3)
    bench.queue.suspend(bench.key, "an operator looks at it")
    with pytest.raises(KeyInUseError):
        held.pool.evict("small")
    held.gate.open.set()
    held.succeeded(held.first, *jobs)
    assert loaded_batches[0].sizes == [_MOST, 3]
    eventually(lambda: not held.worker._works())
    bench.queue.resume(bench.key)
    held.pool.evict("small")
    held.succeeded(bench.submit())
    assert len(loaded_batches) == 2
    held.ended()


def test_a_lost_device_blames_one(
    bench: Bench, loaded_batches: list[Batches], monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[Any] = []

    def open_keys() -> ResidentKeys:
        keys = ResidentKeys(bench.repository, "cpu")
        keys.device = SimpleNamespace(space=SimpleNamespace(is_lost=False))  # type: ignore[assignment]
        opened.append(keys.device)
        return keys

    compute = BatchedProof.compute

    def lost(self: BatchedProof) -> Any:
        if len(opened) == 1:
            opened[0].space.is_lost = True
            raise DeviceError("fell off the bus")
        return compute(self)

    calls = itertools.count()

    def gathered(
        first: Work, source: PartitionQueue, together: Any, original: Any = pipeline._form_group
    ) -> Any:
        # The second is not begun before another one waits behind it.
        if next(calls) == 1:
            eventually(lambda: source.count_like(first))
        return original(first, source, together)

    monkeypatch.setattr(pipeline, "_form_group", gathered)
    monkeypatch.setattr("quod.service.worker.worker._BACKOFF_SECONDS", 0.01)
    monkeypatch.setattr(BatchedProof, "compute", lost)
    gate = Gate(monkeypatch, Stages, "begin_group")
    worker = Worker(
        "gpu", OwnJobs(bench.queue, "gpu"), open_keys, WorkerSettings(),
        RegisteredCalculators(bench.repository),
    )  # fmt: skip
    jobs = [bench.submit() for _ in range(4)]
    worker.start()
    try:
        eventually(lambda: sum(work.key is not None for work in worker._works()) == 4)
        gate.open.set()
        for job in jobs:
            assert bench.ended(job).state is JobState.SUCCEEDED
            bench.check_results(job)
        job_outcomes = [
            [attempt.outcome for attempt in bench.queue.attempts(job.id)] for job in jobs
        ]
        assert sum(Outcome.LOST in outcomes for outcomes in job_outcomes) == 1
        # What was at the lost device is alone with the next one.
        assert loaded_batches[1].sizes == []
    finally:
        gate.open.set()
        worker.close()


_DIES = """
import os, signal, time
from quod.service.keys.loader import Groth16Loader
from quod.service.worker import pipeline
from quod.service.worker.process.child import main
from quod.service.worker.stages import Stages
from tests.service.worker.test_batches import batch_all

def begin_together(self, group, original=Stages._begin_batch):
    original(self, group)
    with open({log!r}, "a") as file:
        print(*(work.lease.token for work in group), file=file)
    global doomed
    if any(work.lease.job == open({killer!r}).read() for work in group):
        doomed = {{work.lease.job for work in group}}

def compute(self, work, original=Stages.compute):
    if work.lease.job in doomed or work.lease.job == open({killer!r}).read():
        os.kill(os.getpid(), signal.SIGKILL)
    original(self, work)

def gathered(first, source, together, original=pipeline._form_group):
    while not os.path.exists({log!r}) and len(source._groups) < 3:
        time.sleep(0.005)
    return original(first, source, together)

doomed = set()
pipeline._form_group = gathered
Stages._begin_batch, Stages.compute = begin_together, compute
batch_all(Groth16Loader)
main()
"""


@pytest.fixture
def twice(tmp_path: Path) -> Iterator[Bench]:
    """A queue of which each job is tried twice at most."""
    harness = Bench(tmp_path, max_attempts=2)
    yield harness
    harness.close()


@pytest.mark.thorough
def test_job_that_kills_workers_is_retried_alone(twice: Bench, tmp_path: Path) -> None:
    """Only that job fails, its key is not suspended, and retried jobs are not batched."""
    bench = twice
    jobs = [bench.submit() for _ in range(6)]
    killer, log = tmp_path / "killer", tmp_path / "log"
    killer.write_text(jobs[2].id)
    text = _DIES.format(killer=str(killer), log=str(log))
    pool = ProcessPool(
        bench.queue, bench.repository, [WorkerSettings(warm=("small",))],
        command=[sys.executable, "-c", text],
    )  # fmt: skip
    bench.started(pool)
    for job in jobs:
        assert bench.ended(job).state.ended
        if job is not jobs[2]:
            assert bench.queue.job(job.id).state is JobState.SUCCEEDED
            bench.check_results(job)
    failed = bench.queue.job(jobs[2].id)
    assert (failed.state, failed.code) == (JobState.FAILED, "WORKER_LOST")
    assert not any(status.suspended for status in bench.queue.key_status())
    groups = log.read_text().splitlines()
    assert groups
    assert set(" ".join(groups).split()) == {"1"}
    # What was beside it when a worker died may be blamed, but once: then it is alone.
    lost = [
        sum(attempt.outcome is Outcome.LOST for attempt in bench.queue.attempts(job.id))
        for job in jobs
    ]
    assert lost.pop(2) == 2
    assert max(lost) <= 1

"""Worker failures: cancelled work, wrong proofs, lost devices, low memory, hanging stages.

Stages are stopped at gates, so that nothing depends on how fast they are.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from quod.device.memory.budget import OutOfMemory
from quod.errors import DeviceError
from quod.groth16 import Proof
from quod.groth16.prover import PendingProof
from quod.service.errors import UnavailableError
from quod.service.keys import RegisteredCalculators, ResidentKeys
from quod.service.keys.loader import Groth16Loader
from quod.service.queue import JobState, Outcome
from quod.service.worker import lease_heartbeat as keeper
from quod.service.worker.jobs import OwnJobs
from quod.service.worker.pools.pool import Stage, WorkerState
from quod.service.worker.settings import WorkerSettings
from quod.service.worker.stages import Stages
from quod.service.worker.worker import Worker
from tests.service.keys.conftest import BLS
from tests.service.worker.conftest import PROOF_STAGES, SECONDS, Bench, eventually
from tests.support.thorough import one_and_others

METHODS = {
    Stage.WITNESS: "read", Stage.KEY: "lease", Stage.UPLOAD: "begin_group",
    Stage.PROVE: "compute", Stage.CHECK: "check",
}  # fmt: skip


class Gate:
    """Stops the first call of a method until it is opened; later ones pass."""

    def __init__(self, patch: pytest.MonkeyPatch, owner: Any, name: str) -> None:
        self.reached, self.open = threading.Event(), threading.Event()
        original, first = getattr(owner, name), threading.Lock()

        def gated(*arguments: Any, **named: Any) -> Any:
            if first.acquire(blocking=False):
                self.reached.set()
                assert self.open.wait(SECONDS)
            return original(*arguments, **named)

        patch.setattr(owner, name, gated)


def first_time(
    patch: pytest.MonkeyPatch, name: str, instead: Callable[[PendingProof, Proof], Proof]
) -> None:
    """Has a proof pass through something else, once."""
    original, first = getattr(PendingProof, name), threading.Lock()

    def changed(self: PendingProof) -> Proof:
        proof: Proof = original(self)
        return instead(self, proof) if first.acquire(blocking=False) else proof

    patch.setattr(PendingProof, name, changed)


@pytest.mark.parametrize(
    ("stage", "how"),
    one_and_others(
        [(stage, how) for stage in PROOF_STAGES for how in ("cancel", "deadline")],
        [*((stage, "cancel") for stage in PROOF_STAGES), (Stage.PROVE, "deadline")],
    ),
)
def test_work_ends_at_the_next_stage(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, stage: Stage, how: str
) -> None:
    gate = Gate(monkeypatch, Stages, METHODS[stage])
    monkeypatch.setattr(keeper, "_MIN_STAGE_SECONDS", 0.005)
    pool = bench.pool()
    deadline = time.time() + 600 if how == "deadline" else None
    job = bench.submit(deadline=deadline)
    worker = pool._workers["cpu"]
    assert gate.reached.wait(SECONDS)
    if how == "cancel":
        bench.queue.cancel(job.id)
    else:
        bench.clock.late = 600
    [work] = worker._works()
    # Between two renewals, a quarter of a lease: here the test is the clock.
    eventually(lambda: bench.queue.job(job.id).state.ended)
    worker_keeper = keeper.LeaseHeartbeat(worker._jobs, worker._works, SECONDS, lambda _: None)
    worker_keeper.renew(time.monotonic() + SECONDS / 4)
    worker_keeper.close()
    assert work.is_abandoned
    gate.open.set()
    eventually(lambda: not worker._works())
    expected = JobState.CANCELLED if how == "cancel" else JobState.EXPIRED
    assert bench.queue.job(job.id).state is expected
    assert [record.stage for record in bench.records] == PROOF_STAGES[: PROOF_STAGES.index(stage)]
    assert worker.status().memory["workspace"] == 0
    assert worker.status().failures == 0
    # The line goes on, and has lost no permit.
    for job in [bench.submit() for _ in range(6)]:
        assert bench.ended(job).state is JobState.SUCCEEDED
    eventually(lambda: worker._opened().status().keys[0].leases == 0)


def test_a_wrong_proof_quarantines_the_device(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    first_time(
        monkeypatch, "compute", lambda _, right: Proof(right.curve, right.c, right.b, right.a)
    )  # fmt: skip
    pool = bench.pool()
    job = bench.submit()
    # The witness was right, so that the client has its proof.
    assert bench.ended(job).state is JobState.SUCCEEDED
    bench.check_results(job)
    eventually(lambda: pool.status()[0].state is WorkerState.QUARANTINED)
    assert job.id in pool.status()[0].problem
    late = bench.submit()
    # A claim that was under way is given back.
    eventually(lambda: not pool._workers["cpu"]._claiming and not pool.status()[0].jobs)
    assert bench.queue.status().running == 0
    assert not bench.queue.job(late.id).state.ended
    pool.resume("cpu")
    assert bench.ended(late).state is JobState.SUCCEEDED
    assert pool.status()[0].problem == ""


def test_repeatedly_wrong_proof_blames_the_witness(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = PendingProof.compute

    def wrong(self: PendingProof) -> Proof:
        right = original(self)
        return Proof(right.curve, right.c, right.b, right.a)

    monkeypatch.setattr(PendingProof, "compute", wrong)
    pool = bench.pool()
    job = bench.ended(bench.submit())
    assert (job.state, job.code) == (JobState.FAILED, "INVALID_ARGUMENT")
    assert pool.status()[0].state is not WorkerState.QUARANTINED


def test_memory_shortage_is_retried_with_a_smaller_batch(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def short(_: PendingProof, __: Proof) -> Proof:
        raise DeviceError("no room") from OutOfMemory("too little")

    first_time(monkeypatch, "compute", short)
    pool = bench.pool()
    job = bench.submit()
    assert bench.ended(job).state is JobState.SUCCEEDED
    failed, done = bench.queue.attempts(job.id)
    assert (failed.outcome, failed.code) == (Outcome.FAILED, "RESOURCE_EXHAUSTED")
    assert done.outcome is Outcome.SUCCEEDED
    permits = pool._workers["cpu"]._permits
    assert permits.limit == 2
    # What goes well makes it more again.
    for next_job in [bench.submit() for _ in range(40)]:
        bench.ended(next_job)
    eventually(lambda: permits.limit == 4)


def test_device_failure_is_retried(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_: PendingProof, __: Proof) -> Proof:
        raise ValueError("the witness is 42")

    first_time(monkeypatch, "compute", broken)
    bench.pool()
    job = bench.submit()
    assert bench.ended(job).state is JobState.SUCCEEDED
    failed, _ = bench.queue.attempts(job.id)
    # What nobody foresaw may say anything, and is not passed on.
    assert (failed.code, failed.message) == ("INTERNAL", "ValueError at the stage prove")


def test_a_lost_device_is_opened_again(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[Any] = []

    def open_keys() -> ResidentKeys:
        keys = ResidentKeys(bench.repository, "cpu")
        keys.device = SimpleNamespace(space=SimpleNamespace(is_lost=False))  # type: ignore[assignment]
        opened.append(keys.device)
        return keys

    def lost(_: PendingProof, __: Proof) -> Proof:
        opened[-1].space.is_lost = True
        raise DeviceError("fell off the bus")

    first_time(monkeypatch, "compute", lost)
    monkeypatch.setattr("quod.service.worker.worker._BACKOFF_SECONDS", 0.01)
    worker = Worker(
        "gpu", OwnJobs(bench.queue, "gpu"), open_keys, WorkerSettings(),
        RegisteredCalculators(bench.repository),
    )  # fmt: skip
    jobs = [bench.submit() for _ in range(8)]
    worker.start()
    try:
        for job in jobs:
            assert bench.ended(job).state is JobState.SUCCEEDED
            bench.check_results(job)
        assert len(opened) == 2
        assert worker.status().restarts == 1
        attempts = [attempt for job in jobs for attempt in bench.queue.attempts(job.id)]
        # What was computed is blamed; what only waited was given back.
        [blamed] = [attempt for attempt in attempts if attempt.outcome is Outcome.LOST]
        assert (blamed.code, blamed.message.split(":")[0]) == ("DEVICE_LOST", "the device was lost")
        outcomes = {attempt.outcome for attempt in attempts}
        assert outcomes <= {Outcome.LOST, Outcome.RELEASED, Outcome.SUCCEEDED}
    finally:
        worker.close()


@pytest.mark.thorough
def test_a_stage_that_hangs_loses_its_lease(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = Bench(tmp_path, lease_seconds=0.5)
    try:
        gate = Gate(monkeypatch, Stages, "compute")
        # Kernels are compiled before: all else takes milliseconds.
        pool = bench.pool(WorkerSettings(patience_seconds=2.0, warm=("small",)))
        eventually(lambda: pool.ready)
        job = bench.submit()
        assert gate.reached.wait(SECONDS)
        eventually(lambda: len(bench.queue.attempts(job.id)) == 2)
        assert bench.ended(job).state is JobState.SUCCEEDED
        assert "more than 2 seconds" in pool.status()[0].problem
        gate.open.set()
        eventually(lambda: not pool._workers["cpu"]._works())
        lost, done = bench.queue.attempts(job.id)
        assert (lost.outcome, done.outcome) == (Outcome.LOST, Outcome.SUCCEEDED)
        bench.check_results(job)
    finally:
        gate.open.set()
        bench.close()


def test_results_are_resent_to_an_unavailable_queue(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    original, refusals_left = OwnJobs.finish, [3]

    def finish(self: OwnJobs, *arguments: Any) -> Any:
        if refusals_left[0]:
            refusals_left[0] -= 1
            raise UnavailableError("not now", retry_seconds=1)
        return original(self, *arguments)

    monkeypatch.setattr(OwnJobs, "finish", finish)
    bench.pool()
    job = bench.submit()
    assert bench.ended(job).state is JobState.SUCCEEDED
    assert refusals_left == [0]
    assert len(bench.queue.attempts(job.id)) == 1


def test_keys_that_are_there_do_not_wait_for_one_that_is_loaded(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool = bench.pool(WorkerSettings(warm=("small",)))
    eventually(lambda: pool.ready)
    gate = Gate(monkeypatch, Groth16Loader, "read")
    witness = (BLS / "witness.wtns").read_bytes()
    cold = [bench.submit(witness, key=bench.other) for _ in range(5)]
    assert gate.reached.wait(SECONDS)
    hot = [bench.submit() for _ in range(8)]
    for job in hot:
        assert bench.ended(job).state is JobState.SUCCEEDED
    assert not any(bench.queue.job(job.id).state.ended for job in cold)
    gate.open.set()
    for job in cold:
        assert bench.ended(job).state is JobState.SUCCEEDED

"""The operator's status document: its contents, its rates, and values it must not contain."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from quod.service.encoding import encode_answer
from quod.service.keys.leases import CacheStatus, KeyUse
from quod.service.keys.needs import Tier
from quod.service.queue import Submission, open_queue
from quod.service.records import ServerState
from quod.service.status import (
    SHOWN_JOBS,
    WINDOW,
    Activity,
    job_document,
    percentile,
    status_document,
)
from quod.service.worker.pools.pool import Stage, StageRecord, WorkerState, WorkerStatus

SERVER = ServerState("1.2.3", "ready", 900.0)


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def stage(end: float, job: str = "j", length: float = 0.5) -> StageRecord:
    return StageRecord("gpu 0", job, 0, "k", Stage.PROVE, end - length, end, 64)


def worker(name: str = "gpu 0", *, started: float = 900.0, proofs: int = 0, busy: float = 0.0,
           keys: tuple[KeyUse, ...] = (), replications: int = 0) -> WorkerStatus:  # fmt: skip
    cache = CacheStatus(True, {Tier.HOST: 100}, {Tier.HOST: 10}, 0, keys)
    return WorkerStatus(
        name, "cuda:0", WorkerState.BUSY, started, 0, {"j": Stage.PROVE}, proofs, 0, busy,
        {"keys": 10, "free": 90}, cache, "", (), replications,
    )  # fmt: skip


def test_stages_are_kept_for_a_minute_and_counted_for_streams() -> None:
    clock = Clock()
    activity = Activity(clock)
    for end in (995.0, 998.0, 1000.0):
        activity.record(stage(end, f"{end:.0f}"))
    stages, last = activity.stages()
    assert [record.job for record in stages] == ["995", "998", "1000"]
    assert last == 3
    assert activity.stages(after=2)[0] == stages[2:]
    assert activity.stages(after=3) == ([], 3)
    clock.now = 997.0 + WINDOW
    # One has gone: who had heard of none gets those that are left.
    assert [record.job for record in activity.stages()[0]] == ["998", "1000"]
    assert [record.job for record in activity.stages(after=2)[0]] == ["1000"]
    # Of a server that was started again numbers begin anew.
    assert activity.stages(after=99) == ([], 3)


def test_rates_cover_the_last_minute_of_one_worker_process() -> None:
    clock = Clock()
    activity = Activity(clock)
    assert activity.rates() == (0.0, {})
    for second in range(121):
        clock.now = 1000.0 + second
        # Idle for a minute, then half busy with three proofs a second.
        later = max(second - 60, 0)
        activity.sample([worker(proofs=3 * later, busy=0.5 * later)])
    rate, shares = activity.rates()
    assert rate == pytest.approx(3.0)
    assert shares == {"gpu 0": pytest.approx(0.5)}
    clock.now += 1
    activity.sample([worker(started=1120.5, proofs=2, busy=0.25)])
    rate, shares = activity.rates()
    assert rate == pytest.approx(2 / 60)
    assert shares["gpu 0"] == pytest.approx(0.25 / 60)


def test_the_document_of_a_queue_with_jobs(tmp_path: Path) -> None:
    clock = Clock()
    activity = Activity(clock)
    use = KeyUse("k", Tier.DEVICE, True, False, 10, 20, 1, 5, 2, 1, 0, 0, 0.5)
    workers = [worker("gpu 0", keys=(use,)), worker("gpu 1", keys=(use,), replications=3)]
    activity.record(stage(999.0))
    with open_queue(tmp_path / "queue") as queue:
        for number in range(SHOWN_JOBS + 5):
            payload = queue.blob_store.write(b"a secret witness")
            queue.submit(Submission("ann", "k", bytes(32), payload, priority=number % 2))
        [lease] = queue.claim("gpu 0")
        queue.fail(lease, "BAD_WITNESS", "line 7 is not satisfied", retry=False)
        document = status_document(
            SERVER, workers, queue.status(), queue.jobs(most=200), activity, {"k": ["membership"]}
        )
        failed = queue.jobs(most=200)[-2]
        told = job_document(failed, queue.events(failed.id), queue.attempts(failed.id))
    text = json.dumps(document) + json.dumps(told)
    assert "secret" not in text
    assert document["server"] == {
        "state": "ready", "version": "1.2.3", "started": 900.0, "now": 1000.0
    }  # fmt: skip
    assert len(document["jobs"]) == SHOWN_JOBS
    assert document["queue"]["waiting"] == SHOWN_JOBS + 4
    assert document["queue"]["clients"] == [{"client": "ann", "jobs": 54, "bytes": 54 * 16}]
    assert document["queue"]["priorities"] == [
        {"priority": 1, "waiting": 26}, {"priority": 0, "waiting": 28}
    ]  # fmt: skip
    assert document["rate"]["wait_p50"] is not None
    [key] = document["keys"]
    assert (key["names"], [worker["worker"] for worker in key["workers"]]) == (
        ["membership"], ["gpu 0", "gpu 1"]
    )  # fmt: skip
    assert key["copies"] == 2
    assert [worker["replications"] for worker in document["workers"]] == [0, 3]
    assert document["stages_after"] == 1
    assert encode_answer(activity.stages()[0][0]) == {
        "worker": "gpu 0", "job": "j", "partition": 0, "stage": "prove", "begin": 998.5,
        "end": 999.0, "bytes": 64,
    }  # fmt: skip
    assert told["state"] == "failed"
    assert [attempt["outcome"] for attempt in told["attempts"]] == ["failed"]
    assert told["events"][-1]["kind"] == "ended"


def test_running_and_failed_jobs_are_listed_first(tmp_path: Path) -> None:
    with open_queue(tmp_path / "queue", sweep_seconds=None) as queue:
        submission = Submission("ann", "k", bytes(32))
        running = [queue.submit(submission) for _ in range(3)]
        queue.claim("w", most=2)
        failed = queue.submit(Submission("ann", "k", bytes(32), priority=9))
        queue.fail(queue.claim("w")[0], "BAD", "bad", retry=False)
        newest = queue.submit_many([submission] * 60)
        # Those that run are found whatever came after them.
        assert [job.id for job in queue.running()] == [job.id for job in running[1::-1]]
        assert len(queue.running(most=1)) == 1
        jobs = queue.jobs(most=200)
        document = status_document(SERVER, [], queue.status(), jobs, Activity(lambda: 0.0))
        shown = [job["id"] for job in document["jobs"]]
        first = [running[1].id, running[0].id, failed.id]
        assert shown[:3] == first
        assert shown[3:] == [job.id for job in newest[:-48:-1]]  # type: ignore[union-attr]
        assert len(shown) == SHOWN_JOBS


@pytest.mark.parametrize(
    ("share", "expected"), [(50, 2.0), (95, 4.0), (100, 4.0), (0, 1.0), (25, 1.0), (26, 2.0)]
)
def test_percentiles_are_nearest_ranks(share: float, expected: float) -> None:
    assert percentile([1.0, 2.0, 3.0, 4.0], share) == expected
    assert percentile([], share) is None

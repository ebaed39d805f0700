"""Workers in processes of their own: killed, stopped, closed; none of their work is lost."""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from quod.errors import InputError
from quod.service.encoding import decode_error, decode_frame, encode_error
from quod.service.errors import KeyTooLargeError, NotFoundError, UnavailableError
from quod.service.logs import LineFormatter
from quod.service.queue import BlobStore, Job, JobState, Lease, Outcome
from quod.service.worker.pools.pool import Stage, StageRecord, WorkerState, WorkerStatus
from quod.service.worker.pools.processes import ProcessPool
from quod.service.worker.process.channel import Answer, Channel, parts_of
from quod.service.worker.process.child import Records, RemoteJobs
from quod.service.worker.settings import WorkerSettings
from tests.service.worker.conftest import PROOF_STAGES, SECONDS, WITNESS, Bench, eventually


@pytest.fixture
def quick(tmp_path: Path) -> Iterator[Bench]:
    """A queue whose leases are short, and whose jobs may be tried often."""
    harness = Bench(tmp_path, lease_seconds=3.0, max_attempts=100, suspend_after=100)
    yield harness
    harness.close()


def started(bench: Bench, *workers: WorkerSettings) -> ProcessPool:
    pool = ProcessPool(
        bench.queue, bench.repository, workers or (WorkerSettings(warm=("small",)),)
    )  # fmt: skip
    bench.started(pool)
    return pool


def test_jobs_are_proved_in_a_worker_process(bench: Bench) -> None:
    pool = started(bench)
    jobs = [bench.submit() for _ in range(4)]
    wrong = bench.submit(WITNESS[:-1])
    for job in jobs:
        assert bench.ended(job).state is JobState.SUCCEEDED
        bench.check_results(job)
    failed = bench.ended(wrong)
    assert (failed.state, failed.code) == (JobState.FAILED, "INVALID_ARGUMENT")
    eventually(lambda: pool.ready and pool.status()[0].proofs == 4)
    [status] = pool.status()
    assert (status.failures, status.restarts, status.problem) == (1, 0, "")
    assert status.busy_seconds > 0
    assert [use.key for use in status.keys.keys] == [bench.key]
    # They may be told after the result.
    eventually(
        lambda: (
            [record.stage for record in bench.records if record.job == jobs[0].id] == PROOF_STAGES
        )
    )
    pool.preload("other", timeout=SECONDS)
    pool.evict("other")
    with pytest.raises(NotFoundError, match="nothing"):
        pool.preload("nothing")
    pool.resume("cpu")
    assert pool.drain(SECONDS)
    late = bench.submit()
    eventually(lambda: pool.status()[0].state is WorkerState.DRAINING)
    assert bench.queue.job(late.id).state is JobState.QUEUED
    process = pool._workers["cpu"].process_id
    pool.close()
    assert process is not None
    with pytest.raises(ProcessLookupError):
        os.kill(process, 0)
    with pytest.raises(UnavailableError):
        pool.preload("small")


def test_killed_worker_is_restarted(quick: Bench) -> None:
    pool = started(quick)
    jobs = [quick.submit() for _ in range(30)]
    supervisor = pool._workers["cpu"]
    for at in (0, 5):
        assert quick.ended(jobs[at]).state is JobState.SUCCEEDED
        process = supervisor.process_id
        assert process is not None
        os.kill(process, signal.SIGKILL)
        eventually(lambda: supervisor.process_id not in (None, process))  # noqa: B023
    for job in jobs:
        assert quick.ended(job).state is JobState.SUCCEEDED
        quick.check_results(job)
        done = [
            attempt
            for attempt in quick.queue.attempts(job.id)
            if attempt.outcome is Outcome.SUCCEEDED
        ]
        assert len(done) == 1
    [status] = pool.status()
    assert status.restarts == 2
    assert "signal 9" in status.problem


@pytest.mark.thorough
def test_server_signals_do_not_end_workers(quick: Bench) -> None:
    """Ctrl-C and supervisors send them to the whole group, of which the server alone drains."""
    pool = started(quick)
    jobs = [quick.submit() for _ in range(10)]
    assert quick.ended(jobs[0]).state is JobState.SUCCEEDED
    process = pool._workers["cpu"].process_id
    assert process is not None
    for number in (signal.SIGINT, signal.SIGTERM):
        os.kill(process, number)
    for job in jobs:
        assert quick.ended(job).state is JobState.SUCCEEDED
    assert pool.drain(SECONDS)
    assert pool.status()[0].restarts == 0


@pytest.mark.thorough
def test_a_worker_that_is_stopped_loses_its_leases(quick: Bench) -> None:
    """Another one proves; the first, once it goes on, can hand nothing in."""
    pool = started(quick, WorkerSettings(), WorkerSettings())
    first, second = (pool._workers[name] for name in ("cpu#0", "cpu#1"))
    eventually(lambda: pool.ready)
    # Else the second alone has the key, and all of its work.
    pool.preload("small", timeout=SECONDS)
    eventually(lambda: all(worker.status().keys.keys for worker in (first, second)))
    jobs: list[Job] = []
    process = first.process_id
    assert process is not None
    while not first._leases:
        # It waits for a claim, whose answer finds it standing still.
        os.kill(process, signal.SIGCONT)
        eventually(lambda: first._claiming)
        os.kill(process, signal.SIGSTOP)
        jobs += [quick.submit() for _ in range(8)]
        eventually(lambda: first._leases or not first._claiming)
    try:
        for job in jobs:
            assert quick.ended(job).state is JobState.SUCCEEDED
            quick.check_results(job)
    finally:
        os.kill(process, signal.SIGCONT)
    lost = [
        attempt
        for job in jobs
        for attempt in quick.queue.attempts(job.id)
        if attempt.outcome is Outcome.LOST
    ]
    assert lost
    assert {attempt.worker for attempt in lost} == {"cpu#0"}
    assert second.status().restarts == 0
    # Nothing of it is kept, by whichever way it went.
    eventually(lambda: not first._leases)
    assert quick.queue.status().jobs == {}


def test_jobs_unseen_by_a_dead_worker_are_not_blamed(
    quick: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A claim of it that is under way is given work: nobody has tried that."""
    pool = started(quick)
    supervisor = pool._workers["cpu"]
    claim, entered, leave = supervisor._jobs.claim, threading.Event(), threading.Event()

    def late(**options: Any) -> list[Lease]:
        entered.set()
        assert leave.wait(SECONDS)
        return claim(**options)

    eventually(lambda: pool.ready)
    monkeypatch.setattr(supervisor._jobs, "claim", late)
    assert entered.wait(SECONDS)
    process = supervisor.process_id
    assert process is not None
    os.kill(process, signal.SIGKILL)
    eventually(lambda: supervisor._channel is None)
    job = quick.submit()
    leave.set()
    assert quick.ended(job).state is JobState.SUCCEEDED
    outcomes = [attempt.outcome for attempt in quick.queue.attempts(job.id)]
    assert outcomes == [Outcome.RELEASED, Outcome.SUCCEEDED]


_HANGS = """
import os, sys, threading
from quod.service.worker.process.child import main
from quod.service.worker.stages import Stages

def compute(self, work, original=Stages.compute):
    try:
        os.mkdir({marker!r})
    except FileExistsError:
        return original(self, work)
    threading.Event().wait()

Stages.compute = compute
main()
"""


@pytest.mark.thorough
def test_hanging_device_gets_a_new_process(quick: Bench, tmp_path: Path) -> None:
    text = _HANGS.format(marker=str(tmp_path / "hung"))
    pool = ProcessPool(
        quick.queue, quick.repository, [WorkerSettings(patience_seconds=4.0, warm=("small",))],
        command=[sys.executable, "-c", text],
    )  # fmt: skip
    quick.started(pool)
    job = quick.submit()
    assert quick.ended(job).state is JobState.SUCCEEDED
    quick.check_results(job)
    [status] = pool.status()
    assert (status.restarts, status.problem) == (1, "its device hung")
    lost, done = quick.queue.attempts(job.id)
    assert (lost.outcome, done.outcome) == (Outcome.LOST, Outcome.SUCCEEDED)


_WRITES = """
import ctypes, os, sys, warnings
from quod.service.worker.process.child import main
from quod.service.worker.stages import Stages

def compute(self, work, original=Stages.compute):
    warnings.warn("the witness is 314159")
    os.write(2, b"a driver says %d\\n" % ctypes.CDLL(None).prctl(3, 0, 0, 0, 0))
    return original(self, work)

Stages.compute = compute
main()
"""


def test_worker_output_is_logged(quick: Bench, caplog: pytest.LogCaptureFixture) -> None:
    pool = ProcessPool(
        quick.queue, quick.repository, [WorkerSettings()], command=[sys.executable, "-c", _WRITES]
    )  # fmt: skip
    quick.started(pool)
    assert quick.ended(quick.submit()).state is JobState.SUCCEEDED
    pool.close()
    formatter = LineFormatter(as_json=True)
    lines = [json.loads(formatter.format(record)) for record in caplog.records]
    worker_lines = [line for line in lines if line.get("worker") == "cpu"]
    assert {"a library issued a warning", "a line on standard error"} <= {
        line["message"] for line in worker_lines
    }
    assert "314159" not in json.dumps(lines)
    if sys.platform == "linux":
        # The memory of a worker that crashes is not dumped.
        assert "a driver says 0" in [line.get("text") for line in worker_lines]


def test_worker_start_failure_is_reported(bench: Bench) -> None:
    pool = ProcessPool(
        bench.queue, bench.repository, [WorkerSettings()], command=[sys.executable, "-c", "exit(3)"]
    )
    bench.started(pool)
    eventually(lambda: pool.status()[0].restarts > 1)
    [status] = pool.status()
    assert status.state is WorkerState.DEAD
    assert not pool.ready
    other = ProcessPool(bench.queue, bench.repository, command=["/no/such/program"])
    bench.started(other)
    eventually(lambda: "could not be started" in other.status()[0].problem)


def test_a_worker_ends_with_the_server(tmp_path: Path) -> None:
    server_end, its = socket.socketpair()
    import subprocess

    child = subprocess.Popen(
        [sys.executable, "-m", "quod.service.worker.process.child", str(its.fileno())],
        pass_fds=(its.fileno(),),
    )
    its.close()
    server_end.close()
    assert child.wait(SECONDS) == 1


class Told:
    """A fake channel that records messages and their names; `held` is waited for."""

    def __init__(self) -> None:
        self.stages: list[list[Stage]] = []
        self.names: list[str] = []
        self.held: threading.Event | None = None

    def send(self, name: str, arguments: dict[str, Any]) -> None:
        self.names.append(name)
        if self.held is not None:
            assert self.held.wait(SECONDS)
        if name == "records":
            self.stages.append([record.stage for record in arguments["records"]])

    def call(self, name: str, _: object) -> None:
        self.names.append(name)


def test_stages_of_several_jobs_are_reported_immediately() -> None:
    """Otherwise the job that killed its worker would be unknown."""
    channel, in_hand = Told(), [1]
    records = Records(channel, lambda: in_hand[0])  # type: ignore[arg-type]
    first, second = ([StageRecord("w", job, 0, "k", stage, 0.0, 1.0) for stage in PROOF_STAGES]
                     for job in ("a", "b"))  # fmt: skip
    for record in first[:3]:
        records.add(record)
    assert channel.stages == []
    in_hand[0] = 2
    for record in second[:3]:
        records.add(record)
    upload = PROOF_STAGES[: PROOF_STAGES.index(Stage.KEY) + 1]
    assert channel.stages == [[*PROOF_STAGES[:3], *upload], [Stage.UPLOAD]]
    # What has been computed is not to blame, though it has not ended.
    records.add(first[3])
    assert channel.stages[2:] == [[Stage.PROVE]]
    records.flush()
    records.add(first[4])
    records.flush()
    assert channel.stages[3:] == [[Stage.CHECK]]


@pytest.mark.parametrize("end", ["fail", "lose", "release", "forget"])
def test_stages_are_reported_before_a_job_is_released(end: str, tmp_path: Path) -> None:
    """Otherwise the job would count as running for its next worker."""
    channel = Told()
    records = Records(channel, lambda: 1)  # type: ignore[arg-type]
    jobs = RemoteJobs(channel, BlobStore(tmp_path / "spool"), 3.0, records)  # type: ignore[arg-type]
    lease = Lease("1-0", 0, 1, 1, "k", "ann", "", 0, None, 1)
    records.add(StageRecord("w", "1-0", 0, "k", Stage.UPLOAD, 0.0, 1.0))
    getattr(jobs, end)(
        lease, *{"fail": ("CODE", "why", True), "lose": ("CODE", "why")}.get(end, ())
    )
    assert (channel.stages, channel.names) == ([[Stage.UPLOAD]], ["records", end])


def test_stages_are_reported_in_order() -> None:
    """Another thread may be about to report an earlier stage."""
    channel, started = Told(), threading.Event()
    records = Records(channel, lambda: 2)  # type: ignore[arg-type]
    channel.held = threading.Event()
    key, upload = (StageRecord("w", "a", 0, "k", stage, 0.0, 1.0)
                   for stage in (Stage.KEY, Stage.UPLOAD))  # fmt: skip
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(records.add, key)
        eventually(lambda: channel.names)
        second = pool.submit(lambda: (started.set(), records.add(upload)))
        assert started.wait(SECONDS)
        eventually(lambda: second.running() and records._unsent)
        channel.held.set()
        first.result(SECONDS)
        second.result(SECONDS)
    assert channel.stages == [[Stage.KEY], [Stage.UPLOAD]]


def test_handlers_that_are_prompt_begin_in_the_order_of_the_messages() -> None:
    started: list[int] = []

    def begin(arguments: dict[str, Any], body: bytes) -> Callable[[], Answer]:
        started.append(arguments["number"])
        if arguments["number"] == 3:
            raise InputError("a number is wrong")
        return lambda: Answer(arguments["number"], body)

    handler_end, other = socket.socketpair()
    ends = [
        Channel(handler_end, {"begin": begin}, lambda: None, prompt=("begin",)),
        Channel(other, {}, lambda: None),
    ]
    for end in ends:
        end.start()
    try:
        assert ends[1].call("begin", {"number": 1}, b"body") == Answer(1, b"body")
        with pytest.raises(InputError, match="a number is wrong"):
            ends[1].call("begin", {"number": 3})
        assert started == [1, 3]
    finally:
        for end in ends:
            end.close()
    assert parts_of(b"abc", [1, 0, 2]) == [b"a", b"", b"bc"]
    with pytest.raises(InputError, match="other bytes"):
        parts_of(b"abc", [1, 1])


def test_errors_and_records_round_trip() -> None:
    error = KeyTooLargeError("too large", parts={"file": 3}, budget=2)
    restored = decode_error(encode_error(error))
    assert isinstance(restored, KeyTooLargeError)
    assert (str(restored), restored.parts, restored.budget) == ("too large", {"file": 3}, 2)
    busy = decode_error(encode_error(UnavailableError("gone", retry_seconds=2.5)))
    assert isinstance(busy, UnavailableError)
    assert busy.retry_seconds == 2.5
    # The text of what nobody foresaw is not told.
    assert "secret" not in str(decode_error(encode_error(ValueError("secret"))))
    for bad in (None, {}, {"state": "asleep"}, [1]):
        with pytest.raises(InputError):
            decode_frame(WorkerStatus, bad)


@pytest.mark.parametrize(
    "sent", [b"\xff" * 8, b"\x02\0\0\0\0\0\0\0[]", b"\x02\0\0\0\0\0\0\0{x", b"\x05\0"]
)
def test_invalid_message_closes_the_channel(sent: bytes) -> None:
    import threading

    local_end, its = socket.socketpair()
    gone = threading.Event()
    channel = Channel(local_end, {}, gone.set)
    channel.start()
    its.sendall(sent)
    its.shutdown(socket.SHUT_WR)
    assert gone.wait(SECONDS)
    with pytest.raises(UnavailableError):
        channel.call("anything", {})
    channel.close()
    its.close()

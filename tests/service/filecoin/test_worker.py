"""The worker of Filecoin jobs: the order of partitions, failures, cancellation."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from quod.device.runtime import future
from quod.errors import DeviceError, InputError, VerificationError
from quod.filecoin.statement_files import StatementFile
from quod.service.filecoin import worker as worker_module
from quod.service.filecoin.provers import Provers
from quod.service.filecoin.worker import FilecoinWorker
from quod.service.payload import PayloadKind, payload_header
from quod.service.queue import Job, JobQueue, JobState, Limits, Submission, open_queue
from quod.service.queue.records import Outcome
from quod.service.worker import WorkerSettings, device_worker

SECONDS = 120


class FakeProvers:
    """Provers whose partitions wait for leave; `proved` lists the partitions in order."""

    device = None
    witnesses_ahead = 1

    def __init__(self) -> None:
        self.proved: list[tuple[str, int]] = []
        self.errors: list[Exception] = []
        self.entered, self.leave = threading.Semaphore(0), threading.Semaphore(0)
        self.name = ""

    def open(self, parameters: Any, *, use: bool = False) -> FakeProvers:
        self.name = parameters.kind.value
        return self

    def witness(self, inputs: Any) -> Any:
        return inputs

    def begin_witness(self, inputs: Any) -> future.Outcome[Any]:
        return future.Outcome.of(inputs)

    def prove_partition(
        self, _statement: Any, partition: int, *_inputs: Any, meanwhile: Any = None
    ) -> bytes:
        self.proved.append((self.name, partition))
        if meanwhile is not None:
            meanwhile()
        self.entered.release()
        assert self.leave.acquire(timeout=SECONDS)
        if self.errors:
            raise self.errors.pop()
        return bytes([partition]) * 192

    def release(self) -> None: ...

    def status(self, *, ready: bool) -> Any:
        return Provers.EMPTY, {}

    def close(self) -> None: ...


@pytest.fixture
def queue(tmp_path: Path) -> Iterator[JobQueue]:
    limits = Limits(max_attempts=2, ballast_bytes=4096)
    with open_queue(tmp_path / "queue", limits=limits) as opened:
        yield opened


@pytest.fixture
def provers() -> FakeProvers:
    return FakeProvers()


@pytest.fixture
def worker(
    queue: JobQueue, provers: FakeProvers, monkeypatch: pytest.MonkeyPatch
) -> Iterator[FilecoinWorker]:
    """A started worker that takes any bytes for a request."""
    monkeypatch.setattr(worker_module, "parse_request", lambda _: StatementFile(None))  # type: ignore[arg-type]
    monkeypatch.setattr(worker_module, "circuit_inputs", lambda *_: [{}] * 10)
    started = FilecoinWorker("cpu", queue, WorkerSettings(), lambda: provers, lambda _: None)  # type: ignore[arg-type,return-value]
    started.start()
    yield started
    provers.leave.release(100)
    started.close()


def submit(queue: JobQueue, key: str, partitions: int, priority: int) -> str:
    request = b"\x10\x01"
    lengths = [len(request), *[0] * (partitions - 1)]
    body = payload_header(PayloadKind.VANILLA_PROOFS, lengths) + request
    return queue.submit(
        Submission("ann", key, bytes(32), priority=priority, partitions=partitions, body=body)
    ).id


def ended(queue: JobQueue, job: str) -> Job:
    return queue.wait(job, timeout=SECONDS)[0]


def test_a_winning_post_waits_for_one_partition(
    queue: JobQueue, provers: FakeProvers, worker: FilecoinWorker
) -> None:
    seal = submit(queue, "porep-32g", 10, 1)
    assert provers.entered.acquire(timeout=SECONDS)
    window = submit(queue, "wpost-32g", 1, 4)
    winning = submit(queue, "winning-32g", 1, 8)
    provers.leave.release(12)
    for job in (seal, window, winning):
        assert ended(queue, job).state is JobState.SUCCEEDED
    porep = [("porep", partition) for partition in range(10)]
    assert provers.proved == [porep[0], ("winning", 0), ("window", 0), *porep[1:]]
    results = [json.loads(result) for result in queue.results(seal)]
    assert [bytes.fromhex(each["proof"])[0] for each in results] == list(range(10))
    assert worker.drain(SECONDS)
    assert worker.status().proofs == 3


def test_a_job_that_is_cancelled(
    queue: JobQueue, provers: FakeProvers, worker: FilecoinWorker
) -> None:
    """Its partition is completed and discarded; the next job is proved."""
    seal = submit(queue, "porep-32g", 10, 1)
    assert provers.entered.acquire(timeout=SECONDS)
    assert queue.cancel(seal).state is JobState.CANCELLED
    window = submit(queue, "wpost-32g", 1, 4)
    provers.leave.release(2)
    assert ended(queue, window).state is JobState.SUCCEEDED
    assert provers.proved == [("porep", 0), ("window", 0)]
    assert worker.drain(SECONDS)
    status = worker.status()
    assert (status.proofs, status.failures) == (1, 0)


def test_an_idle_worker_frees_the_witnesses_of_a_cancelled_job(
    queue: JobQueue, provers: FakeProvers, worker: FilecoinWorker
) -> None:
    waiting = future.Outcome[Any]()
    provers.begin_witness = lambda inputs: waiting  # type: ignore[method-assign]
    seal = submit(queue, "porep-32g", 10, 1)
    assert provers.entered.acquire(timeout=SECONDS)
    assert queue.cancel(seal).state is JobState.CANCELLED
    assert not waiting.done()
    provers.leave.release()
    assert waiting.wait(SECONDS)


@pytest.mark.parametrize(
    ("error", "attempts", "code"),
    [
        (InputError("is wrong", section="proofs[0]"), 1, "INVALID_ARGUMENT"),
        (VerificationError("the proof does not verify"), 2, "INTERNAL"),
        (DeviceError("the device failed"), 2, "INTERNAL"),
        (ValueError("of the witness"), 2, "INTERNAL"),
    ],
)
def test_failures(
    queue: JobQueue, provers: FakeProvers, worker: FilecoinWorker, error: Exception,
    attempts: int, code: str,
) -> None:  # fmt: skip
    """Errors of the request end the job, those of the device after the attempts of the limits."""
    provers.errors = [error] * attempts
    provers.leave.release(attempts)
    job = ended(queue, submit(queue, "wpost-32g", 1, 4))
    assert (job.state, job.code) == (JobState.FAILED, code)
    assert ("of the witness" in job.message) is False
    assert len(provers.proved) == attempts
    assert not provers.errors


def test_failed_proofs_in_the_log(
    queue: JobQueue, provers: FakeProvers, worker: FilecoinWorker, caplog: pytest.LogCaptureFixture
) -> None:
    """The line has the job; places in the code only for a defect."""
    provers.errors = [InputError("is wrong"), ValueError("of the witness")]
    provers.leave.release(2)
    job = ended(queue, submit(queue, "wpost-32g", 1, 4))
    assert job.state is JobState.FAILED
    records = [record for record in caplog.records if record.message.startswith("a proof failed")]
    assert [record.exc_info is None for record in records] == [False, True]
    for record in records:
        fields = vars(record)
        assert (fields["job"], fields["partition"], fields["key"]) == (job.id, 0, "wpost-32g")


def test_a_device_that_cannot_be_opened(
    queue: JobQueue, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The delays between attempts double up to a limit; the log has the reason alone."""
    monkeypatch.setattr(device_worker, "_RETRY_SECONDS", 0.001)
    monkeypatch.setattr(device_worker, "_MAX_RETRY_SECONDS", 0.003)
    attempts = threading.Semaphore(0)

    def fail() -> Provers:
        attempts.release()
        raise DeviceError("there is no driver")

    failing = FilecoinWorker("cuda:0", queue, WorkerSettings(), fail, lambda _: None)
    failing.start()
    for _ in range(4):
        assert attempts.acquire(timeout=SECONDS)
    failing.close()
    assert failing.status().problem == "there is no driver"
    records = [record for record in caplog.records if "is not ready" in record.message]
    delays = [record.args[1] for record in records[:4] if isinstance(record.args, tuple)]
    assert delays[:3] == [0.001, 0.002, 0.003]
    assert all(record.exc_info is None for record in records)


def test_a_job_of_another_key(queue: JobQueue, worker: FilecoinWorker) -> None:
    job = ended(queue, submit(queue, "f" * 64, 1, 0))
    assert (job.state, job.code) == (JobState.FAILED, "NOT_FOUND")


def test_closing_releases_the_partition(
    queue: JobQueue, provers: FakeProvers, worker: FilecoinWorker
) -> None:
    job = submit(queue, "porep-32g", 2, 1)
    assert provers.entered.acquire(timeout=SECONDS)
    threading.Timer(0.05, provers.leave.release).start()
    worker.close()
    [lease] = queue.claim("other")
    assert (lease.job, lease.partition, lease.attempt) == (job, 0, 1)


def test_closing_leaves_a_partition_that_takes_long(
    queue: JobQueue, provers: FakeProvers, worker: FilecoinWorker
) -> None:
    """It is released at once, and counts as no attempt and as no death of the server."""
    job = submit(queue, "porep-32g", 2, 1)
    assert provers.entered.acquire(timeout=SECONDS)
    begin = time.monotonic()
    worker.close()
    assert time.monotonic() - begin < 30
    [lease] = queue.claim("other")
    assert (lease.job, lease.partition, lease.attempt) == (job, 0, 1)
    assert queue.attempts(job)[0].outcome is Outcome.RELEASED
    provers.leave.release()

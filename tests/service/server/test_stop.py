"""The end of a server while calls wait for their jobs."""

from __future__ import annotations

import logging
import time
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from quod.service.client import JobState
from quod.service.client.records import RemoteJob
from quod.service.errors import UnavailableError
from quod.service.queue import open_queue
from tests.service.server.conftest import Start
from tests.service.server.running_server import RunningServer
from tests.service.server.test_calls import wanted

SECONDS = 120


def waiting_calls(
    server: RunningServer, threads: ThreadPoolExecutor, **fields: object
) -> tuple[list[Future[RemoteJob]], list[str]]:
    """Start two calls of `Prove`, of which a worker has claimed one; return them and their jobs."""

    def prove() -> RemoteJob:
        with server.client() as client:
            return client.prove(wanted(**fields))

    calls = [threads.submit(prove) for _ in range(2)]
    deadline = time.monotonic() + SECONDS
    with server.client() as client:
        while len(jobs := client.jobs()) < 2 or not any(job.started for job in jobs):
            assert time.monotonic() < deadline
    return calls, [job.id for job in jobs]


@pytest.mark.parametrize("signals", [1, 2])
def test_jobs_of_waiting_calls_are_cancelled(
    start: Start, tmp_path: Path, signals: int, caplog: pytest.LogCaptureFixture
) -> None:
    """No server proves them for nobody, and their clients know that they may repeat the calls."""
    caplog.set_level(logging.INFO)
    server = start(go=False, data=tmp_path / "d", requests={"drain_seconds": 0.2})
    with ThreadPoolExecutor() as threads:
        calls, jobs = waiting_calls(server, threads)
        for _ in range(signals):
            server.end()
        for call in calls:
            with pytest.raises(UnavailableError, match="the server ends and has cancelled this"):
                call.result(SECONDS)
        server.pool.leave.set()
        # No job is left.
        assert server.join() is True
    with open_queue(tmp_path / "d") as queue:
        assert {queue.job(job).state for job in jobs} == {JobState.CANCELLED}
        assert not queue.unfinished()
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


def test_jobs_in_progress_end_before(start: Start, caplog: pytest.LogCaptureFixture) -> None:
    """A call whose job a worker finishes while the server drains gets its result."""
    caplog.set_level(logging.INFO, "quod")
    server = start(go=False)
    with ThreadPoolExecutor() as threads:
        calls, _ = waiting_calls(server, threads)
        server.end()
        # Otherwise the worker might claim the second job before it is told to stop.
        assert server.pool.stopping.wait(SECONDS)
        server.pool.leave.set()
        outcomes = [call.exception(SECONDS) for call in calls]
        assert sorted(type(each).__name__ for each in outcomes) == ["NoneType", "UnavailableError"]
    assert server.join() is True
    [record] = [record for record in caplog.records if record.message == "drained"]
    assert (vars(record)["finished"], vars(record)["unfinished_jobs"]) == (True, 0)


def test_jobs_that_are_left(start: Start, caplog: pytest.LogCaptureFixture) -> None:
    """Jobs that clients can find again stay in the queue, and the log does not call them done."""
    caplog.set_level(logging.INFO, "quod")
    server = start(go=False)
    server.pool.drain()
    with server.client() as client:
        client.submit(wanted())
    server.end()
    assert server.join() is False
    [record] = [record for record in caplog.records if record.message == "drained"]
    assert (vars(record)["finished"], vars(record)["unfinished_jobs"]) == (False, 1)


def test_waiting_calls_over_http(start: Start) -> None:
    server = start(go=False, requests={"drain_seconds": 0.2})

    def prove() -> httpx.Response:
        with server.http() as http:
            return http.post("/v1/prove?key=membership", content=b"x",
                             headers={"Content-Type": "application/octet-stream"})  # fmt: skip

    with ThreadPoolExecutor() as threads:
        call = threads.submit(prove)
        deadline = time.monotonic() + SECONDS
        with server.client() as client:
            while not any(job.started for job in client.jobs()):
                assert time.monotonic() < deadline
        server.end()
        response = call.result(SECONDS)
        server.pool.leave.set()
    assert response.status_code == 503
    assert "has cancelled this job" in response.text

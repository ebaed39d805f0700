"""Processes are killed at random: acknowledged work is kept, and done once."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path

import pytest

from quod.service.errors import LeaseLostError, UnavailableError
from quod.service.queue import JobState, open_queue
from tests.service.queue.crashing import REPOSITORY, crash
from tests.service.queue.places import Place, request, submitted
from tests.support.postgres import Cluster

_SECONDS = 3.0


def test_jobs_survive_crashes_exactly_once(place: Place, tmp_path: Path) -> None:
    processes = 2 if place.shared else 1
    crash(
        place.arguments, tmp_path / "log", _SECONDS, seed=7, processes=processes,
        enough=lambda log: len(log.submitted) > 20 and len(log.finished) > 5,
    )  # fmt: skip


_WORKER = """
import json, sys
from quod.service.errors import LeaseLostError
from quod.service.queue import open_queue

with open_queue(**json.loads(sys.argv[1]), sweep_seconds=None) as queue:
    [lease] = queue.claim("stopped")
    print("claimed", flush=True)
    sys.stdin.readline()
    try:
        queue.finish(lease, b"from the grave")
    except LeaseLostError as error:
        print(error, flush=True)
"""


@pytest.mark.thorough
def test_a_worker_that_was_stopped_past_its_lease_finishes_nothing(on_postgres: Place) -> None:
    import json

    place = on_postgres
    queue = place.open(lease_seconds=5.0)
    job = submitted(queue)
    with subprocess.Popen(
        [sys.executable, "-c", _WORKER, json.dumps(place.arguments)], cwd=REPOSITORY, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    ) as worker, ExitStack() as failing:  # fmt: skip
        failing.callback(worker.kill)
        assert worker.stdout is not None
        assert worker.stdin is not None
        assert worker.stdout.readline() == "claimed\n"
        worker.send_signal(signal.SIGSTOP)
        queue.sweep()
        place.clock.now += 5
        queue.sweep()
        [lease] = queue.claim("other")
        queue.finish(lease, b"proof")
        worker.send_signal(signal.SIGCONT)
        worker.stdin.write("\n")
        worker.stdin.flush()
        assert "the lease is lost" in worker.stdout.readline()
    assert queue.results(job.id) == [b"proof"]


def test_workers_of_a_dead_process_are_fenced(on_sqlite: Place) -> None:
    queue = on_sqlite.open()
    submitted(queue)
    [lease] = queue.claim("w")
    on_sqlite.close()
    queue = on_sqlite.open()
    with pytest.raises(LeaseLostError):
        queue.finish(lease, b"late")
    [again] = queue.claim("w")
    assert (again.token, again.attempt) == (2, 2)
    assert queue.key_status() == []  # the key is not blamed for the end of the server


@pytest.mark.thorough
def test_database_outage_is_reported_and_recovers(on_postgres: Place, cluster: Cluster) -> None:
    queue = on_postgres.open()
    job = submitted(queue)
    cluster.kill()
    try:
        with pytest.raises(UnavailableError) as refused:
            submitted(queue)
        assert refused.value.retry_seconds > 0
        with pytest.raises(UnavailableError):
            queue.job(job.id)
        with pytest.raises(UnavailableError):
            open_queue(**on_postgres.arguments)
    finally:
        cluster.start()
    assert queue.job(job.id).state is JobState.QUEUED
    [lease] = queue.claim("w")
    assert queue.finish(lease, b"proof").state is JobState.SUCCEEDED


def test_lost_notification_only_delays_work(
    on_postgres: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    from quod.service.queue import job_queue

    monkeypatch.setattr(job_queue, "LOOK_AGAIN_SECONDS", 0.05)
    with open_queue(**on_postgres.arguments) as queue, open_queue(**on_postgres.arguments) as other:
        monkeypatch.setattr(other._store, "_notify", lambda *_: None)
        job = other.submit(request())
        begin = time.monotonic()
        [lease] = queue.claim("w", wait=300)
        other.cancel(job.id)
        current, _ = queue.wait(job.id, timeout=300)
        assert current.state is JobState.CANCELLED
        assert time.monotonic() - begin < 200
        assert lease.job == job.id

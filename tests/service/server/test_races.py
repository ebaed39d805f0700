"""Clients that do the same thing at once, and submit while the server ends."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from quod.errors import QuodError
from quod.service.client import Client, ProofRequest
from quod.service.errors import AlreadyExistsError, NotFoundError, UnavailableError
from quod.service.queue import JobState, open_queue
from tests.service.server.conftest import Start

_CLIENTS = 16


def _at_once(count: int, work: Callable[[int], object]) -> list[object]:
    """Run threads that begin together, and return the result or error of each."""
    barrier = threading.Barrier(count)

    def run(number: int) -> object:
        barrier.wait()
        try:
            return work(number)
        except QuodError as error:
            return error

    with ThreadPoolExecutor(count) as threads:
        return list(threads.map(run, range(count)))


def _wanted(size: int, **fields: str) -> ProofRequest:
    return ProofRequest("membership", wtns=bytes([size % 251]) * size, **fields)


@pytest.mark.parametrize("size", [100, 300_000], ids=["rows", "files"])
def test_concurrent_requests_with_one_idempotency_key(start: Start, size: int) -> None:
    """All get one job; another request with the key learns nothing of it."""
    server = start(go=False)
    with server.client() as client:

        def submit(number: int) -> str:
            other = number % 4 == 3
            return client.submit(_wanted(size + other, idempotency_key="7")).id

        told = _at_once(_CLIENTS, submit)
        [kept] = client.jobs()
    ids = {answer for answer in told if isinstance(answer, str)}
    assert ids == {kept.id}
    refused = [answer for answer in told if not isinstance(answer, str)]
    assert all(isinstance(answer, AlreadyExistsError) for answer in refused)
    assert len(refused) in (4, 12)
    server.queue.blob_store.drain()
    files = list((Path(server.config.data) / "spool").iterdir())
    rows = server.queue._store.read(lambda tx: tx.rows("SELECT job FROM payload"))
    assert (len(files), len(rows)) == ((0, 1) if size == 100 else (1, 0))


def test_job_completion_is_reported_only_to_its_client(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client that names another client's job learns nothing, even if it ends during the call."""
    server = start()
    with server.client() as client:
        job = client.prove(_wanted(100), timeout=60)
        outcome = server.queue.outcome(job.id)

        def ends(_: str, callback: Callable[[object], None]) -> Callable[[], None]:
            callback(outcome)
            return lambda: None

        monkeypatch.setattr(server.queue, "watch_end", ends)
        assert client.wait(job.id, timeout=60) == job
        number, _, nonce = job.id.partition("-")
        for other in (f"{number}-{nonce[::-1]}", f"{number}-{'0' * len(nonce)}"):
            with pytest.raises(NotFoundError):
                client.wait(other, timeout=60)


def test_jobs_accepted_during_shutdown_are_kept(start: Start, tmp_path: Path) -> None:
    server = start(go=False, data=tmp_path / "kept")
    taken: list[set[str]] = [set() for _ in range(_CLIENTS)]
    under_way = threading.Semaphore(0)

    def submit(number: int) -> None:
        with Client(server.listeners.grpc[0]) as client:
            while True:
                size = 100 if number % 2 else 300_000
                taken[number].add(client.submit(_wanted(size)).id)
                under_way.release()

    def end(_: int) -> None:
        for _ in range(2 * _CLIENTS):
            under_way.acquire()
        server.end()
        server.pool.leave.set()

    told = _at_once(_CLIENTS + 1, lambda number: (submit if number < _CLIENTS else end)(number))
    assert all(isinstance(answer, UnavailableError) for answer in told[:-1])
    server.join()
    acknowledged = set[str]().union(*taken)
    with open_queue(tmp_path / "kept", sweep_seconds=None) as queue:
        there = {job.id: job for job in queue.jobs(most=1000)}
        assert acknowledged <= there.keys()
        waiting = {job_id for job_id, job in there.items() if job.state is JobState.QUEUED}
        leases = queue.claim("w", most=1000)
        assert {lease.job for lease in leases} == waiting
        for lease in leases:
            with queue.open_payload(lease) as file:
                assert len(file.read()) > 100

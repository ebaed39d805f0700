"""Benchmarks of the job queue: the time to submit, claim and finish a job.

Each figure is reported with the time of a page sync, which dominates it.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from time import perf_counter

from quod.bench.measure.harness import Case, Parameter
from quod.errors import ServiceError
from quod.service.queue import JobQueue, Lease, Limits, Quota, Submission, open_queue

_SYNCS = 200
_UNLIMITED = 1 << 40
_LIMITS = Limits(quota=Quota(_UNLIMITED, _UNLIMITED), jobs=_UNLIMITED, kept_jobs=_UNLIMITED)
_DIGEST = hashlib.sha256(b"quod bench queue").digest()
_PROOF = bytes(800)
"""Bytes as long as a Groth16 proof in JSON."""

_WITNESS = bytes(128_000)
_JOBS = 500
"""The approximate number of jobs in a run."""


def cases(folder: Path, database: str | None) -> Iterator[Case]:
    """Yield submissions by one client and several, in groups, with witnesses; claims; results."""
    with tempfile.TemporaryDirectory(prefix="quod-bench-queue-", dir=folder) as temporary:
        folder_of_run = Path(temporary)
        store = "sqlite" if database is None else "postgres"
        yield Case(
            {"what": "fdatasync of a page"},
            partial(sync_us, folder_of_run),
            "us",
            returns_figure=True,
        )
        schema = f"bench_{os.getpid()}"
        with open_queue(
            folder_of_run / "queue", database=database, schema=schema, limits=_LIMITS
        ) as queue:

            def case(what: str, run: Callable[[], float], **labels: int) -> Case:
                parameters: dict[str, Parameter] = {"what": what, "store": store, **labels}
                return Case(parameters, run, "us/job", returns_figure=True)

            try:
                for clients in (1, 16, 64):
                    run = partial(_submit_us, queue, clients, 1)
                    yield case("submit", run, clients=clients, group=1)
                run = partial(_submit_us, queue, 1, 1, _WITNESS)
                yield case("submit with a witness of 128 kB", run, clients=1, group=1)
                for group in (100, 1000):
                    run = partial(_submit_us, queue, 1, group)
                    yield case("submit", run, clients=1, group=group)
                for workers, max_leases in ((1, 1), (8, 1), (8, 16)):
                    for what, measure in (("claim", _claim_us), ("finish", _finish_us)):
                        run = partial(measure, queue, workers, max_leases)
                        yield case(what, run, workers=workers, group=max_leases)
            finally:
                if database is not None:
                    _drop(database, schema)


def sync_us(folder: Path) -> float:
    """Return the mean time of a sync of an overwritten page, in microseconds."""
    descriptor = os.open(folder / "page", os.O_CREAT | os.O_WRONLY, 0o600)
    try:
        os.pwrite(descriptor, bytes(4096), 0)
        os.fsync(descriptor)
        begin = perf_counter()
        for _ in range(_SYNCS):
            os.pwrite(descriptor, bytes(4096), 0)
            os.fdatasync(descriptor)
        return (perf_counter() - begin) / _SYNCS * 1e6
    finally:
        os.close(descriptor)


def _submission(payload: str = "", priority: int = 0) -> Submission:
    return Submission("bench", "key", _DIGEST, payload, os.urandom(16).hex(), priority)


def _submit_us(queue: JobQueue, clients: int, group: int, witness: bytes = b"") -> float:
    """Return the microseconds per job until the jobs of all clients are on disk."""
    rounds = max(_JOBS // (clients * group), 5)

    def client(_: int) -> None:
        for _ in range(rounds):
            payload = queue.blob_store.write(witness) if witness else ""
            for outcome in queue.submit_many([_submission(payload) for _ in range(group)]):
                if isinstance(outcome, ServiceError):
                    raise outcome

    return _run_threads(clients, client) / (clients * rounds * group) * 1e6


def _claim_us(queue: JobQueue, workers: int, max_leases: int) -> float:
    """Return the microseconds per lease; finishes the leases afterwards."""
    leases, seconds = _claim_leases(queue, workers, max_leases)
    _finish_leases(queue, workers, leases)
    return seconds / sum(map(len, leases)) * 1e6


def _finish_us(queue: JobQueue, workers: int, max_leases: int) -> float:
    """Return the microseconds per result, for leases claimed before."""
    leases, _ = _claim_leases(queue, workers, max_leases)
    return _finish_leases(queue, workers, leases) / sum(map(len, leases)) * 1e6


def _claim_leases(
    queue: JobQueue, workers: int, max_leases: int
) -> tuple[list[list[Lease]], float]:
    """Submit jobs and claim them by several workers; return the leases, and the seconds."""
    rounds = max(_JOBS // (workers * max_leases), 5)
    # At a higher priority than earlier jobs, some of which have a witness to delete.
    queue.submit_many([_submission(priority=9) for _ in range(workers * rounds * max_leases)])
    leases: list[list[Lease]] = [[] for _ in range(workers)]

    def worker(number: int) -> None:
        for _ in range(rounds):
            leases[number] += queue.claim(f"worker {number}", most=max_leases)

    return leases, _run_threads(workers, worker)


def _finish_leases(queue: JobQueue, workers: int, leases: list[list[Lease]]) -> float:
    """Finish the leases of all workers; return the seconds."""

    def worker(number: int) -> None:
        for lease in leases[number]:
            queue.finish(lease, _PROOF)

    return _run_threads(workers, worker)


def _run_threads(count: int, work: Callable[[int], None]) -> float:
    """Call `work` with 0 to `count - 1` in threads; return the seconds until all are done."""
    with ThreadPoolExecutor(count) as pool:
        begin = perf_counter()
        for future in [pool.submit(work, number) for number in range(count)]:
            future.result()
        return perf_counter() - begin


def _drop(database: str, schema: str) -> None:
    """Drop the schema."""
    import psycopg
    from psycopg import sql

    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute(sql.SQL("DROP SCHEMA {} CASCADE").format(sql.Identifier(schema)))

"""Leases of partitions: highest priority first, then the oldest job, then the lowest index."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from quod.service.queue.clock import MICROSECONDS, seconds
from quod.service.queue.operations.end import end_job
from quod.service.queue.operations.keys import hold
from quod.service.queue.operations.payloads import MAX_BODY_BYTES
from quod.service.queue.operations.rows import (
    EventRow,
    JobRow,
    PartState,
    next_event,
    read_jobs,
    write_events,
)
from quod.service.queue.operations.rules import Rules
from quod.service.queue.operations.submit import suspended_keys
from quod.service.queue.records import JobState, Lease
from quod.service.queue.transaction import Row, Transaction


class KeyChooser(Protocol):
    """Chooses keys for a worker that can take work of any key. Only the writer thread calls it."""

    def choose(
        self, worker: str, waiting: Callable[[], Sequence[str]], waited: Callable[[str], float]
    ) -> Sequence[str] | None:
        """Return the keys to take, or None for any.

        waiting: returns the keys with waiting partitions.
        waited: returns the seconds for which the oldest work of a key has waited.
        Must not call the queue.
        """

    def record_claim(self, worker: str, keys: Collection[str]) -> None:
        """Record that the worker has leased work of these keys."""


@dataclass(frozen=True)
class Request:
    """A worker's request for up to `most` partitions.

    keys: the keys to take, or None for any.
    chooser: chooses the keys if `keys` is None.
    """

    worker: str
    keys: tuple[str, ...] | None
    most: int
    chooser: KeyChooser | None = None


@dataclass(frozen=True)
class Claimed:
    """The leases of a request; `all` is true if they were all the waiting work of any key."""

    leases: list[Lease]
    all: bool


def claim(tx: Transaction, rules: Rules, requests: Sequence[Request]) -> list[Claimed]:
    """Lease up to `most` partitions for each request, fewer if fewer wait."""
    return [_claim(tx, rules, request) for request in requests]


def _claim(tx: Transaction, rules: Rules, request: Request) -> Claimed:
    leases: list[Lease] = []
    keys: Sequence[str] | None = request.keys
    chooser = request.chooser
    if chooser is not None and keys is None:
        keys = chooser.choose(
            request.worker, partial(_waiting_keys, tx), partial(_waited, tx, rules)
        )
    while len(leases) < request.most:
        parts = _next_parts(tx, keys, request.most - len(leases))
        if not parts:
            break
        leases += _lease(tx, rules, request.worker, parts)
    if chooser is not None and leases:
        chooser.record_claim(request.worker, {lease.key for lease in leases})
    return Claimed(leases, keys is None and len(leases) < request.most)


def _waiting_keys(tx: Transaction) -> list[str]:
    """Return the keys with waiting partitions, found by index seeks instead of an index scan."""
    queued = f"FROM part WHERE state = {PartState.QUEUED:d}"
    rows = tx.rows(
        f"WITH RECURSIVE waiting (key) AS (SELECT min(key) {queued} "
        f"UNION ALL SELECT (SELECT min(key) {queued} AND part.key > waiting.key) FROM waiting "
        "WHERE waiting.key IS NOT NULL) SELECT key FROM waiting WHERE key IS NOT NULL"
    )
    return [row[0] for row in rows]


def _waited(tx: Transaction, rules: Rules, key: str) -> float:
    """Return the seconds since the oldest job in a key's lowest priority was submitted.

    Waiting jobs of higher priorities are leased before it. Returns 0 if no job waits.
    """
    queued = f"FROM part WHERE state = {PartState.QUEUED:d} AND key = ?"
    rows = tx.rows(
        "SELECT created FROM job WHERE number = (SELECT min(job) "
        f"{queued} AND priority = (SELECT min(priority) {queued}))",
        (key, key),
    )
    return max(rules.clock.wall() - rows[0][0], 0) / MICROSECONDS if rows else 0.0


def _next_parts(tx: Transaction, keys: Sequence[str] | None, most: int) -> list[Row]:
    """Lock the next partitions; return job, partition, token, attempts and priority of each."""
    order = f"ORDER BY priority DESC, job, partition LIMIT ?{tx.skip_locked}"
    columns = (
        f"job, partition, token, attempts, priority FROM part WHERE state = {PartState.QUEUED:d}"
    )
    if keys is None:
        return tx.rows(f"SELECT {columns} {order}", (most,))
    candidates: list[Row] = []
    for key in keys:
        candidates += tx.rows(f"SELECT {columns} AND key = ? {order}", (key, most))
    return sorted(candidates, key=lambda row: (-row[4], row[0], row[1]))[:most]


def _lease(tx: Transaction, rules: Rules, worker: str, parts: Sequence[Row]) -> list[Lease]:
    """Lease locked partitions, except those of expired jobs and suspended keys."""
    now = rules.clock.wall()
    jobs = read_jobs(tx, (row[0] for row in parts), lock=True)
    suspended = suspended_keys(tx)
    for job in jobs.values():
        if job.deadline is not None and job.deadline <= now:
            end_job(
                tx, rules, job, JobState.EXPIRED, "DEADLINE_EXCEEDED", "the deadline has passed"
            )
        elif job.key in suspended:
            hold(tx, job.key)
    events: list[EventRow] = []
    leases, rows, started_jobs, free_body_bytes = [], [], dict[int, JobRow](), MAX_BODY_BYTES
    for number, partition, token, attempts, _ in parts:
        job = jobs[number]
        if JobState(job.state).ended or job.key in suspended:
            continue
        if job.started is None:
            job.started = now
        job.state = JobState.RUNNING
        started_jobs[number] = job
        attempt = attempts + 1
        events.append(next_event(job, now, "started", partition=partition, attempt=attempt))
        rows.append((token + 1, attempt, worker, now, number, partition))
        body = tx.changes.bodies.get(number, b"")
        free_body_bytes -= len(body)
        leases.append(
            Lease(
                job=job.id,
                partition=partition,
                token=token + 1,
                attempt=attempt,
                key=job.key,
                client=job.client,
                payload=job.payload,
                priority=job.priority,
                deadline=seconds(job.deadline),
                partitions=job.partitions,
                body=body if free_body_bytes >= 0 else b"",
            )
        )
    tx.many(
        f"UPDATE part SET state = {PartState.RUNNING:d}, token = ?, attempts = ?, renewals = 0, "
        "stage = '', worker = ?, started = ? WHERE job = ? AND partition = ?",
        rows,
    )
    tx.many(
        f"UPDATE job SET state = {JobState.RUNNING:d}, started = ?, events = ? WHERE number = ?",
        [(job.started, job.events, job.number) for job in started_jobs.values()],
    )
    write_events(tx, events)
    return leases

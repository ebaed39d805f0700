"""End expired leases, jobs past their deadline, and cancelled jobs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from quod.errors import ServiceError
from quod.service.errors import LeaseLostError
from quod.service.queue.operations.end import end_job
from quod.service.queue.operations.forget import MAX_AT_ONCE
from quod.service.queue.operations.keys import blame
from quod.service.queue.operations.rows import UNENDED, PartState, find_job, read_jobs
from quod.service.queue.operations.rules import Rules
from quod.service.queue.operations.settle import give_up, lock_partition
from quod.service.queue.records import Job, JobState, Outcome
from quod.service.queue.transaction import Transaction

LOST = "WORKER_LOST"


@dataclass(frozen=True, order=True)
class Running:
    """A snapshot of a lease, equal to a later one unless the lease was renewed."""

    job: int
    partition: int
    token: int
    renewals: int


def running(tx: Transaction) -> list[Running]:
    """Return snapshots of all leases."""
    rows = tx.rows(
        f"SELECT job, partition, token, renewals FROM part WHERE state = {PartState.RUNNING:d}"
    )
    return [Running(*row) for row in rows]


def lose(tx: Transaction, rules: Rules, leases: Sequence[Running], *, blamed: bool = True) -> int:
    """End leases that were not renewed since their snapshots; return the number ended.

    blamed: count one loss against each proving key whose jobs lost leases.
    """
    job_by_key: dict[str, int] = {}
    lost_count = 0
    for lease in sorted(leases):
        try:
            part = lock_partition(tx, lease.job, lease.partition, lease.token)
        except LeaseLostError:
            continue
        [(renewals,)] = tx.rows(
            "SELECT renewals FROM part WHERE job = ? AND partition = ?",
            (lease.job, lease.partition),
        )
        if renewals != lease.renewals:
            continue
        lost_count += 1
        job_by_key.setdefault(part.job.key, part.job.number)
        give_up(tx, rules, part, Outcome.LOST, LOST, "the worker stopped responding")
    if blamed:
        for key, job in sorted(job_by_key.items()):
            blame(tx, rules, key, job)
    return lost_count


def expire(tx: Transaction, rules: Rules) -> int:
    """End at most MAX_AT_ONCE jobs whose deadline has passed; return the number found.

    Queued and running jobs end alike.
    """
    rows = tx.rows(
        f"SELECT number FROM job WHERE {UNENDED} AND deadline <= ? LIMIT ?",
        (rules.clock.wall(), MAX_AT_ONCE),
    )
    jobs = read_jobs(tx, (number for (number,) in rows), lock=True).values()
    for job in jobs:
        if not JobState(job.state).ended:
            end_job(
                tx, rules, job, JobState.EXPIRED, "DEADLINE_EXCEEDED", "the deadline has passed"
            )
    return len(jobs)


def cancel(
    tx: Transaction, rules: Rules, requests: Sequence[tuple[str, str | None]]
) -> list[Job | ServiceError]:
    """Cancel jobs for their clients; ended jobs stay unchanged."""
    outcomes: list[Job | ServiceError] = []
    for job_id, client in requests:
        try:
            job = find_job(tx, job_id, client, lock=True)
        except ServiceError as error:
            outcomes.append(error)
            continue
        if not JobState(job.state).ended:
            end_job(tx, rules, job, JobState.CANCELLED, "CANCELLED", "the client cancelled the job")
        outcomes.append(job.record())
    return outcomes


def live_payloads(tx: Transaction) -> set[str]:
    """Return the payloads of all unfinished jobs."""
    return {name for (name,) in tx.rows(f"SELECT payload FROM job WHERE {UNENDED}") if name}

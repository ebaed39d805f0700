"""Read-only queries for jobs and the queue."""

from __future__ import annotations

from collections import Counter

from quod.errors import ServiceError
from quod.service.errors import NotFoundError
from quod.service.queue.clock import seconds
from quod.service.queue.operations.rows import (
    COLUMNS,
    UNENDED,
    JobRow,
    PartState,
    event_of,
    find_job,
    identity_of,
)
from quod.service.queue.records import (
    Attempt,
    Event,
    Job,
    JobState,
    KeyStatus,
    Outcome,
    QueueStatus,
)
from quod.service.queue.transaction import Transaction


def find(tx: Transaction, client: str, idempotency_key: str) -> Job:
    """Return the job of an idempotency key; raises NotFoundError if there is none."""
    rows = tx.rows(
        f"SELECT {COLUMNS} FROM job WHERE identity = ?", (identity_of(client, idempotency_key),)
    )
    if not rows:
        raise NotFoundError("the client has no job with this idempotency key")
    return JobRow(*rows[0]).record()


def jobs(tx: Transaction, client: str | None, most: int, before: int | None) -> list[Job]:
    """Return the newest jobs, of one client or all, with numbers below `before` if given."""
    conditions, parameters = [], list[object]()
    for column, operator, value in (("client", "=", client), ("number", "<", before)):
        if value is not None:
            conditions.append(f"{column} {operator} ?")
            parameters.append(value)
    where_clause = f"WHERE {' AND '.join(conditions)} " if conditions else ""
    rows = tx.rows(
        f"SELECT {COLUMNS} FROM job {where_clause}ORDER BY number DESC LIMIT ?", [*parameters, most]
    )
    return [JobRow(*row).record() for row in rows]


def running(tx: Transaction, most: int) -> list[Job]:
    """Return the newest jobs with a running partition."""
    rows = tx.rows(
        f"SELECT {COLUMNS} FROM job WHERE number IN (SELECT job FROM part "
        f"WHERE state = {PartState.RUNNING:d}) ORDER BY number DESC LIMIT ?",
        (most,),
    )
    return [JobRow(*row).record() for row in rows]


def results(tx: Transaction, job_id: str, client: str | None) -> list[bytes]:
    """Return the partitions' results in order; raises ServiceError unless the job succeeded."""
    job = find_job(tx, job_id, client)
    state = JobState(job.state)
    if state is not JobState.SUCCEEDED:
        reason = f": {job.message}" if job.message else ""
        remedy = "" if state.ended else "; wait until it has ended"
        raise ServiceError(f"the job has no result: its state is {state}{reason}{remedy}")
    return _results(tx, job.number)


def outcome(tx: Transaction, job_id: str, client: str | None) -> tuple[Job, list[bytes]]:
    """Return a job, with its results if it has succeeded."""
    job = find_job(tx, job_id, client)
    succeeded = JobState(job.state) is JobState.SUCCEEDED
    return job.record(), _results(tx, job.number) if succeeded else []


def _results(tx: Transaction, job: int) -> list[bytes]:
    rows = tx.rows("SELECT result FROM part WHERE job = ? ORDER BY partition", (job,))
    return [bytes(result) for (result,) in rows]


def events(
    tx: Transaction, job_id: str, client: str | None, after: int, most: int
) -> tuple[Job, list[Event]]:
    """Return a job and its events from `after` + 1 on."""
    job = find_job(tx, job_id, client)
    rows = tx.rows(
        "SELECT number, at, kind, data FROM event WHERE job = ? AND number > ? AND number <= ? "
        "ORDER BY number LIMIT ?",
        (job.number, after, job.events, most),
    )
    return job.record(), [event_of(row) for row in rows]


def attempts(tx: Transaction, job_id: str) -> list[Attempt]:
    """Return all attempts at a job, ended or running, ordered by partition and token."""
    job = find_job(tx, job_id, None)
    ended_attempts = tx.rows(
        "SELECT partition, token, worker, started, ended, outcome, code, message FROM attempt "
        "WHERE job = ?",
        (job.number,),
    )
    current_attempts = tx.rows(
        "SELECT partition, token, worker, started, ended, state FROM part WHERE job = ? "
        f"AND state IN ({PartState.RUNNING:d}, {PartState.DONE:d})",
        (job.number,),
    )
    listed_attempts = [
        Attempt(part, token, worker, start / 1e6, end / 1e6, Outcome(outcome), code, message)
        for part, token, worker, start, end, outcome, code, message in ended_attempts
    ]
    for part, token, worker, start, end, state in current_attempts:
        outcome = Outcome.SUCCEEDED if state == PartState.DONE else None
        listed_attempts.append(
            Attempt(part, token, worker, start / 1e6, seconds(end), outcome, "", "")
        )
    return sorted(listed_attempts, key=lambda attempt: (attempt.partition, attempt.token))


def unfinished(tx: Transaction) -> dict[tuple[str, JobState], int]:
    """Return the number of unfinished jobs by key and state."""
    rows = tx.rows(f"SELECT key, state, count(*) FROM job WHERE {UNENDED} GROUP BY key, state")
    return {(key, JobState(state)): int(count) for key, state, count in rows}


def jobs_before(tx: Transaction, job_id: str) -> int:
    """Return the number of unfinished jobs that are ahead of a job in the queue."""
    job = find_job(tx, job_id, None)
    [(count,)] = tx.rows(
        f"SELECT count(*) FROM job WHERE {UNENDED} AND "
        "(priority > ? OR (priority = ? AND number < ?))",
        (job.priority, job.priority, job.number),
    )
    return int(count)


def keys(tx: Transaction) -> list[KeyStatus]:
    """Return keys that are suspended or with which workers died."""
    rows = tx.rows("SELECT key, suspended, reason, losses FROM proving_key ORDER BY key")
    return [
        KeyStatus(key, bool(suspended), reason, losses) for key, suspended, reason, losses in rows
    ]


def status(tx: Transaction, storage_full: bool) -> QueueStatus:
    """Return the counts for operators and metrics."""
    usage = [
        (client, int(jobs), int(payload_bytes), int(kept_count))
        for client, jobs, payload_bytes, kept_count in tx.rows(
            "SELECT client, sum(jobs), sum(payload_bytes), sum(kept) FROM usage "
            "GROUP BY client ORDER BY client"
        )
    ]
    queued = tx.rows(
        f"SELECT key, priority, count(*) FROM part WHERE state = {PartState.QUEUED:d} "
        "GROUP BY key, priority ORDER BY key, priority"
    )
    waiting_by_key, priorities = Counter[str](), Counter[int]()
    for key, priority, count in queued:
        waiting_by_key[key] += count
        priorities[priority] += count
    [(held_count,)] = tx.rows(f"SELECT count(*) FROM part WHERE state = {PartState.HELD:d}")
    [(running,)] = tx.rows(f"SELECT count(*) FROM part WHERE state = {PartState.RUNNING:d}")
    oldest = tx.rows(f"SELECT created FROM job WHERE {UNENDED} ORDER BY number LIMIT 1")
    return QueueStatus(
        jobs={client: jobs for client, jobs, _, _ in usage if jobs},
        payload_bytes={client: size for client, jobs, size, _ in usage if jobs},
        kept=sum(kept_count for *_, kept_count in usage),
        waiting=dict(waiting_by_key),
        priorities=dict(priorities),
        held=held_count,
        running=running,
        oldest=seconds(oldest[0][0]) if oldest else None,
        storage_full=storage_full,
    )

"""Reports of workers on the partitions they hold, refused once the lease is lost."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from quod.errors import ServiceError
from quod.service.errors import LeaseLostError
from quod.service.queue.operations.end import end_job
from quod.service.queue.operations.keys import blame, forgive
from quod.service.queue.operations.rows import (
    JobRow,
    PartState,
    next_event,
    number_of,
    read_jobs,
    write_events,
)
from quod.service.queue.operations.rules import Rules
from quod.service.queue.operations.submit import suspended_keys
from quod.service.queue.records import Job, JobState, Lease, Outcome
from quod.service.queue.signals import WORK
from quod.service.queue.transaction import Transaction


@dataclass(frozen=True)
class Report:
    """The end of an attempt.

    result: the result if it succeeded.
    code, message: the reason if it failed or was lost.
    retry: whether a failed attempt is repeated.
    """

    lease: Lease
    outcome: Outcome
    result: bytes = b""
    code: str = ""
    message: str = ""
    retry: bool = True


@dataclass(frozen=True)
class Renewal:
    """Leases to renew; `stage` is the stage they have reached, "" for no change.

    progress: the data of an event `progress` of each job, empty for none.
    """

    leases: tuple[Lease, ...]
    stage: str = ""
    progress: Mapping[str, str | int] = field(default_factory=dict)


@dataclass(frozen=True)
class LeasedPartition:
    """A partition that the worker still holds, and its job, both locked."""

    job: JobRow
    partition: int
    token: int
    attempts: int
    worker: str
    started: int
    stage: str


def lock_partition(tx: Transaction, number: int, partition: int, token: int) -> LeasedPartition:
    """Lock the partition and job of a lease; raises LeaseLostError if the lease is void."""
    rows = tx.rows(
        "SELECT state, token, attempts, worker, started, stage FROM part "
        f"WHERE job = ? AND partition = ?{tx.for_update}",
        (number, partition),
    )
    if not rows:
        raise LeaseLostError("the lease is lost: the job has ended and expired")
    state, current_token, attempts, worker, started, stage = rows[0]
    [job] = read_jobs(tx, [number], lock=True).values()
    if state != PartState.RUNNING or current_token != token:
        if JobState(job.state).ended:
            raise LeaseLostError(f"the lease is lost: the job has ended ({JobState(job.state)})")
        raise LeaseLostError("the lease is lost: it was not renewed in time, or was released")
    return LeasedPartition(job, partition, token, attempts, worker, started, stage)


def settle(tx: Transaction, rules: Rules, reports: Sequence[Report]) -> list[Job | ServiceError]:
    """Record the end of attempts; return for each the updated job or the error."""

    def settle_report(report: Report) -> Job:
        lease = report.lease
        part = lock_partition(tx, number_of(lease.job)[0], lease.partition, lease.token)
        if report.outcome is Outcome.SUCCEEDED:
            _succeed(tx, rules, part, report.result)
        else:
            if report.outcome is Outcome.LOST:
                blame(tx, rules, part.job.key, part.job.number)
                # `blame` may have suspended the key, which added an event to this job.
                part = lock_partition(tx, part.job.number, part.partition, part.token)
            give_up(tx, rules, part, report.outcome, report.code, report.message, report.retry)
        return part.job.record()

    return [_outcome_of(settle_report, report) for report in reports]


def _outcome_of(work: Callable[[Report], Job], report: Report) -> Job | ServiceError:
    try:
        return work(report)
    except ServiceError as error:
        return error


def _succeed(tx: Transaction, rules: Rules, part: LeasedPartition, result: bytes) -> None:
    """Store a result and its event, and end the job with its last partition."""
    job, now = part.job, rules.clock.wall()
    tx.run(
        f"UPDATE part SET state = {PartState.DONE:d}, result = ?, ended = ? "
        "WHERE job = ? AND partition = ?",
        (result, now, job.number, part.partition),
    )
    job.remaining -= 1
    forgive(tx, job.key)
    if job.remaining == 0:
        results = [result] if job.partitions == 1 else None
        end_job(tx, rules, job, JobState.SUCCEEDED, results=results)
        return
    event = next_event(job, now, "partition", partition=part.partition, remaining=job.remaining)
    tx.run(
        "UPDATE job SET remaining = ?, events = ? WHERE number = ?",
        (job.remaining, job.events, job.number),
    )
    write_events(tx, [event])


def give_up(
    tx: Transaction, rules: Rules, part: LeasedPartition, outcome: Outcome, code: str, message: str,
    retry: bool = True,
) -> None:  # fmt: skip
    """Record an attempt without result: requeue the partition, or fail its job."""
    job, now, is_released = part.job, rules.clock.wall(), outcome is Outcome.RELEASED
    tx.run(
        "INSERT INTO attempt (job, partition, token, worker, started, ended, outcome, code, "
        "message) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (job.number, part.partition, part.token, part.worker, part.started, now, int(outcome),
         code, message),
    )  # fmt: skip
    # A released attempt does not count.
    attempts = part.attempts - is_released
    is_retried = retry and attempts < rules.limits.max_attempts
    state = PartState.DROPPED
    if is_retried:
        state = PartState.HELD if job.key in suspended_keys(tx) else PartState.QUEUED
    tx.run(
        "UPDATE part SET state = ?, attempts = ? WHERE job = ? AND partition = ?",
        (int(state), attempts, job.number, part.partition),
    )
    if not is_retried:
        end_job(tx, rules, job, JobState.FAILED, code, message)
        return
    if not is_released:
        tx.changes.note(
            logging.WARNING, "an attempt has failed and is retried", job=job.id, key=job.key,
            partition=part.partition, attempt=attempts, worker=part.worker, outcome=str(outcome),
            code=code,
        )  # fmt: skip
    fields: dict[str, str | int] = {} if is_released else {"attempt": attempts, "code": code}
    kind = "released" if is_released else "retrying"
    event = next_event(job, now, kind, partition=part.partition, **fields)
    tx.run("UPDATE job SET events = ? WHERE number = ?", (job.events, job.number))
    write_events(tx, [event])
    tx.changes.topics.add(WORK)


def renew(
    tx: Transaction, rules: Rules, renewals: Sequence[Renewal]
) -> list[list[LeaseLostError | None]]:
    """Renew leases; return for each None or its error."""

    def renew_lease(lease: Lease, renewal: Renewal) -> LeaseLostError | None:
        number, _ = number_of(lease.job)
        renewed = tx.run(
            "UPDATE part SET renewals = renewals + 1 WHERE job = ? AND partition = ? "
            f"AND token = ? AND state = {PartState.RUNNING:d}",
            (number, lease.partition, lease.token),
        )
        if renewed and not renewal.stage and not renewal.progress:
            return None
        # If the lease was not renewed, locking it raises the reason.
        try:
            part = lock_partition(tx, number, lease.partition, lease.token)
            _record_stage(tx, rules, part, renewal.stage)
            _record_progress(tx, rules, part, renewal.progress)
        except LeaseLostError as error:
            return error
        return None

    return [[renew_lease(lease, renewal) for lease in renewal.leases] for renewal in renewals]


def _record_stage(tx: Transaction, rules: Rules, part: LeasedPartition, stage: str) -> None:
    job = part.job
    if stage in ("", part.stage) or job.stages >= rules.limits.stage_events:
        return
    event = next_event(job, rules.clock.wall(), "stage", partition=part.partition, stage=stage)
    job.stages += 1
    tx.run(
        "UPDATE part SET stage = ? WHERE job = ? AND partition = ?",
        (stage, job.number, part.partition),
    )
    tx.run(
        "UPDATE job SET events = ?, stages = ? WHERE number = ?",
        (job.events, job.stages, job.number),
    )
    write_events(tx, [event])


def _record_progress(
    tx: Transaction, rules: Rules, part: LeasedPartition, progress: Mapping[str, str | int]
) -> None:
    if progress:
        event = next_event(part.job, rules.clock.wall(), "progress", **progress)
        tx.run("UPDATE job SET events = ? WHERE number = ?", (part.job.events, part.job.number))
        write_events(tx, [event])

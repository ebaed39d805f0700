"""Ending a job in a final state: its row and event are written, and its payload is deleted."""

from __future__ import annotations

import logging

from quod.service.queue.clock import MICROSECONDS
from quod.service.queue.operations.rows import JobRow, PartState, count, next_event, write_events
from quod.service.queue.operations.rules import Rules
from quod.service.queue.records import JobState, Outcome
from quod.service.queue.signals import end_of
from quod.service.queue.transaction import Transaction


def end_job(
    tx: Transaction, rules: Rules, job: JobRow, state: JobState, code: str = "", message: str = "",
    results: list[bytes] | None = None,
) -> None:  # fmt: skip
    """End a job whose row is locked; this voids the leases of its partitions.

    results: all results of the job, if at hand; subscribers to its end receive them.
    """
    now = rules.clock.wall()
    if state is not JobState.SUCCEEDED:
        tx.run(
            "INSERT INTO attempt (job, partition, token, worker, started, ended, outcome, code, "
            "message) SELECT job, partition, token, worker, started, ?, ?, '', '' FROM part "
            f"WHERE job = ? AND state = {PartState.RUNNING:d}",
            (now, int(Outcome.ENDED), job.number),
        )
        tx.run(
            f"UPDATE part SET state = {PartState.DROPPED:d} WHERE job = ? "
            f"AND state <> {PartState.DONE:d}",
            (job.number,),
        )
    reason = {"code": code, "message": message} if code else {}
    event = next_event(job, now, "ended", state=str(state), **reason)
    job.state, job.ended, job.code, job.message = state, now, code, message
    keep_until = rules.clock.stamp() + int(rules.limits.keep_seconds * MICROSECONDS)
    tx.run(
        "UPDATE job SET state = ?, ended = ?, keep_until = ?, code = ?, message = ?, events = ?, "
        "remaining = ? WHERE number = ?",
        (int(state), now, keep_until, code, message, job.events, job.remaining, job.number),
    )
    write_events(tx, [event])
    is_failure = state in (JobState.FAILED, JobState.EXPIRED)
    tx.changes.note(
        logging.WARNING if is_failure else logging.INFO, "a job has ended",
        job=job.id, client=job.client,
        key=job.key, state=str(state), code=code, seconds=(now - job.created) / MICROSECONDS,
    )  # fmt: skip
    topic = end_of(job.number)
    tx.changes.topics.add(topic)
    if state is not JobState.SUCCEEDED or results is not None:
        tx.changes.news[topic] = job.record(), results or []
    count(tx, job.client, -1, -job.payload_bytes, 0)
    if job.payload:
        tx.changes.garbage.append(job.payload)

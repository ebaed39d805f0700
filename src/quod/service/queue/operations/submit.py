"""Submission of jobs: idempotent, within quotas, on disk before they are acknowledged."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass

from quod.errors import ServiceError
from quod.service.errors import (
    AlreadyExistsError,
    DeadlinePassedError,
    KeySuspendedError,
    QueueFullError,
    StorageFullError,
)
from quod.service.queue.blob_store import RETRY_SECONDS_OF_A_FULL_DISK
from quod.service.queue.clock import MICROSECONDS
from quod.service.queue.operations.forget import MAX_AT_ONCE, make_room
from quod.service.queue.operations.payloads import payload_of
from quod.service.queue.operations.rows import (
    COLUMNS,
    JobRow,
    PartState,
    count,
    identity_of,
    next_event,
    write_events,
)
from quod.service.queue.operations.rules import Rules
from quod.service.queue.records import Job, JobState, Submission
from quod.service.queue.signals import WORK
from quod.service.queue.transaction import Transaction, in_chunks, placeholders

Outcome = Job | ServiceError


@dataclass(frozen=True)
class SizedSubmission:
    """A submission with the bytes of its payload."""

    submission: Submission
    payload_bytes: int

    @property
    def identity(self) -> str | None:
        return identity_of(self.submission.client, self.submission.idempotency_key)


def submit(
    tx: Transaction, rules: Rules, groups: Sequence[Sequence[SizedSubmission]]
) -> list[list[Outcome]]:
    """Submit the jobs of several callers; return the outcome of each.

    A repeated request is answered with its job before any limit is checked, even if the queue is
    full or the deadline has passed. Payloads of refused jobs are deleted.
    """
    sized_submissions = [sized for group in groups for sized in group]
    rules.blob_store.sync()
    tx.serialise({sized.submission.client for sized in sized_submissions})
    jobs_by_identity = _read_jobs(
        tx, {sized.identity for sized in sized_submissions if sized.identity is not None}
    )
    admission = _AdmissionControl(tx, rules)
    jobs_or_errors: list[JobRow | ServiceError] = []
    for sized in sized_submissions:
        job = jobs_by_identity.get(sized.identity) if sized.identity is not None else None
        try:
            if job is None:
                job = admission.take(sized)
                if sized.identity is not None:
                    jobs_by_identity[sized.identity] = job
            elif bytes(job.digest) != sized.submission.digest:
                raise AlreadyExistsError(
                    "this client used the idempotency key for another request; use a new key"
                )
            jobs_or_errors.append(job)
        except ServiceError as error:
            jobs_or_errors.append(error)
    admitted = admission.admitted
    if admitted:
        admission.make_room()
        _write(tx, admitted)
    kept_payloads = {job.payload for job in admitted}
    for name in (
        sized.submission.payload for sized in sized_submissions if sized.submission.payload
    ):
        (tx.changes.kept if name in kept_payloads else tx.changes.garbage).append(name)
    outcomes = iter(
        [
            job_or_error if isinstance(job_or_error, ServiceError) else job_or_error.record()
            for job_or_error in jobs_or_errors
        ]
    )
    return [[next(outcomes) for _ in group] for group in groups]


def _read_jobs(tx: Transaction, identities: set[str]) -> dict[str, JobRow]:
    """Return the existing jobs by identity."""
    jobs_by_identity = {}
    for chunk in in_chunks(sorted(identities)):
        # The index is partial (NOT NULL), which Postgres cannot infer from a long list of values.
        rows = tx.rows(
            f"SELECT {COLUMNS} FROM job WHERE identity IS NOT NULL "
            f"AND identity IN {placeholders(chunk)}",
            chunk,
        )
        jobs_by_identity.update({row[3]: JobRow(*row) for row in rows})
    return jobs_by_identity


class _AdmissionControl:
    """Admission control of one transaction, which reads each table at most once."""

    def __init__(self, tx: Transaction, rules: Rules) -> None:
        self.admitted: list[JobRow] = []
        self._tx, self._rules, self._limits = tx, rules, rules.limits
        self._now = rules.clock.wall()
        # By client, and in total: unfinished jobs, bytes of their payloads, and kept jobs.
        self._used: dict[str, list[int]] = {}
        self._total = [0, 0, 0]
        self._suspended: set[str] | None = None

    def take(self, sized: SizedSubmission) -> JobRow:
        """Return the row of an admitted job, not written yet; raises the reason for refusal."""
        submission = sized.submission
        if self._suspended is None:
            self._read()
        deadline = None if submission.deadline is None else int(submission.deadline * MICROSECONDS)
        if deadline is not None and deadline <= self._now:
            raise DeadlinePassedError("the deadline of the job is in the past")
        if self._suspended and submission.key in self._suspended:
            raise KeySuspendedError(
                f"the key {submission.key} is suspended because workers died while "
                "proving with it; ask the operator"
            )
        if self._rules.storage_full():
            raise StorageFullError(
                "the disk of the queue is nearly full: no new jobs are accepted; retry later",
                retry_seconds=RETRY_SECONDS_OF_A_FULL_DISK,
            )
        used = self._used.setdefault(submission.client, [0, 0, 0])
        self._check_quota(submission.client, used, sized.payload_bytes)
        for counts in (used, self._total):
            for index, increment in enumerate((1, sized.payload_bytes, 1)):
                counts[index] += increment
        job = JobRow(
            number=0,
            nonce=secrets.token_hex(8),
            client=submission.client,
            identity=sized.identity,
            digest=submission.digest,
            key=submission.key,
            priority=submission.priority,
            deadline=deadline,
            partitions=submission.partitions,
            remaining=submission.partitions,
            payload=submission.payload,
            payload_bytes=sized.payload_bytes,
            state=JobState.QUEUED,
            created=self._now,
            started=None,
            ended=None,
            code="",
            message="",
            events=0,
            stages=0,
            body=submission.body,
        )
        self.admitted.append(job)
        return job

    def _read(self) -> None:
        self._suspended = suspended_keys(self._tx)
        for client, *used in self._tx.rows(
            "SELECT client, sum(jobs), sum(payload_bytes), sum(kept) FROM usage GROUP BY client"
        ):
            self._used[client] = [int(usage) for usage in used]
        self._total = [sum(used) for used in zip(*self._used.values())] or [0, 0, 0]

    def _check_quota(self, client: str, used: Sequence[int], payload_bytes: int) -> None:
        """Raise `QueueFullError` unless the client's quota and the queue's limits have room.

        A client that has jobs already gets another one only if it then uses no more jobs and bytes
        than remain free. So one client uses at most half of a limit, and the first job of any other
        client finds room. Ended jobs never keep a new job out.
        """
        limits, quota = self._limits, self._limits.quota_of(client)
        for index, unit, amount, quota_limit, limit in (
            (0, "jobs", 1, quota.jobs, min(limits.jobs, limits.kept_jobs)),
            (1, "bytes", payload_bytes, quota.payload_bytes, limits.payload_bytes),
        ):
            client_total, total = used[index], self._total[index]
            shortfall = client_total + amount - quota_limit
            if shortfall > 0:
                raise self._queue_full_error(
                    f"the client's quota of {unit} is {quota_limit}, and {client_total} are in use",
                    used, index, shortfall, client,
                )  # fmt: skip
            shortfall = total + amount - limit
            if shortfall > 0:
                raise self._queue_full_error(
                    f"the queue's limit of {unit} is {limit}, and {total} are in use",
                    self._total, index, shortfall,
                )  # fmt: skip
            shortfall = client_total + amount - (limit - total)
            if client_total and shortfall > 0:
                raise self._queue_full_error(
                    f"the queue's limit of {unit} is {limit}, and {limit - total} are "
                    f"free: the client has {client_total}, and may submit more once it "
                    "has fewer than are free",
                    self._total, index, shortfall,
                )  # fmt: skip

    def _queue_full_error(
        self,
        message: str,
        used: Sequence[int],
        index: int,
        shortfall: int,
        client: str | None = None,
    ) -> QueueFullError:
        """Return the error, with the seconds until enough jobs have ended to free `shortfall`."""
        jobs = -(-shortfall * used[0] // max(used[index], 1))
        wait = self._rules.retry_seconds(self._tx, max(jobs, used[0] // 10), client)
        return QueueFullError(message, retry_seconds=wait)

    def make_room(self) -> None:
        """Forget ended jobs where more would be kept than the limit says."""
        excess = min(self._total[2] - self._limits.kept_jobs, max(len(self.admitted), MAX_AT_ONCE))
        if excess > 0:
            kept_and_ended = {
                client: (kept, kept - unfinished)
                for client, (unfinished, _, kept) in self._used.items()
            }
            make_room(self._tx, kept_and_ended, excess)


def suspended_keys(tx: Transaction) -> set[str]:
    """Return the suspended keys."""
    return {key for (key,) in tx.rows("SELECT key FROM proving_key WHERE suspended = 1")}


def _write(tx: Transaction, jobs: Sequence[JobRow]) -> None:
    used: dict[str, list[int]] = {}
    for job, number in zip(jobs, tx.numbers(len(jobs)), strict=True):
        job.number = number
        usage = used.setdefault(job.client, [0, 0])
        usage[0] += 1
        usage[1] += job.payload_bytes
        if job.body:
            job.payload = payload_of(job.number)
            tx.changes.bodies[job.number] = job.body
    events = [next_event(job, job.created, "queued") for job in jobs]
    tx.many(
        f"INSERT INTO job ({COLUMNS}) VALUES {placeholders(COLUMNS.split(','))}",
        [
            (
                job.number, job.nonce, job.client, job.identity, job.digest, job.key,
                job.priority, job.deadline, job.partitions, job.remaining, job.payload,
                job.payload_bytes, int(job.state), job.created, None, None, "", "", job.events, 0,
            )
            for job in jobs
        ],
    )  # fmt: skip
    tx.many(
        "INSERT INTO part (job, partition, key, priority, state, token, attempts, renewals, stage, "
        f"worker) VALUES (?, ?, ?, ?, {PartState.QUEUED:d}, 0, 0, 0, '', '')",
        [
            (job.number, partition, job.key, job.priority)
            for job in jobs
            for partition in range(job.partitions)
        ],
    )
    tx.many(
        "INSERT INTO payload (job, body) VALUES (?, ?)",
        [(job.number, job.body) for job in jobs if job.body],
    )
    write_events(tx, events)
    for client, (job_count, payload_bytes) in used.items():
        count(tx, client, job_count, payload_bytes, job_count)
    tx.changes.topics.add(WORK)

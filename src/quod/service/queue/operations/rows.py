"""The rows of jobs: columns, client-visible ids and events."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import IntEnum

from quod.service.errors import NotFoundError
from quod.service.queue.clock import seconds
from quod.service.queue.records import Event, Job, JobState
from quod.service.queue.transaction import Row, Transaction, in_chunks, placeholders

_ID = re.compile(r"([1-9][0-9]{0,17})-([0-9a-f]{16})")

_SEPARATOR = "\n"  # not in any name: names are printable


UNENDED = f"state < {JobState.SUCCEEDED:d}"
"""The SQL condition of jobs that have not ended; the partial indexes of `schema` state it, too."""


class PartState(IntEnum):
    """The state of a partition."""

    QUEUED = 0
    HELD = 1
    """Its key is suspended."""
    RUNNING = 2
    DONE = 3
    DROPPED = 4
    """Its job ended before it was done."""


@dataclass
class JobRow:
    """The columns of a job's row that operations change and records show."""

    number: int
    nonce: str
    client: str
    identity: str | None
    digest: bytes
    key: str
    priority: int
    deadline: int | None
    partitions: int
    remaining: int
    payload: str
    payload_bytes: int
    state: int
    created: int
    started: int | None
    ended: int | None
    code: str
    message: str
    events: int
    stages: int
    body: bytes = field(default=b"", repr=False)
    """A payload to store as a row; not a column."""

    @property
    def id(self) -> str:
        return f"{self.number}-{self.nonce}"

    def record(self) -> Job:
        return Job(
            id=self.id,
            client=self.client,
            key=self.key,
            digest=bytes(self.digest),
            idempotency_key=(self.identity or "").partition(_SEPARATOR)[2],
            priority=self.priority,
            deadline=seconds(self.deadline),
            partitions=self.partitions,
            remaining=self.remaining,
            payload_bytes=self.payload_bytes,
            state=JobState(self.state),
            created=self.created / 1e6,
            started=seconds(self.started),
            ended=seconds(self.ended),
            code=self.code,
            message=self.message,
            last_event=self.events,
        )


COLUMNS = (
    "number, nonce, client, identity, digest, key, priority, deadline, partitions, "
    "remaining, payload, payload_bytes, state, created, started, ended, code, message, events, "
    "stages"
)

EventRow = tuple[int, int, int, str, str]


def identity_of(client: str, idempotency_key: str) -> str | None:
    """Return the unique identity of a request; None without an idempotency key."""
    return f"{client}{_SEPARATOR}{idempotency_key}" if idempotency_key else None


def number_of(job_id: object) -> tuple[int, str]:
    """Parse a job id into number and nonce; raises NotFoundError if it is malformed."""
    match = _ID.fullmatch(job_id) if isinstance(job_id, str) else None
    if match is None:
        raise NotFoundError("no such job: the id is not from this queue")
    return int(match[1]), match[2]


def read_jobs(tx: Transaction, numbers: Iterable[int], *, lock: bool = False) -> dict[int, JobRow]:
    """Return existing rows by number."""
    suffix = tx.for_update if lock else ""
    jobs_by_number: dict[int, JobRow] = {}
    for chunk in in_chunks(sorted(set(numbers))):
        rows = tx.rows(
            f"SELECT {COLUMNS} FROM job WHERE number IN {placeholders(chunk)} "
            f"ORDER BY number{suffix}",
            chunk,
        )
        jobs_by_number.update((row[0], JobRow(*row)) for row in rows)
    return jobs_by_number


def find_job(tx: Transaction, job_id: object, client: str | None, *, lock: bool = False) -> JobRow:
    """Return the row of a job id; raises NotFoundError if it is missing or another client's."""
    number, nonce = number_of(job_id)
    job = read_jobs(tx, [number], lock=lock).get(number)
    if job is None or job.nonce != nonce or (client is not None and job.client != client):
        raise NotFoundError(f"there is no job {job_id}: not found, expired, or not yours")
    return job


def next_event(job: JobRow, at: int, kind: str, **data: str | int) -> EventRow:
    """Create a row of `event` and advance `job.events`, which the caller writes."""
    job.events += 1
    return job.number, job.events, at, kind, json.dumps(data, ensure_ascii=False)


def write_events(tx: Transaction, events: Sequence[EventRow]) -> None:
    """Insert rows of `event`, and notify subscribers of their jobs."""
    tx.many("INSERT INTO event (job, number, at, kind, data) VALUES (?, ?, ?, ?, ?)", events)
    tx.changes.topics.update(event[0] for event in events)


def event_of(row: Row) -> Event:
    """Convert a row of number, at, kind and data."""
    number, at, kind, data = row
    return Event(number, at / 1e6, kind, json.loads(data))


def count(tx: Transaction, client: str, jobs: int, payload_bytes: int, kept: int) -> None:
    """Add to the usage counters of a client."""
    tx.run(
        "INSERT INTO usage (client, stripe, jobs, payload_bytes, kept) VALUES (?, ?, ?, ?, ?) "
        "ON CONFLICT (client, stripe) DO UPDATE SET jobs = usage.jobs + excluded.jobs, "
        "payload_bytes = usage.payload_bytes + excluded.payload_bytes, "
        "kept = usage.kept + excluded.kept",
        (client, tx.stripe, jobs, payload_bytes, kept),
    )

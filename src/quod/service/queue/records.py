"""What the queue is given and what it tells: plain records, without behaviour.

Times are seconds since 1970 by the wall clock. Names (of clients, keys, workers) are printable text
of at most 128 characters.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Annotated

from quod.errors import InputError
from quod.frozen import frozen
from quod.service.encoding import Wire
from quod.service.queue.validation import checked_name, checked_time
from quod.validation import exact_bytes, shown_kind, whole_number

MOST_PARTITIONS = 1024
HIGHEST_PRIORITY = 9

_DIGEST_BYTES = 32


class _Word(IntEnum):
    """A number in the database, and a word in lower case everywhere else."""

    def __str__(self) -> str:
        return self.name.lower()

    def __format__(self, spec: str) -> str:
        return format(int(self) if spec.endswith("d") else str(self), spec)


class JobState(_Word):
    """Where a job is; from SUCCEEDED on it stays there."""

    QUEUED = 0
    RUNNING = 1
    """A worker has begun with one of its partitions."""
    SUCCEEDED = 2
    FAILED = 3
    CANCELLED = 4
    EXPIRED = 5
    """Its deadline came before its result."""

    @property
    def ended(self) -> bool:
        return self >= JobState.SUCCEEDED


class Outcome(_Word):
    """How an attempt at a partition ended."""

    SUCCEEDED = 0
    FAILED = 1
    LOST = 2
    """The worker died, or was not heard of for as long as a lease lasts."""
    RELEASED = 3
    """The worker gave it back; this does not count as an attempt."""
    ENDED = 4
    """The job ended meanwhile: cancelled, expired, or failed in another partition."""


@dataclass(frozen=True)
class Submission:
    """A job that a client wants.

    `digest` is the SHA-256 of the request, `payload` what `Spool.write` gave for the witness, or ""
    for none; in its place `body` is the payload itself, of up to `JobQueue.most_body` bytes. A
    second submission of the client with the same `idempotency_key` is the same job if the digest is
    the same, else `AlreadyExistsError`; "" is no key. Higher priorities (0 to 9) come first.
    `deadline` is absolute, in seconds since 1970.
    """

    client: str
    key: str
    digest: bytes
    payload: str = ""
    idempotency_key: str = ""
    priority: int = 0
    deadline: float | None = None
    partitions: int = 1
    body: bytes = field(default=b"", repr=False)

    def __post_init__(self) -> None:
        checked_name("the client", self.client)
        checked_name("the key", self.key)
        checked_name("the idempotency key", self.idempotency_key, empty=True)
        payload: object = self.payload
        if not isinstance(payload, str):
            # It may be the witness itself, of which no error says anything.
            kind = shown_kind(payload)
            raise InputError(f"the payload must be what spool.write gives for it, not {kind}")
        checked_name("the payload", self.payload, empty=True)
        exact_bytes("the body", self.body)
        if self.payload and self.body:
            raise InputError("a submission has a payload of the spool or a body, not both")
        exact_bytes("the digest", self.digest, _DIGEST_BYTES)
        priority = whole_number("the priority", self.priority, 0, HIGHEST_PRIORITY)
        partitions = whole_number("the partitions", self.partitions, 1, MOST_PARTITIONS)
        self.__dict__.update(priority=priority, partitions=partitions)
        checked_time("the deadline", self.deadline)


@frozen
class JobRecord:
    """A job at a moment, as its client sees it.

    `id` is text that the client keeps. `remaining` partitions are not done yet. `code` and
    `message` say why it failed, was cancelled or expired. `started` is when a worker first began,
    None if none has: a cancelled job with it was running. `last_event` is the number of its newest
    event.
    """

    id: str
    client: str
    key: str
    state: JobState
    priority: int
    partitions: int
    remaining: int
    created: float
    started: float | None
    ended: float | None
    deadline: float | None
    idempotency_key: str
    code: str
    message: str
    last_event: int


@frozen
class Job(JobRecord):
    """A job of the queue; `digest` and `payload_bytes` are those of its request."""

    digest: Annotated[bytes, Wire(answer=None)]
    payload_bytes: Annotated[int, Wire(answer="bytes")]


@dataclass(frozen=True)
class Lease:
    """The right of one worker to prove one partition, until it is not renewed any more.

    `token` rises with every lease of the partition: what is done under an older one is refused.
    `attempt` counts from 1. `payload` names what `JobQueue.open_payload` reads; where that is at
    hand, as it came with the job a moment ago, `body` is it.
    """

    job: str
    partition: int
    token: int
    attempt: int
    key: str
    client: str
    payload: str
    priority: int
    deadline: float | None
    partitions: int
    body: Annotated[bytes, Wire(in_frames=False)] = field(default=b"", repr=False, compare=False)


@dataclass(frozen=True)
class Event:
    """Something that happened to a job; `number` counts from 1, without gaps, for each job.

    `kind` is "queued", "started", "stage", "partition" (one is done), "retrying", "released",
    "held", "resumed" or "ended".
    """

    number: int
    at: float
    kind: str
    data: Mapping[str, str | int]


@dataclass(frozen=True)
class Attempt:
    """One attempt at a partition, as operators look at it; `outcome` is None while it runs."""

    partition: int
    token: Annotated[int, Wire(answer=None)]
    worker: str
    started: float
    ended: float | None
    outcome: Outcome | None
    code: str
    message: str


@dataclass(frozen=True)
class KeyStatus:
    """A key of which workers have died: how many jobs in a row, and whether it is suspended."""

    key: str
    suspended: bool
    reason: str
    losses: int


@dataclass(frozen=True)
class QueueStatus:
    """The queue at a moment.

    `jobs` and `payload_bytes` are by client, of jobs that have not ended; `waiting` and `running`
    count partitions, `waiting` by key and the same, `priorities`, by priority; those of suspended
    keys are `held`. `oldest` is when the oldest job that has not ended was created. `kept` counts
    all jobs, with ended ones.
    """

    jobs: Annotated[Mapping[str, int], Wire(answer=None)]
    payload_bytes: Annotated[Mapping[str, int], Wire(answer=None)]
    kept: int
    waiting: Mapping[str, int]
    priorities: Mapping[int, int]
    held: int
    running: int
    oldest: float | None
    storage_full: bool

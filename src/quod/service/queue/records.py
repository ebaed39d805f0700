"""Records of the queue's interface: plain data without behaviour.

Times are wall-clock seconds since 1970. Names (of clients, keys, workers) are printable text of at
most 128 characters.
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

MAX_PARTITIONS = 1024
HIGHEST_PRIORITY = 9

_DIGEST_BYTES = 32


class _Word(IntEnum):
    """An enumeration stored as a number in the database and shown as a lower-case word."""

    def __str__(self) -> str:
        return self.name.lower()

    def __format__(self, spec: str) -> str:
        return format(int(self) if spec.endswith("d") else str(self), spec)


class JobState(_Word):
    """The state of a job; states from SUCCEEDED on are final."""

    QUEUED = 0
    RUNNING = 1
    """A worker has started one of its partitions."""
    SUCCEEDED = 2
    FAILED = 3
    CANCELLED = 4
    EXPIRED = 5
    """Its deadline passed before it succeeded."""

    @property
    def ended(self) -> bool:
        return self >= JobState.SUCCEEDED


class Outcome(_Word):
    """The outcome of an attempt at a partition."""

    SUCCEEDED = 0
    FAILED = 1
    LOST = 2
    """The worker died, or its lease expired."""
    RELEASED = 3
    """The worker released the partition; this does not count as an attempt."""
    ENDED = 4
    """The job ended meanwhile: cancelled, expired, or failed in another partition."""


@dataclass(frozen=True)
class Submission:
    """A job that a client submits.

    digest: the SHA-256 of the request.
    payload: the name that `BlobStore.write` returned for the payload, or "".
    idempotency_key: a second submission of the client with this key is the same job if the digest
        matches, else AlreadyExistsError; "" for no key.
    priority: 0 to 9, highest first.
    deadline: seconds since 1970.
    body: the payload itself in place of `payload`, up to `JobQueue.max_body` bytes.
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
            # It may be the witness itself, which no error may show.
            kind = shown_kind(payload)
            raise InputError(f"the payload must be the result of blob_store.write, not {kind}")
        checked_name("the payload", self.payload, empty=True)
        exact_bytes("the body", self.body)
        if self.payload and self.body:
            raise InputError(
                "a submission must have a payload in the blob store or a body, not both"
            )
        exact_bytes("the digest", self.digest, _DIGEST_BYTES)
        priority = whole_number("the priority", self.priority, 0, HIGHEST_PRIORITY)
        partitions = whole_number("the partitions", self.partitions, 1, MAX_PARTITIONS)
        self.__dict__.update(priority=priority, partitions=partitions)
        checked_time("the deadline", self.deadline)


@frozen
class JobRecord:
    """A snapshot of a job, as its client sees it.

    id: the identifier by which the client refers to the job.
    remaining: the number of unfinished partitions.
    started: when a worker first began, or None; kept if the job is cancelled.
    code, message: the reason if it failed, was cancelled or expired.
    last_event: the number of its newest event.
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
    """A job of the queue; `digest` and `payload_bytes` describe its request."""

    digest: Annotated[bytes, Wire(answer=None)]
    payload_bytes: Annotated[int, Wire(answer="bytes")]


@dataclass(frozen=True)
class Lease:
    """The exclusive right of a worker to prove one partition while it renews the lease.

    token: increases with every lease of the partition; calls with an older token are refused.
    attempt: counts from 1.
    payload: the name that `JobQueue.open_payload` reads.
    body: the payload itself if at hand, as after a submission in the same transaction; or empty.
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
    """An event of a job; `number` counts from 1 without gaps.

    kind: "queued", "started", "stage", "partition" (one is done), "retrying", "released", "held",
        "resumed" or "ended".
    """

    number: int
    at: float
    kind: str
    data: Mapping[str, str | int]


@dataclass(frozen=True)
class Attempt:
    """An attempt at a partition, for operators; `outcome` is None while it runs."""

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
    """A suspended key, or one with which workers died.

    losses: the number of jobs in a row with which workers died.
    """

    key: str
    suspended: bool
    reason: str
    losses: int


@dataclass(frozen=True)
class QueueStatus:
    """A snapshot of the queue.

    jobs, payload_bytes: unfinished jobs and the bytes of their payloads, by client.
    kept: all jobs, including ended ones.
    waiting: waiting partitions by key.
    priorities: waiting partitions by priority.
    held: waiting partitions of suspended keys.
    running: running partitions.
    oldest: the submission time of the oldest unfinished job.
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

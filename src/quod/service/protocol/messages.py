"""Records of the queue as messages of the protocol, and what both ends do with times."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from quod.errors import InputError
from quod.service.protocol import quod_pb2 as pb
from quod.service.queue.records import Event, Job, JobState
from quod.service.refusals import Refusal

_NANOSECONDS: Final = 1_000_000_000

STATES: Final[Mapping[JobState, int]] = {state: int(state) + 1 for state in JobState}
"""The states of the queue as those of the protocol, where 0 is none."""


def timestamp(seconds: float | None) -> Timestamp | None:
    """Seconds since 1970 to the microsecond, which a float has of them."""
    if seconds is None:
        return None
    whole, rest = divmod(round(seconds * 1e6), 1_000_000)
    return Timestamp(seconds=whole, nanos=rest * 1000)


def seconds_of(message: Timestamp | Duration) -> float:
    """The seconds of a time or a duration; `InputError` for one that is none."""
    if not 0 <= message.nanos < _NANOSECONDS or not 0 <= message.seconds < 1 << 40:
        raise InputError("a time or duration must be from 0 on, with nanos below 10^9")
    return message.seconds + message.nanos / _NANOSECONDS


def duration(seconds: float | None) -> Duration | None:
    """A duration, to the microsecond."""
    found = timestamp(seconds)
    return None if found is None else Duration(seconds=found.seconds, nanos=found.nanos)


def job_message(job: Job, results: Sequence[str] = ()) -> pb.Job:
    """A job, with the results of its partitions."""
    return pb.Job(
        id=job.id,
        client=job.client,
        key=job.key,
        state=pb.JobState.Name(STATES[job.state]),
        priority=job.priority,
        partitions=job.partitions,
        remaining=job.remaining,
        created=timestamp(job.created),
        started=timestamp(job.started),
        ended=timestamp(job.ended),
        deadline=timestamp(job.deadline),
        idempotency_key=job.idempotency_key,
        code=job.code,
        message=job.message,
        last_event=job.last_event,
        results=results,
    )


def event_message(event: Event) -> pb.Event:
    """An event; all of its data as text."""
    data = {name: str(value) for name, value in event.data.items()}
    return pb.Event(number=event.number, at=timestamp(event.at), kind=event.kind, data=data)


def refusal_message(refusal: Refusal) -> pb.Refusal:
    """Why one of several jobs was not taken."""
    return pb.Refusal(
        status=refusal.status,
        reason=refusal.reason,
        message=refusal.message,
        retry_after=duration(refusal.retry_seconds),
    )

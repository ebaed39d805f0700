"""The encoding of records as protocol messages, from `wire_fields` and quod.proto."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from types import NoneType
from typing import Any, Final, NamedTuple, TypeVar, get_args

from google.protobuf.descriptor import Descriptor
from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp

from quod import shallow_json
from quod.errors import InputError
from quod.service.encoding import wire_fields
from quod.service.protocol import quod_pb2 as pb
from quod.service.queue.records import Job, JobState

M = TypeVar("M", bound=Message)
T = TypeVar("T")

_NANOSECONDS: Final = 1_000_000_000

STATES: Final[Mapping[JobState, int]] = {state: int(state) + 1 for state in JobState}
"""The protocol's number of each job state; 0 means unset."""

_STATES: Final = {number: state for state, number in STATES.items()}


def timestamp(seconds: float | None) -> Timestamp | None:
    """Convert seconds since 1970 to a timestamp, to the microsecond, which a float resolves."""
    if seconds is None:
        return None
    whole_seconds, microseconds = divmod(round(seconds * 1e6), 1_000_000)
    return Timestamp(seconds=whole_seconds, nanos=microseconds * 1000)


def seconds_of(message: Timestamp | Duration) -> float:
    """Convert a time or duration to seconds; raises InputError if it is invalid."""
    if not 0 <= message.nanos < _NANOSECONDS or not 0 <= message.seconds < 1 << 40:
        raise InputError("a time or duration must not be negative, with nanos below 10^9")
    return message.seconds + message.nanos / _NANOSECONDS


def duration(seconds: float | None) -> Duration | None:
    """Convert seconds to a duration, rounded to the microsecond."""
    stamp = timestamp(seconds)
    return None if stamp is None else Duration(seconds=stamp.seconds, nanos=stamp.nanos)


def time_of(message: Message, name: str) -> float | None:
    """Convert an optional time or duration of a message to seconds."""
    return seconds_of(getattr(message, name)) if message.HasField(name) else None


def encode_message(kind: type[M], record: Any, /, **fields: object) -> M:
    """Encode a record as a message; `fields` override fields of the message."""
    values = {
        row.message: row.encoding.encode(getattr(record, row.name))
        for row in _rows(kind.DESCRIPTOR, record.__class__)
    }
    return kind(**(values | fields))


def decode_message(kind: type[T], message: Message, /, **fields: object) -> T:
    """Decode a message as a record; `fields` set record fields that the message lacks."""
    cls: Any = kind
    return kind(**fields, **{
        row.name: row.encoding.decode(getattr(message, row.message))
        if not row.optional or message.HasField(row.message) else None
        for row in _rows(message.DESCRIPTOR, cls)
    })  # fmt: skip


def job_message(job: Job, results: Sequence[str] = ()) -> pb.Job:
    """Encode a job, with the results of its partitions."""
    return encode_message(pb.Job, job, results=results)


class _Encoding(NamedTuple):
    """The conversion between values of a type and a message field."""

    encode: Callable[[Any], Any]
    decode: Callable[[Any], Any]


_PLAIN: Final = _Encoding(lambda value: value, lambda value: value)
_ENCODINGS: Final[Mapping[object, _Encoding]] = {
    Timestamp.DESCRIPTOR: _Encoding(timestamp, seconds_of),
    Duration.DESCRIPTOR: _Encoding(duration, seconds_of),
    bool: _PLAIN,
    int: _PLAIN,
    str: _PLAIN,
    # A newer server may have other states.
    JobState: _Encoding(STATES.__getitem__, lambda number: _STATES.get(number, JobState.QUEUED)),
    tuple[int, ...]: _Encoding(list, tuple),
    tuple[str, ...]: _Encoding(list, tuple),
    Mapping[str, str | int]: _Encoding(
        lambda data: {name: str(value) for name, value in data.items()}, dict
    ),
    Mapping[str, Any] | None: _Encoding(
        lambda document: document and json.dumps(document),
        lambda text: shallow_json.load(text) if text else None,
    ),
    tuple[Mapping[str, Any], ...]: _Encoding(
        lambda documents: [*map(json.dumps, documents)],
        lambda texts: tuple(map(shallow_json.load, texts)),
    ),
}
"""Encodings by the field's message type for Google's types, else by the record's field type."""


class _Row(NamedTuple):
    """A field of a record and its name in a message.

    optional: whether an unset message field is decoded as None.
    """

    name: str
    message: str
    optional: bool
    encoding: _Encoding


@cache
def _rows(descriptor: Descriptor, kind: type) -> tuple[_Row, ...]:
    rows = []
    for name, hint, wire in wire_fields(kind) or ():
        if (field := descriptor.fields_by_name.get(wire.message or "")) is not None:
            encoding = _ENCODINGS.get(field.message_type) or _ENCODINGS[hint]
            optional = field.has_presence and NoneType in get_args(hint)
            rows.append(_Row(name, field.name, optional, encoding))
    return tuple(rows)

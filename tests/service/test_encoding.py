"""Records round-trip in each encoding, and invalid ones are rejected."""

from __future__ import annotations

import json
from typing import Any

import pytest
from google.protobuf.message import Message

from quod.errors import InputError
from quod.service.client.records import RemoteJob
from quod.service.encoding import decode_frame, encode_answer, encode_frame, wire_fields
from quod.service.keys.leases import CacheStatus, KeyUse
from quod.service.keys.needs import Tier
from quod.service.protocol import quod_pb2 as pb
from quod.service.protocol.messages import decode_message, encode_message
from quod.service.queue import Attempt, Event, Job, JobState, Lease, Outcome
from quod.service.records import RemoteKey, ServerStatus
from quod.service.refusals import Refusal
from quod.service.worker.pools.pool import Stage, StageRecord, WorkerState, WorkerStatus
from quod.service.worker.settings import WorkerSettings

USE = KeyUse("k", Tier.DEVICE, True, False, 10, 20, 1, 5, 2, 1, 0, 0, 0.5)
STATUS = WorkerStatus(
    "w", "cpu", WorkerState.BUSY, 10.0, 1, {"1-a": Stage.PROVE}, 5, 1, 3, {"keys": 9},
    CacheStatus(True, {Tier.HOST: 100}, {}, 2, (USE,)), "", ("k",),
)  # fmt: skip
JOB = RemoteJob(
    "1-a", "ann", "k", JobState.EXPIRED, 3, 2, 1, 10.5, None, 12.25, None, "7", "C", "why", 4,
    ({"proof": {}},),
)  # fmt: skip


@pytest.mark.parametrize(
    "record",
    [
        STATUS, StageRecord("w", "1-a", 1, "k", Stage.KEY, 1.0, 2.0, 9),
        WorkerSettings("cuda:1", 1, None, 3, ("a", "b")),
        Lease("1-a", 1, 5, 2, "k", "ann", "payload", 3, None, 2),
    ],
)  # fmt: skip
def test_frames_round_trip(record: object) -> None:
    sent = json.loads(json.dumps(encode_frame(record)))
    assert decode_frame(type(record), sent) == record


def test_frames_exclude_bodies() -> None:
    lease = Lease("1-a", 1, 5, 2, "k", "ann", "payload", 3, None, 2, b"witness")
    assert "body" not in encode_frame(lease)


@pytest.mark.parametrize(
    "change",
    [
        {"state": "asleep"}, {"started": "now"}, {"jobs": []}, {"jobs": {"1-a": "lunch"}},
        {"keys": None}, {"wanted": {}}, {"proofs": 1.5}, {"more": 1},
    ],
)  # fmt: skip
def test_invalid_frames_are_rejected(change: dict[str, Any]) -> None:
    sent = encode_frame(STATUS)
    assert decode_frame(WorkerStatus, sent) == STATUS
    with pytest.raises(InputError, match="a frame has"):
        decode_frame(WorkerStatus, sent | change)


@pytest.mark.parametrize(
    ("kind", "record"),
    [
        (pb.Job, JOB), (pb.Event, Event(2, 1.5, "started", {"worker": "w"})),
        (pb.Key, RemoteKey("k", ("a", "b"), "bn254", 7, 1, 99, True, "")),
        (pb.Status, ServerStatus("1", "ready", 2.5, 3, 4, {"queue": {}})),
        (pb.Status, ServerStatus("1", "ready", 2.5, 3, 4, None)),
        (pb.Refusal, Refusal("RESOURCE_EXHAUSTED", "QUEUE_FULL", "full", 2.5)),
        (pb.Refusal, Refusal("NOT_FOUND", "NOT_FOUND", "none")),
    ],
)  # fmt: skip
def test_messages_round_trip(kind: type[Message], record: Any) -> None:
    fields = {wire.message for _, _, wire in wire_fields(type(record)) or ()}
    assert set(kind.DESCRIPTOR.fields_by_name) <= fields
    sent = encode_message(kind, record).SerializeToString()
    assert decode_message(type(record), kind.FromString(sent)) == record


def test_unknown_states_of_a_newer_server() -> None:
    assert decode_message(RemoteJob, pb.Job(state=77)).state is JobState.QUEUED


def test_answers() -> None:
    job = Job(**{name: value for name, value in vars(JOB).items() if name != "results"},
              digest=b"secret", payload_bytes=99)  # fmt: skip
    answer = encode_answer(job)
    assert (answer["state"], answer["bytes"], answer["started"]) == ("expired", 99, None)
    assert not {"digest", "payload_bytes"} & set(answer)
    assert encode_answer(Refusal("A", "B", "c")) == {"status": "A", "reason": "B", "message": "c"}
    assert encode_answer(Refusal("A", "B", "c", 0.0, "key")) == {
        "status": "A", "reason": "B", "message": "c", "retry_seconds": 0.0, "field": "key",
    }  # fmt: skip
    assert encode_answer(Attempt(0, 5, "w", 1.0, None, Outcome.LOST, "", "")) == {
        "partition": 0, "worker": "w", "started": 1.0, "ended": None, "outcome": "lost",
        "code": "", "message": "",
    }  # fmt: skip
    assert encode_answer(USE)["tier"] == "device"

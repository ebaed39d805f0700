"""The protocol: its generated code is what the compiler makes, and messages are read strictly."""

from __future__ import annotations

from pathlib import Path

import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from quod.errors import InputError, QuodError, TryAgainError
from quod.service import errors, refusals
from quod.service.protocol import generate
from quod.service.protocol.calls import CALLS
from quod.service.protocol.messages import STATES, duration, seconds_of, timestamp
from quod.service.protocol.quod_pb2 import JobState as WireState
from quod.service.queue import JobState
from quod.witness.errors import CalculatorError, WitnessLimitError


def test_generated_code_matches_the_protocol(tmp_path: Path) -> None:
    pytest.importorskip("grpc_tools")
    generate.generate(tmp_path)
    for name in generate.GENERATED:
        assert (tmp_path / name).read_text() == (generate.HERE / name).read_text(), (
            "run: python -m quod.service.protocol.generate"
        )


def test_calls() -> None:
    assert CALLS["SubmitProof"].path == "/quod.v1.Prover/SubmitProof"
    assert [call.name for call in CALLS.values() if call.request_streams] == ["UploadProof"]
    assert [call.name for call in CALLS.values() if call.response_streams] == [
        "WatchProof",
        "Generate",
    ]


def test_states() -> None:
    assert {WireState.Name(STATES[state]) for state in JobState} == {s.name for s in JobState}


@pytest.mark.parametrize("seconds", [0.0, 1.5, 1795453288.585061, 1e9 + 0.999999])
def test_times(seconds: float) -> None:
    stamp, length = timestamp(seconds), duration(seconds)
    assert stamp is not None
    assert length is not None
    assert seconds_of(stamp) == seconds_of(length) == pytest.approx(seconds, abs=1e-6)
    assert timestamp(None) is duration(None) is None


@pytest.mark.parametrize("fields", [{"seconds": -1}, {"nanos": -1}, {"nanos": 10**9},
                                   {"seconds": 1 << 41}])  # fmt: skip
def test_invalid_times_are_rejected(fields: dict[str, int]) -> None:
    with pytest.raises(InputError, match="time or duration"):
        seconds_of(Timestamp(**fields))


def test_errors_round_trip_through_the_protocol() -> None:
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type)]
    kinds = [kind for kind in kinds if issubclass(kind, QuodError)]
    assert len(kinds) > 12
    for kind in (*kinds, CalculatorError, WitnessLimitError):
        if kind in (errors.KeyChangedError, errors.KeyTooLargeError):
            # Of their fields only the message comes over the wire.
            continue
        again = issubclass(kind, TryAgainError)
        error = kind("why", retry_seconds=2.5) if again else kind("why")
        refusal = refusals.refusal_of(error)
        assert refusal.status in refusals.HTTP_STATUS
        restored = refusals.error_of(refusal)
        assert (type(restored), str(restored)) == (kind, "why")
        if again:
            assert restored.retry_seconds == 2.5  # type: ignore[attr-defined]


def test_unexpected_error_text_is_not_sent() -> None:
    refusal = refusals.refusal_of(ValueError("the witness is 7"))
    assert (refusal.status, refusal.message) == (
        "INTERNAL",
        "the server failed; its log gives the reason",
    )

"""What was submitted while a test ran, and whether anybody has waited for it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

import pytest

from quod.device.runtime.stream import RecordedStream, SubmittedStream
from quod.errors import DeviceError


def collect(monkeypatch: pytest.MonkeyPatch) -> list[SubmittedStream]:
    """Streams, as they are submitted from here on."""
    found: list[SubmittedStream] = []
    submit = RecordedStream.submit

    def noted(self: RecordedStream, *given: object, **named: object) -> SubmittedStream:
        found.append(submit(self, *given, **named))  # type: ignore[arg-type]
        return found[-1]

    monkeypatch.setattr(RecordedStream, "submit", noted)
    return found


def are_under_way(submitted: Sequence[SubmittedStream]) -> bool:
    """Whether nobody has waited for one of them: its memory is not free, whether it is done or
    not."""
    found = False
    for stream in submitted:
        # What was waited for is used up.
        with suppress(DeviceError):
            stream.wait()
            found = True
    return found

"""The streams that a test submitted, and whether a caller has waited for them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

import pytest

from quod.device.runtime.stream import RecordedStream, SubmittedStream
from quod.errors import DeviceError


def collect(monkeypatch: pytest.MonkeyPatch) -> list[SubmittedStream]:
    """Return a list that gets every stream submitted from now on."""
    streams: list[SubmittedStream] = []
    submit = RecordedStream.submit

    def noted(self: RecordedStream, *arguments: object, **named: object) -> SubmittedStream:
        streams.append(submit(self, *arguments, **named))  # type: ignore[arg-type]
        return streams[-1]

    monkeypatch.setattr(RecordedStream, "submit", noted)
    return streams


def are_under_way(submitted: Sequence[SubmittedStream]) -> bool:
    """Return whether nobody has waited for one of them: its memory is not free, whether it is done
    or not.
    """
    unfinished = False
    for stream in submitted:
        # What was waited for is used up.
        with suppress(DeviceError):
            stream.wait()
            unfinished = True
    return unfinished

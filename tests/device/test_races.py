"""Orders that `tests.support.races` accepts, and those it reports."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from quod.device import open_device
from quod.device.runtime.event import Event
from quod.device.runtime.recording import Recording
from tests.support.races import Race, Races

MEMORY = np.zeros(64, np.uint32)


def recorded(*, into: Any = None, uploaded: Any = None, after: Event | None = None) -> Any:
    """A recording that fills or downloads memory of the host, and an event behind that."""
    stream = open_device("cpu").stream().record()
    if after is not None:
        stream.wait_for(after)
    device = open_device("cpu")
    if into is not None:
        stream.download(device.allocate(into.nbytes), into)
    if uploaded is not None:
        stream.upload(uploaded, device.allocate(uploaded.nbytes))
    event = stream.event("done")
    return stream.finish().recording, event


def test_conflicting_uses_are_races() -> None:
    writes: Recording = recorded(into=MEMORY[:32])[0]
    reads, others = recorded(uploaded=MEMORY[16:48])[0], recorded(uploaded=MEMORY[32:])[0]
    races = Races()
    races.submitted(writes)
    races.submitted(others)
    with pytest.raises(Race, match="'upload' and 'download' of another stream"):
        races.submitted(reads)
    with pytest.raises(Race, match="a look and 'download' of another stream"):
        races.host_uses("a look", [MEMORY[:1]], [])
    races.host_uses("a look", [MEMORY[32:]], [])
    assert len(races.clear()) == 2
    races = Races()
    races.submitted(reads)
    races.submitted(others)
    with pytest.raises(Race, match="'download' and 'upload' of another stream"):
        races.submitted(writes)


def test_awaited_work_is_ordered() -> None:
    races, (writes, done) = Races(), recorded(into=MEMORY)
    reads = recorded(uploaded=MEMORY)[0]
    run = races.submitted(writes)
    races.waited(run)
    races.submitted(reads)
    races = Races()
    races.submitted(writes)
    races.passed(done)
    races.submitted(reads)
    races.host_uses("a look", [MEMORY], [])


def test_events_order_work_across_streams() -> None:
    first, done = recorded(into=MEMORY)
    second, passed_on = recorded(after=done)
    third = recorded(uploaded=MEMORY, after=passed_on)[0]
    races = Races()
    for recording in (first, second, third):
        races.submitted(recording)
    assert not races.clear()
    races = Races()
    races.submitted(first)
    with pytest.raises(Race):
        races.submitted(recorded(uploaded=MEMORY)[0])


def test_initial_writes_are_not_races() -> None:
    races, stream = Races(), open_device("cpu").stream().record()
    device = open_device("cpu")
    stream.fill(device.allocate(8), label="whole")
    memory = device.upload(MEMORY[:8])
    stream.copy(memory, device.allocate(32), label="whole, too")
    stream.fill(memory, label="after a use")
    run = races.submitted(stream.finish().recording)
    assert [step.label for step in run.written_first()] == ["whole", "whole, too"]

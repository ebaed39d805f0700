"""Recordings: the dependencies of their steps, their description, labels and stages."""

from __future__ import annotations

import json
import threading

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from quod.device import Buffer
from quod.device.protocol import AnyDevice
from quod.device.runtime.recording import Dependencies
from quod.device.runtime.timeline import Timeline
from tests.device import kernels
from tests.device.streams import COUNT, groups_of, values, words


def test_dependencies_follow_from_memory(device: AnyDevice) -> None:
    scale, increment = device.compile(kernels.scale), device.compile(kernels.increment)
    groups = groups_of(device)
    a, b, c = words(device), words(device), words(device)
    recording = device.stream().record()
    recording.fill(a, 1)  # 0
    recording.fill(b, 2)  # 1
    recording.launch(scale, groups, COUNT, 3, a, c)  # 2: reads 0
    recording.launch(increment, groups, COUNT, b)  # 3: after 1
    recording.launch(increment, groups, COUNT, a)  # 4: writes what 2 reads
    recording.copy(b, c)  # 5: reads 3, overwrites 2
    event = recording.event("half")  # 6: all
    recording.fill(a, 9)  # 7: behind the event
    recording.download(c.slice(0, 8), np.zeros(2, np.uint32))  # 8
    recording.fill(c.slice(8, 16))  # 9: another part of c
    recording.fill(c)  # 10
    recorded = recording.finish()
    after = [step.after for step in recorded.recording.steps]
    assert after[:7] == [(), (), (0,), (1,), (0, 2), (2, 3), (4, 5)]
    assert after[7:] == [(6,), (6,), (6,), (8, 9)]
    recorded.submit().wait()
    assert event.is_done
    assert set(values(device, b)) == {3}
    assert set(values(device, a)) == {9}


Access = tuple[bool, int, int]


@given(
    st.lists(
        st.lists(st.tuples(st.booleans(), st.integers(0, 30), st.integers(0, 12)), max_size=3),
        max_size=25,
    ),
    st.data(),
)
@settings(max_examples=200, deadline=None)
def test_steps_that_conflict_are_ordered(steps: list[list[Access]], data: st.DataObject) -> None:
    """Against the definition: two steps conflict if they share memory and one writes it."""
    memory = Buffer.zeros(64)
    dependencies = Dependencies()
    after: list[set[int]] = []
    barriers: set[int] = set()
    for number, step in enumerate(steps):
        if data.draw(st.integers(0, 9)) == 0:
            after.append(set(dependencies.add_barrier(number)))
            barriers.add(number)
            continue
        reads = [memory.slice(at, at + size) for write, at, size in step if not write]
        writes = [memory.slice(at, at + size) for write, at, size in step if write]
        after.append(set(dependencies.add(number, reads, writes)))
    reached: list[set[int]] = []
    for direct in after:
        reached.append(direct | {far for near in direct for far in reached[near]})
    for late, step in enumerate(steps):
        for early in range(late):
            conflict = any(
                (write or other_write) and max(at, other_at) < min(at + size, other_at + other)
                for write, at, size in step
                for other_write, other_at, other in steps[early]
            )
            if conflict or early in barriers or late in barriers:
                assert early in reached[late]


def test_a_recording_can_be_described(device: AnyDevice) -> None:
    a, b = words(device, 16), words(device, 16)
    recording = device.stream().record()
    recording.fill(a, 3)
    recording.launch(
        device.compile(kernels.raise_to, amount=5), 2, 4, a.slice(16, 32), label="raise"
    )
    recording.upload(np.zeros(16, np.uint32), b)
    recording.event("ready")
    recording.copy(a, b)
    described = recording.finish().recording.describe()
    assert json.loads(json.dumps(described)) == described
    assert described["schema"] == "quod-recording-1"
    assert described["memory"] == [{"bytes": 64}, {"bytes": 64}, {"bytes": 64}]
    first_buffer = {"memory": 0, "offset": 0, "bytes": 64}
    assert described["steps"] == [
        {"label": "fill", "after": [], "op": "fill", "target": first_buffer, "word": 3},
        {
            "label": "raise",
            "after": [0],
            "op": "launch",
            "kernel": "raise_to",
            "lanes": device.lanes,
            "static": {"amount": "5"},
            "groups": 2,
            "arguments": [
                {"value": 4, "type": "u32"},
                {"memory": 0, "offset": 16, "bytes": 16},
            ],
        },
        {
            "label": "upload",
            "after": [],
            "op": "upload",
            "source": {"memory": 1, "offset": 0, "bytes": 64},
            "target": {"memory": 2, "offset": 0, "bytes": 64},
        },
        {"label": "ready", "after": [1, 2], "op": "event", "event": "ready"},
        {
            "label": "copy",
            "after": [3],
            "op": "copy",
            "source": first_buffer,
            "target": {"memory": 2, "offset": 0, "bytes": 64},
        },
    ]


def test_steps_are_stages(device: AnyDevice) -> None:
    timeline = Timeline()
    a = words(device)
    recording = device.stream("reader").record()
    recording.fill(a, 1)
    increment = device.compile(kernels.increment)
    for _ in range(3):
        recording.launch(increment, groups_of(device), COUNT, a, label="raise", bytes=8 * COUNT)
    recorded = recording.finish()
    with timeline.stage("all") as parent:
        recorded.submit(timeline, parent=parent).wait()
    rows = timeline.table()
    assert [(row.name, row.depth, row.count, row.bytes) for row in rows] == [
        ("all", 0, 1, 0),
        ("fill", 1, 1, 4 * COUNT),
        ("raise", 1, 3, 3 * 8 * COUNT),
    ]
    tracks = {stage.name: stage.track for stage in timeline.rows()}
    assert tracks["raise"] == tracks["fill"] == "reader"
    assert tracks["all"] == threading.current_thread().name


def test_labels_include_their_scope(device: AnyDevice) -> None:
    a, b = device.allocate(64), device.allocate(64)
    recording = device.stream().record()
    with recording.part("first"):
        recording.fill(a, 1)
        with recording.part("inner"):
            recording.copy(a, b, label="there")
        recording.launch(device.compile(kernels.raise_to, amount=5), 1, 4, a, label="raise")
    recording.upload(np.zeros(64, np.uint8), a)
    labels = [step.label for step in recording.finish().recording.steps]
    assert labels == ["first: fill", "first: inner: there", "first: raise", "upload"]

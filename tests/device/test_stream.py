"""Streams: the order of calls, by type and at run time; replays, events, failures, overlap."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quod.device import Buffer, Cancellation, CpuDevice, open_device
from quod.device.protocol import AnyDevice
from quod.device.runtime.big_stack_thread import RoomyThread
from quod.device.runtime.event import Completion, Event
from quod.device.runtime.recording import Dependencies, Mark, Recording
from quod.device.runtime.stream import IdleStream, RecordingStream, SubmittedStream
from quod.device.runtime.thread_stream import run_in_thread
from quod.device.runtime.timeline import Timeline
from quod.errors import DeviceError
from tests.device import kernels

COUNT = 1000


@pytest.fixture
def processor(device: AnyDevice) -> CpuDevice:
    """What only the CPU does; tests/device/test_cuda.py has what only a GPU does."""
    if not isinstance(device, CpuDevice):
        pytest.skip("is about the CPU's way to run recorded work")
    return device


def groups_of(device: AnyDevice) -> int:
    return -(-COUNT // device.lanes)


def words(device: AnyDevice, count: int = COUNT) -> Buffer:
    return device.allocate(4 * count)


def values(device: AnyDevice, buffer: Buffer) -> list[int]:
    found = np.zeros(buffer.nbytes // 4, np.uint32)
    device.download(buffer, found)
    return found.tolist()


def test_work_runs_when_it_is_submitted_and_again(device: AnyDevice) -> None:
    scale, increment = device.compile(kernels.scale), device.compile(kernels.increment)
    source, a, b = np.arange(COUNT, dtype=np.uint32), words(device), words(device)
    out = np.zeros(COUNT, np.uint32)
    recording = device.stream().record()
    recording.upload(source, a)
    recording.launch(scale, groups_of(device), COUNT, 3, a, b)
    recording.launch(increment, groups_of(device), COUNT, b)
    recording.copy(b, a)
    recording.fill(b, 7)
    recording.download(a, out)
    recorded = recording.finish()
    assert not out.any()
    stream = recorded.submit().wait()
    assert (out == 3 * source + 1).all()
    assert set(values(device, b)) == {7}
    source += 5
    stream = stream.replay(recorded.recording).submit().wait()
    assert (out == 3 * source + 1).all()
    assert isinstance(stream, IdleStream)
    source += 5
    stream = stream.replay(recorded.recording).run()
    assert (out == 3 * source + 1).all()
    timeline = Timeline()
    assert isinstance(stream.replay(recorded.recording).run(timeline), IdleStream)
    assert "increment" in {row.name for row in timeline.table()}


def test_a_processor_runs_in_the_callers_thread(
    processor: CpuDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where its stack has room for kernels: that of others, which may be small, waits."""
    threads, execute = [], processor.execute

    def watched(*arguments: Any) -> None:
        threads.append(threading.current_thread())
        execute(*arguments)

    monkeypatch.setattr(processor, "execute", watched)
    recording = processor.stream().record()
    recording.launch(processor.compile(kernels.increment), 1, 8, words(processor))
    recorded = recording.finish().recording
    run = processor.stream().replay(recorded).run
    run()
    assert threads == [threading.main_thread()]
    for kind, is_here in ((threading.Thread, False), (RoomyThread, True)):
        threads.clear()
        caller = kind(target=processor.stream().replay(recorded).run)
        caller.start()
        caller.join(30)
        assert (threads == [caller]) is is_here
        assert len(threads) == 1


def test_an_empty_recording(device: AnyDevice) -> None:
    recorded = device.stream().record().finish()
    assert recorded.recording.steps == ()
    recorded.submit().wait()


# --- the order of calls


def in_state(device: AnyDevice, state: str) -> Any:
    stream: Any = device.stream()
    for verb in ("record", "finish", "submit"):
        if stream.state == state:
            return stream
        stream = getattr(stream, verb)()
    assert stream.state == state
    return stream


VERBS = {
    "idle": ["record", "replay"],
    "recording": [
        "launch", "copy", "fill", "upload", "download", "event", "wait_for", "finish",
    ],
    "recorded": ["submit", "run"],
    "submitted": ["wait", "cancel", "is_done"],
}  # fmt: skip


@pytest.mark.parametrize("state", VERBS)
def test_a_call_of_another_state_names_both(device: AnyDevice, state: str) -> None:
    stream = in_state(device, state)
    for home, verbs in VERBS.items():
        for verb in verbs:
            if home == state:
                assert hasattr(stream, verb)
                continue
            with pytest.raises(DeviceError) as caught:
                getattr(stream, verb)
            message = f"{verb} is for a stream that is {home}; this one is {state}"
            assert str(caught.value) == message
    with pytest.raises(AttributeError, match="a stream has no attribute 'nothing'"):
        _ = stream.nothing


@pytest.mark.parametrize(
    ("state", "leave", "calls"),
    [
        ("idle", "record", ["record", "replay"]),
        ("recording", "finish", ["finish", "event"]),
        ("recorded", "submit", ["submit", "run"]),
        ("recorded", "run", ["submit", "run"]),
        ("submitted", "wait", ["wait", "cancel"]),
    ],
)
def test_a_stream_that_moved_on_cannot_be_used(
    device: AnyDevice, state: str, leave: str, calls: list[str]
) -> None:
    recording = Recording(device.name, (), device.space)
    stream = in_state(device, state)
    getattr(stream, leave)()
    for verb in calls:
        arguments: tuple[object, ...] = {"replay": (recording,), "event": ("e",)}.get(verb, ())
        with pytest.raises(DeviceError) as caught:
            getattr(stream, verb)(*arguments)
        assert str(caught.value) == (
            f"this stream is not {state} any more: {leave}() moved it on; "
            "use the object that it returned"
        )
    if state == "submitted":
        with pytest.raises(DeviceError, match="not submitted any more"):
            _ = stream.is_done


ORDERS = """
from quod.device import CpuDevice

device = CpuDevice()
idle = device.stream()
recording = idle.record()
recorded = recording.finish()
submitted = recorded.submit()
again = submitted.wait().record()
{line}
"""


@pytest.mark.thorough
def test_a_wrong_order_is_a_type_error(tmp_path: Path) -> None:
    pytest.importorskip("mypy")
    wrong = {
        "idle.submit()": '"IdleStream" has no attribute "submit"',
        "idle.launch()": '"IdleStream" has no attribute "launch"',
        "recording.submit()": '"RecordingStream" has no attribute "submit"',
        "recording.wait()": '"RecordingStream" has no attribute "wait"',
        "recorded.launch()": '"RecordedStream" has no attribute "launch"',
        "submitted.record()": '"SubmittedStream" has no attribute "record"',
        "again.finish().wait()": '"RecordedStream" has no attribute "wait"',
        "": "",
    }
    for number, line in enumerate(wrong):
        (tmp_path / f"order{number}.py").write_text(ORDERS.format(line=line))
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", str(tmp_path)], capture_output=True, text=True
    )
    errors = [line for line in done.stdout.splitlines() if ": error: " in line]
    assert len(errors) == len(wrong) - 1, done.stdout
    for number, message in enumerate(wrong.values()):
        found = [line for line in errors if f"order{number}.py" in line]
        assert [message in line for line in found] == ([True] if message else [])


def test_recordings_belong_to_a_device(device: AnyDevice) -> None:
    stream = device.stream()
    with pytest.raises(DeviceError, match="recording is for the device cuda, and the stream is"):
        stream.replay(Recording("cuda", (), device.space))
    stream.record()


def test_recordings_belong_to_a_memory() -> None:
    """Not to all devices of a name; processors have theirs in common."""
    with open_device("emulated") as one, open_device("emulated") as other:
        recording = one.stream().record()
        recording.fill(words(one), 7)
        recorded = recording.finish().recording
        stream = other.stream()
        with pytest.raises(DeviceError, match="is for another device than this emulated"):
            stream.replay(recorded)
        stream.record()
        one.close()
        with pytest.raises(DeviceError, match="the memory of the device emulated is gone"):
            other.stream().replay(recorded)
    with open_device("cpu") as one, open_device("cpu:scalar") as other:
        memory = words(one)
        recording = one.stream().record()
        recording.fill(memory, 7)
        other.stream().replay(recording.finish().recording).run()
        assert set(values(one, memory)) == {7}


# --- arguments


def test_arguments_are_checked_while_recording(processor: CpuDevice) -> None:
    kernel = processor.compile(kernels.scale)
    recording = processor.stream().record()
    read_only = np.frombuffer(bytes(16), np.uint32)
    with pytest.raises(DeviceError, match="takes 4 arguments"):
        recording.launch(kernel, 1, 1)
    with pytest.raises(DeviceError, match="out of kernel scale is read-only"):
        recording.launch(kernel, 1, 1, 1, read_only, read_only)
    with pytest.raises(DeviceError, match="read-only and cannot be copied to"):
        recording.download(words(processor, 4), read_only)
    with pytest.raises(DeviceError, match="read-only and cannot be copied to"):
        recording.fill(Buffer.wrap(read_only))
    with pytest.raises(DeviceError, match="copy has 16 bytes to copy to memory of 20"):
        recording.copy(words(processor, 4), words(processor, 5))
    with pytest.raises(DeviceError, match="contiguous"):
        recording.upload(np.zeros(8, np.uint32)[::2], words(processor, 4))
    with pytest.raises(DeviceError, match="sets 32-bit words, which 5 bytes are not"):
        recording.fill(processor.allocate(5))
    for word in (-1, 1 << 32, 1.0, None):
        with pytest.raises(DeviceError, match="the word of fill must be a whole number from 0 to"):
            recording.fill(processor.allocate(4), word)  # type: ignore[arg-type]
    assert recording.finish().recording.steps == ()


# --- dependencies


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
    whole = {"memory": 0, "offset": 0, "bytes": 64}
    assert described["steps"] == [
        {"label": "fill", "after": [], "op": "fill", "target": whole, "word": 3},
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
            "source": whole,
            "target": {"memory": 2, "offset": 0, "bytes": 64},
        },
    ]


# --- running beside the caller


def long_work(device: AnyDevice, rounds: int = 20_000_000) -> tuple[SubmittedStream, np.ndarray]:
    out = np.zeros(4, np.uint32)
    recording = device.stream().record()
    recording.launch(device.compile(kernels.spin), 4, rounds, out)
    return recording.finish().submit(), out


def test_the_host_goes_on_meanwhile() -> None:
    device = CpuDevice(threads=1)
    out = np.zeros(4, np.uint32)
    go = Event("go")
    completion = go.arm()
    recording = device.stream().record()
    recording.wait_for(go)
    recording.launch(device.compile(kernels.spin), 4, 1000, out)
    submitted = recording.finish().submit()
    assert not submitted.is_done
    completion.complete()
    submitted.wait()
    assert out.all()
    device.close()


def test_streams_run_beside_one_another(device: AnyDevice) -> None:
    kernel = device.compile(kernels.increment)
    memory = [words(device) for _ in range(6)]
    submitted = []
    for buffer in memory:
        recording = device.stream().record()
        for _ in range(20):
            recording.launch(kernel, groups_of(device), COUNT, buffer)
        submitted.append(recording.finish().submit())
    for stream in submitted:
        stream.wait()
    assert all(set(values(device, buffer)) == {20} for buffer in memory)


def test_cancelling(monkeypatch: pytest.MonkeyPatch) -> None:
    device = CpuDevice(threads=1)
    begun, execute = threading.Event(), device.execute

    def watched(*arguments: Any) -> None:
        begun.set()
        execute(*arguments)

    monkeypatch.setattr(device, "execute", watched)
    out = np.zeros(1_000_000, np.uint32)
    recording = device.stream().record()
    for label in ("first", "second"):
        recording.launch(device.compile(kernels.spin), 1_000_000, 1_000_000, out, label=label)
    event = recording.event("end")
    submitted = recording.finish().submit()
    assert begun.wait(60)
    assert not event.wait(0.05)
    submitted.cancel()
    # They would take hours.
    with pytest.raises(DeviceError, match="the launch of spin was stopped"):
        submitted.wait()
    with pytest.raises(DeviceError, match="event end belongs to ended before it"):
        event.wait()
    device.close()


@pytest.fixture
def faulty(processor: CpuDevice, monkeypatch: pytest.MonkeyPatch) -> CpuDevice:
    """A processor whose launches fail when they are run."""

    def execute(*_: object) -> None:
        raise DeviceError("it does not run")

    monkeypatch.setattr(processor, "execute", execute)
    return processor


def test_an_error_in_the_work_is_raised_by_wait(faulty: CpuDevice) -> None:
    recording = faulty.stream().record()
    recording.launch(faulty.compile(kernels.increment), 1, 8, words(faulty))
    recording.event("never")
    with pytest.raises(DeviceError, match="it does not run"):
        recording.finish().submit().wait()


def test_an_error_in_the_work_is_raised_by_run(faulty: CpuDevice) -> None:
    recording = faulty.stream().record()
    recording.launch(faulty.compile(kernels.increment), 1, 8, words(faulty))
    never = recording.event("never")
    with pytest.raises(DeviceError, match="it does not run"):
        recording.finish().run()
    with pytest.raises(DeviceError, match="ended before it"):
        never.wait()


# --- events


def test_events_order_streams() -> None:
    device = CpuDevice(threads=2)
    scale = device.compile(kernels.scale)
    spin = device.compile(kernels.spin)
    waste, a, b = words(device, 64), words(device), words(device)
    a.view()[:] = 1
    for _ in range(5):
        b.view()[:] = 0
        producer = device.stream().record()
        producer.launch(spin, 8, 100_000, waste)
        producer.launch(scale, groups_of(device), COUNT, 3, a, b)
        event = producer.event("b is set")
        consumer = device.stream().record()
        consumer.wait_for(event)
        out = np.zeros(COUNT, np.uint32)
        consumer.download(b, out)
        produced = producer.finish().submit()
        consumed = consumer.finish().submit()
        consumed.wait()
        assert set(out.tolist()) == {3}
        produced.wait()
    device.close()


def test_events_have_times_and_are_passed_anew_by_each_replay(device: AnyDevice) -> None:
    recording = device.stream().record()
    first = recording.event("first")
    recording.launch(device.compile(kernels.spin), 1, 100_000, words(device, 8))
    second = recording.event("second")
    recording.wait_for(first)  # of its own: in order anyway
    assert not first.is_done
    for event in (first, second):
        with pytest.raises(DeviceError, match="has not been submitted yet"):
            event.wait()
    recorded = recording.finish()
    marks = [step for step in recorded.recording.steps if isinstance(step, Mark)]
    assert [mark.event for mark in marks] == [first, second]
    stream = recorded.submit().wait()
    before = first.time_ns, second.time_ns
    assert before[0] < before[1] < time.perf_counter_ns()
    assert first.wait(0)
    stream.replay(recorded.recording).submit().wait()
    assert first.time_ns > before[1]


def test_waiting_for_an_event_that_nothing_leads_to(device: AnyDevice) -> None:
    other = device.stream().record()
    event = other.event("early")
    recording = device.stream().record()
    recording.wait_for(event)
    recorded = recording.finish()
    with pytest.raises(DeviceError, match="event early belongs to a recording that has not been"):
        recorded.submit()


def test_a_failure_reaches_the_streams_that_wait_for_it(faulty: CpuDevice) -> None:
    failing = faulty.stream().record()
    failing.launch(faulty.compile(kernels.increment), 1, 8, words(faulty))
    event = failing.event("never")
    waiting = faulty.stream().record()
    waiting.wait_for(event)
    failed = failing.finish().submit()
    with pytest.raises(DeviceError, match="could not wait for never: the work that it belongs"):
        waiting.finish().submit().wait()
    with pytest.raises(DeviceError, match="it does not run"):
        failed.wait()
    with pytest.raises(DeviceError, match="event never has not been passed"):
        _ = event.time_ns


def test_a_wait_for_an_event_can_be_cancelled(processor: CpuDevice) -> None:
    event = Event("far")
    event.arm()
    recording = processor.stream().record()
    recording.wait_for(event)
    submitted = recording.finish().submit()
    time.sleep(0.02)
    assert not submitted.is_done
    submitted.cancel()
    with pytest.raises(DeviceError, match="the work of the stream, at wait for far, was stopped"):
        submitted.wait()


@pytest.mark.parametrize("how", ["run", "run with a timeline", "submit and wait"])
def test_what_stops_launches_stops_who_waits_for_work(processor: CpuDevice, how: str) -> None:
    """Also before it has begun. The event is never passed."""
    event, stop, messages = Event("far"), Cancellation(), list[str]()
    event.arm()
    recording = processor.stream().record()
    recording.wait_for(event)
    recorded = recording.finish().recording
    begun = threading.Event()

    def work() -> None:
        stream = processor.stream().replay(recorded)
        with stop:
            begun.set()
            try:
                if how == "submit and wait":
                    stream.submit().wait()
                else:
                    stream.run(Timeline() if "timeline" in how else None)
            except DeviceError as error:
                messages.append(str(error))

    for _ in range(2):
        begun.clear()
        # Its stack has room for kernels, so that it runs what it may run itself.
        thread = RoomyThread(target=work, daemon=True)
        thread.start()
        assert begun.wait(30)
        time.sleep(0.02)
        stop.cancel()
        thread.join(30)
    assert messages == 2 * ["the work of the stream, at wait for far, was stopped"]


def test_a_completion_counts_once() -> None:
    completion, called = Completion(), []
    completion.call_when_done(lambda: called.append(1))
    completion.complete()
    time_ns = completion.time_ns
    completion.complete(failed=True)
    completion.call_when_done(lambda: called.append(2))
    assert (completion.time_ns, completion.failed, called) == (time_ns, False, [1, 2])


# --- timelines


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


def test_the_docstring_runs(device: AnyDevice) -> None:
    from quod.device.runtime import stream as module

    assert module.__doc__ is not None
    code = "\n".join(re.findall(r"^    (.*)$", module.__doc__, re.MULTILINE))
    n, a, b = COUNT, words(device), words(device)
    device.upload(np.arange(COUNT, dtype=np.uint32), into=a)
    kernel, groups = device.compile(kernels.scale), groups_of(device)
    code = code.replace("groups, n, a, b", "groups, n, 2, a, b")
    names: dict[str, Any] = {"device": device, "kernel": kernel, "groups": groups}
    exec(code, names | {"n": n, "a": a, "b": b})
    assert values(device, b) == [2 * i for i in range(COUNT)]
    assert "RecordingStream" in dir(module)
    assert RecordingStream.state == "recording"


def test_labels_name_the_part_that_they_belong_to(device: AnyDevice) -> None:
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


def test_threads_are_taken_again() -> None:
    """One task after the other leaves few threads; those side by side have one each."""
    found: list[tuple[str, int]] = []
    for number in range(100):
        done = threading.Event()

        def task(done: threading.Event = done) -> None:
            found.append((threading.current_thread().name, threading.get_ident()))
            done.set()

        run_in_thread(task, f"task {number}")
        assert done.wait(30)
    assert [name for name, _ in found] == [f"task {number}" for number in range(100)]
    assert len({ident for _, ident in found}) < 50
    together = threading.Barrier(13)
    for number in range(12):
        run_in_thread(lambda: (together.wait(30), None)[1], f"beside {number}")
    together.wait(30)

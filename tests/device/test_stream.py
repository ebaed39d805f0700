"""Streams: the order of calls, by type and at run time, and the arguments of launches."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from quod.device import Buffer, CpuDevice, open_device
from quod.device.protocol import AnyDevice
from quod.device.runtime.recording import Recording
from quod.device.runtime.stream import IdleStream, RecordingStream
from quod.device.runtime.timeline import Timeline
from quod.errors import DeviceError
from tests.device import kernels
from tests.device.streams import COUNT, groups_of, values, words


def test_submitted_work_can_be_replayed(device: AnyDevice) -> None:
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


def test_an_empty_recording(device: AnyDevice) -> None:
    recorded = device.stream().record().finish()
    assert recorded.recording.steps == ()
    recorded.submit().wait()


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
def test_calls_in_the_wrong_state_name_both_states(device: AnyDevice, state: str) -> None:
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
            f"this stream is no longer {state}: {leave}() consumed it; "
            "use the object that it returned"
        )
    if state == "submitted":
        with pytest.raises(DeviceError, match="no longer submitted"):
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
        reported = [line for line in errors if f"order{number}.py" in line]
        assert [message in line for line in reported] == ([True] if message else [])


def test_recordings_of_another_device_are_rejected(device: AnyDevice) -> None:
    stream = device.stream()
    with pytest.raises(DeviceError, match="recording is for the device cuda, and the stream is"):
        stream.replay(Recording("cuda", (), device.space))
    stream.record()


def test_recordings_of_another_instance_are_rejected() -> None:
    """Devices of equal name have separate memory; CPU devices share it."""
    with open_device("emulated") as first, open_device("emulated") as second:
        recording = first.stream().record()
        recording.fill(words(first), 7)
        recorded = recording.finish().recording
        stream = second.stream()
        with pytest.raises(DeviceError, match="is for another device than this emulated"):
            stream.replay(recorded)
        stream.record()
        first.close()
        with pytest.raises(DeviceError, match="the memory of the device emulated is gone"):
            second.stream().replay(recorded)
    with open_device("cpu") as first, open_device("cpu:scalar") as second:
        memory = words(first)
        recording = first.stream().record()
        recording.fill(memory, 7)
        second.stream().replay(recording.finish().recording).run()
        assert set(values(first, memory)) == {7}


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
    with pytest.raises(DeviceError, match="sets 32-bit words, and 5 bytes are not"):
        recording.fill(processor.allocate(5))
    for word in (-1, 1 << 32, 1.0, None):
        with pytest.raises(DeviceError, match="the word of fill must be a whole number from 0 to"):
            recording.fill(processor.allocate(4), word)  # type: ignore[arg-type]
    assert recording.finish().recording.steps == ()

"""Staging buffers: copies that fail or are interrupted, and several long ones at once."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from quod.device.memory.buffer import Array, Buffer
from quod.device.runtime.timeline import Timeline
from quod.device.webgpu.device import WebGpuDevice
from quod.device.webgpu.staging import CHUNK_BYTES, RING_BYTES
from quod.errors import DeviceError

WORDS = np.arange(3 * CHUNK_BYTES // 4 + 5, dtype=np.uint32)


@pytest.fixture
def buffer(webgpu_device: WebGpuDevice) -> Buffer:
    return webgpu_device.upload(WORDS)


class Failing:
    """Stands for a method of a ring that fails at its `at`-th call, and works before."""

    def __init__(self, method: Any, error: BaseException, at: int) -> None:
        self._method, self._error, self._left = method, error, at

    def __call__(self, *arguments: Any) -> Any:
        self._left -= 1
        if not self._left:
            raise self._error
        return self._method(*arguments)


def record_download(device: WebGpuDevice, buffer: Buffer, out: Array) -> Any:
    stream = device.stream().record()
    stream.download(buffer, out)
    return stream.finish()


def check_download(device: WebGpuDevice, buffer: Buffer) -> None:
    out = np.zeros_like(WORDS)
    device.download(buffer, out)
    assert np.array_equal(out, WORDS)
    out[:] = 0
    record_download(device, buffer, out).submit().wait()
    assert np.array_equal(out, WORDS)
    assert device.session.downloads.nbytes <= RING_BYTES
    assert device.session.uploads.nbytes <= RING_BYTES


@pytest.mark.parametrize("at", [1, 2, 4])
@pytest.mark.parametrize("method", ["read", "begin_reading"])
def test_interrupted_downloads_release_staging_memory(
    webgpu_device: WebGpuDevice, buffer: Buffer, method: str, at: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    ring, out = webgpu_device.session.downloads, np.zeros_like(WORDS)
    works = getattr(ring, method)
    for _ in range(6):
        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(ring, method, Failing(works, KeyboardInterrupt(), at))
            webgpu_device.download(buffer, out)
    check_download(webgpu_device, buffer)


@pytest.mark.parametrize("at", [1, 2, 4])
@pytest.mark.parametrize(("ring", "method"), [("downloads", "read"), ("uploads", "write")])
def test_failed_recordings_release_staging_memory(
    webgpu_device: WebGpuDevice, buffer: Buffer, ring: str, method: str, at: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """Nothing is leaked, and nothing is released twice."""
    buffer_ring = getattr(webgpu_device.session, ring)
    works = getattr(buffer_ring, method)
    for _ in range(6):
        stream = webgpu_device.stream().record()
        stream.upload(WORDS, buffer)
        stream.download(buffer, np.zeros_like(WORDS))
        recorded = stream.finish()
        with monkeypatch.context() as patch:
            patch.setattr(buffer_ring, method, Failing(works, DeviceError("it fails"), at))
            submitted = recorded.submit()
            with pytest.raises(DeviceError, match="it fails"):
                submitted.wait()
    idle = buffer_ring._idle
    assert len(idle) == len({id(each) for each in idle})
    assert all(each in buffer_ring._all for each in idle)
    check_download(webgpu_device, buffer)


@pytest.mark.timeout(300)
def test_long_downloads_at_once_do_not_wait_for_each_other(webgpu_device: WebGpuDevice) -> None:
    # Not at a multiple of four bytes: then a piece takes a staging buffer of the next size.
    data = np.arange(40 << 20, dtype=np.uint8)
    memory = webgpu_device.upload(data)
    part = memory.slice(1, len(data) - 3)

    def copy(number: int) -> bool:
        out = np.zeros(part.nbytes, np.uint8)
        if number % 2:
            record_download(webgpu_device, part, out).submit().wait()
        else:
            webgpu_device.download(part, out)
        return np.array_equal(out, data[1:-3])

    with ThreadPoolExecutor(5) as pool:
        assert all(pool.map(copy, range(5)))
    assert webgpu_device.session.downloads.nbytes <= RING_BYTES


@pytest.mark.timeout(300)
def test_timestamps_are_recorded_when_downloads_fill_the_ring(webgpu_device: WebGpuDevice) -> None:
    data = np.arange(RING_BYTES + CHUNK_BYTES, dtype=np.uint8)
    memory, out = webgpu_device.upload(data), np.zeros_like(data)
    timeline = Timeline()
    record_download(webgpu_device, memory, out).submit(timeline=timeline).wait()
    assert np.array_equal(out, data)
    assert timeline.table()


@pytest.mark.thorough
def test_adapter_enumeration_prints_nothing(webgpu_device: WebGpuDevice) -> None:
    """Drivers complain of a session without a display."""
    source = (
        "import os\n"
        "from quod.device import devices\n"
        "assert any(row.kind == 'webgpu' for row in devices())\n"
        "assert os.environ.get('XDG_RUNTIME_DIR') == {!r}\n"
    )
    for value in (None, "relative"):
        environment = {name: text for name, text in os.environ.items() if "XDG_RUN" not in name}
        if value is not None:
            environment["XDG_RUNTIME_DIR"] = value
        done = subprocess.run(
            [sys.executable, "-c", source.format(value)], env=environment, text=True,
            capture_output=True, check=True,
        )  # fmt: skip
        assert done.stderr == ""

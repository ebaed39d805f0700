"""Data that is copied to a GPU in blocks and chunks."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from quod.device.protocol import AnyDevice
from quod.groth16.gpu import upload
from quod.groth16.gpu.upload import Copiers, JointUploadBuffer, UploadBuffer


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upload, "_MIN_BLOCK_BYTES", 64)
    monkeypatch.setattr(upload, "_MAX_BLOCK_BYTES", 96)
    monkeypatch.setattr(upload, "_MIN_CHUNK_BYTES", 160)


@pytest.mark.parametrize(
    ("values", "threads"), [(1, 5), (2, 1), (5, 2), (12, 5), (13, 1), (40, 2), (101, 1), (101, 5)]
)
def test_every_value_is_uploaded(gpu_device: AnyDevice, values: int, threads: int) -> None:
    copiers = Copiers(threads)
    room = UploadBuffer(gpu_device, 32 * values, copiers)
    rng = np.random.default_rng(values)
    for _ in range(3):
        rows = rng.integers(0, 1 << 32, (values, 8), np.uint32)
        room.fill(rows)
        downloaded = np.zeros_like(rows)
        gpu_device.download(room.buffer, downloaded)
        assert np.array_equal(downloaded, rows)
        # Every other row of an array, which is not contiguous.
        room.fill(np.repeat(rows[::-1], 2, axis=0)[::2])
        gpu_device.download(room.buffer, downloaded)
        assert np.array_equal(downloaded, rows[::-1])
    copiers.close()


def test_concurrent_array_uploads(gpu_device: AnyDevice) -> None:
    """From the host and from the device's memory; zeros are behind them, and nothing else."""
    room = JointUploadBuffer(gpu_device, 8, 96)
    rng = np.random.default_rng(8)
    gpu_device.upload(np.full(8 * 24, 0xFFFFFFFF, np.uint32), into=room.buffer)
    for count, size in ((3, 4), (1, 1), (5, 8), (2, 2)):
        before, downloaded = np.empty((8, 3, 8), np.uint32), np.empty((8, 3, 8), np.uint32)
        gpu_device.download(room.buffer, before)
        arrays = rng.integers(0, 1 << 32, (count, 3, 8), np.uint32)
        there = gpu_device.upload(arrays[-1])
        room.fill([*arrays[:-1], there] if count > 2 else list(arrays), size)
        gpu_device.download(room.buffer, downloaded)
        assert np.array_equal(downloaded[:count], arrays)
        assert not downloaded[count:size].any()
        assert np.array_equal(downloaded[size:], before[size:])


def test_failure_in_another_thread_is_raised() -> None:
    copiers, started = Copiers(2), threading.Event()

    def fail() -> None:
        started.set()
        raise MemoryError("no room")

    def wait() -> None:
        assert started.wait(60)

    with pytest.raises(MemoryError, match="no room"):
        copiers.run(fail, 2, wait)
    copiers.close()

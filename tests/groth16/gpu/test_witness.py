"""Witnesses that are copied to a GPU in pieces and chunks."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from quod.device.protocol import AnyDevice
from quod.groth16.gpu import witness
from quod.groth16.gpu.witness import Copiers, WitnessBuffer


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(witness, "_LEAST_PIECE", 64)
    monkeypatch.setattr(witness, "_MOST_PIECE", 96)
    monkeypatch.setattr(witness, "_CHUNK", 160)


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("values", [1, 2, 5, 12, 13, 40, 101])
def test_every_value_arrives(gpu_device: AnyDevice, values: int, threads: int) -> None:
    copiers = Copiers(threads)
    room = WitnessBuffer(gpu_device, 32 * values, copiers)
    rng = np.random.default_rng(values)
    for _ in range(3):
        given = rng.integers(0, 1 << 32, (values, 8), np.uint32)
        room.fill(given)
        found = np.zeros_like(given)
        gpu_device.download(room.buffer, found)
        assert np.array_equal(found, given)
        # Every other row of an array, which is not contiguous.
        room.fill(np.repeat(given[::-1], 2, axis=0)[::2])
        gpu_device.download(room.buffer, found)
        assert np.array_equal(found, given[::-1])
    copiers.close()


def test_a_failure_of_another_thread_is_not_lost() -> None:
    copiers, begun = Copiers(2), threading.Event()

    def fail() -> None:
        begun.set()
        raise MemoryError("no room")

    def wait() -> None:
        assert begun.wait(10)

    with pytest.raises(MemoryError, match="no room"):
        copiers.run(fail, 2, wait)
    copiers.close()

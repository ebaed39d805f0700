"""Memory and launches of the tests of streams."""

from __future__ import annotations

import numpy as np

from quod.device import Buffer
from quod.device.protocol import AnyDevice

COUNT = 1000


def groups_of(device: AnyDevice) -> int:
    return -(-COUNT // device.lanes)


def words(device: AnyDevice, count: int = COUNT) -> Buffer:
    return device.allocate(4 * count)


def values(device: AnyDevice, buffer: Buffer) -> list[int]:
    words = np.zeros(buffer.nbytes // 4, np.uint32)
    device.download(buffer, words)
    return words.tolist()

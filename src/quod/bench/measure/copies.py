"""Copies within a device's memory, as a peer that moves as many bytes as a case."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from time import perf_counter
from typing import Any

import numpy as np

from quod.bench.measure.harness import Seconds
from quod.device.protocol import AnyDevice, in_host_memory


def copied(device: AnyDevice, moved: int) -> Callable[[], object]:
    """Return a function that copies `moved` / 2 bytes; each is read and written, so counts twice.

    On a CPU all threads copy.
    """
    words = np.zeros(moved // 8, np.uint32)
    if not in_host_memory(device):
        source, target = device.upload(words), device.allocate(words.nbytes)
        recording = device.stream("copy").record()
        recording.copy(source, target)
        recording_to_replay = recording.finish().recording
        return lambda: device.stream("copy").replay(recording_to_replay).run()
    pool = ThreadPoolExecutor(device.threads)
    pairs = [np.array_split(array, device.threads) for array in (np.ones_like(words), words)]
    return partial(_time_copies, pool, *pairs)


def _time_copies(pool: ThreadPoolExecutor, targets: list[Any], sources: list[Any]) -> Seconds:
    begin = perf_counter()
    list(pool.map(np.copyto, targets, sources))
    return Seconds(perf_counter() - begin)

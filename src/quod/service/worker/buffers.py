"""Page-locked buffers for witnesses, from which the device copies asynchronously."""

from __future__ import annotations

import threading
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from quod.device.protocol import AnyDevice, in_host_memory

Bytes = NDArray[np.uint8]

HEADER_BYTES = 256
"""The maximum size of a witness file's header, before its values."""


class WitnessBuffers:
    """Up to `count` buffers for witnesses of up to `nbytes` bytes, within a budget in bytes.

    All buffers are allocated at once, as page-locking stalls a device that computes. A device that
    computes in host memory or has a single queue gets no buffers. A witness keeps its buffer until
    it has been copied to the device; any thread may then return the buffer.
    """

    def __init__(self, device: AnyDevice, nbytes: int, count: int, budget: int) -> None:
        self.nbytes = nbytes + HEADER_BYTES if nbytes else 0
        if not nbytes or in_host_memory(device) or device.single_queue:
            count = 0
        self.count = min(count, budget // self.nbytes) if count else 0
        self._free: list[Bytes] = [device.pinned(self.nbytes) for _ in range(self.count)]
        self._changed = threading.Condition()

    def take(self, nbytes: int, *, given_up: Callable[[], bool]) -> Bytes | None:
        """Take a buffer for `nbytes` bytes, waiting for one.

        Returns None if no buffer is that large, or once `given_up` returns true.
        """
        if not self.count or nbytes > self.nbytes:
            return None
        with self._changed:
            while not self._free:
                if given_up():
                    return None
                self._changed.wait(0.5)
            return self._free.pop()

    def give_back(self, buffer: Bytes) -> None:
        """Return a buffer that is no longer read."""
        with self._changed:
            self._free.append(buffer)
            self._changed.notify()

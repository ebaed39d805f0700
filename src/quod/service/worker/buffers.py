"""Page-locked memory that witnesses are read into, from which the device copies them by itself."""

from __future__ import annotations

import threading
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from quod.device.protocol import AnyDevice, in_host_memory

Bytes = NDArray[np.uint8]

HEADER_BYTES = 256
"""The most bytes that a witness file may have before its values."""


class WitnessBuffers:
    """Up to `count` buffers for witnesses of up to `nbytes` bytes, within `budget` bytes in all.

    All of them are made now: locking pages while a device computes holds it up. There are none for
    a device that computes in host memory, or that copies by itself what it is given. One that is
    taken is its witness's until it was copied, so that what has none waits: any thread gives back.
    """

    def __init__(self, device: AnyDevice, nbytes: int, count: int, budget: int) -> None:
        self.nbytes = nbytes + HEADER_BYTES if nbytes else 0
        if not nbytes or in_host_memory(device) or device.single_queue:
            count = 0
        self.count = min(count, budget // self.nbytes) if count else 0
        self._free: list[Bytes] = [device.pinned(self.nbytes) for _ in range(self.count)]
        self._changed = threading.Condition()

    def take(self, nbytes: int, *, given_up: Callable[[], bool]) -> Bytes | None:
        """So many bytes, waited for; None once it is `given_up`, and where no buffer is so long."""
        if not self.count or nbytes > self.nbytes:
            return None
        with self._changed:
            while not self._free:
                if given_up():
                    return None
                self._changed.wait(0.5)
            return self._free.pop()

    def give_back(self, buffer: Bytes) -> None:
        """One that was taken; nothing reads it any more."""
        with self._changed:
            self._free.append(buffer)
            self._changed.notify()

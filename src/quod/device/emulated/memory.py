"""The memory of an emulated device, at addresses that the host cannot dereference.

Memory that is not zeroed is filled with a pattern, so that reads of uninitialised memory are found.
"""

from __future__ import annotations

import threading
import weakref

import numpy as np

from quod.device.memory.budget import OutOfMemory, byte_count, bytes_text
from quod.device.memory.buffer import Array, Buffer, Space
from quod.errors import DeviceError

ALIGNMENT = 256
POISON = 0xFB
"""The byte that fills unwritten memory: as an index or a count it exceeds every buffer."""

# Above all host memory, as a recording distinguishes memory only by address.
_FIRST_ADDRESS = 1 << 60


class _Allocation:
    """One allocation."""

    def __init__(self, address: int, data: Array) -> None:
        self.address = address
        self.data = data


class EmulatedMemory:
    """Allocations at addresses that are never reused, each followed by a gap."""

    def __init__(self, space: Space, limit: int) -> None:
        self.space = space
        self.limit = limit
        self.in_use = 0
        self.peak = 0
        self._next = _FIRST_ADDRESS
        # An allocation may be garbage-collected, and so freed, while another is made.
        self._lock = threading.RLock()

    def allocate(self, nbytes: int, *, zero: bool) -> Buffer:
        """Allocate `nbytes` bytes; raise DeviceError if fewer are free."""
        nbytes = byte_count(nbytes)
        with self._lock:
            if self.in_use + nbytes > self.limit:
                raise OutOfMemory(
                    f"no memory for a buffer of {bytes_text(nbytes)}: "
                    f"{bytes_text(self.in_use)} of {bytes_text(self.limit)} are in use"
                )
            data = Buffer.zeros(nbytes).view(np.uint8)
            if not zero:
                data.fill(POISON)
            self.in_use += nbytes
            self.peak = max(self.peak, self.in_use)
            address = self._next
            self._next += (nbytes // ALIGNMENT + 2) * ALIGNMENT
        allocation = _Allocation(address, data)
        weakref.finalize(allocation, self._release, nbytes)
        return Buffer(allocation, address, nbytes, space=self.space)

    def _release(self, nbytes: int) -> None:
        with self._lock:
            self.in_use -= nbytes

    def bytes_of(self, buffer: Buffer) -> Array:
        """Return a writable view of the bytes of a buffer."""
        self.space.check()
        if buffer.space is not self.space:
            raise DeviceError(
                f"the memory belongs to {buffer.space.name}, which {self.space.name} does not reach"
            )
        allocation = buffer.owner
        assert isinstance(allocation, _Allocation)
        start = buffer.address - allocation.address
        return allocation.data[start : start + buffer.nbytes]


def whole_allocation(buffer: Buffer) -> Buffer:
    """Return the whole allocation that contains a buffer."""
    allocation = buffer.owner
    assert isinstance(allocation, _Allocation)
    return Buffer(allocation, allocation.address, allocation.data.nbytes, space=buffer.space)

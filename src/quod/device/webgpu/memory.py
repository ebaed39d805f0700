"""Memory of a WebGPU device: each allocation is one driver buffer with virtual addresses.

WebGPU has no addresses. Recordings distinguish memory by address, so each allocation gets a range
that is never reused, followed by a gap.
"""

from __future__ import annotations

import threading
import weakref
from collections import deque
from typing import Any

from quod.device.memory.budget import byte_count, bytes_text
from quod.device.memory.buffer import Buffer, Space
from quod.device.webgpu.native import Native, WebGpuError
from quod.errors import DeviceError

ALIGNMENT = 256
"""The alignment in bytes of virtual addresses and of bindings, as in WebGPU's default limits."""
_SIZE_GRANULARITY = 16
"""The size of a driver buffer is a multiple of this number of bytes."""

# Above all addresses of host memory and of other devices.
_FIRST_ADDRESS = 1 << 59


class Allocation:
    """A driver buffer.

    address: its made-up address.
    nbytes: the requested size in bytes.
    handle: the driver's buffer.
    size: `nbytes` rounded up to the driver buffer's size.
    """

    __slots__ = ("__weakref__", "address", "handle", "nbytes", "size")

    def __init__(self, address: int, nbytes: int, handle: Any, size: int) -> None:
        self.address = address
        self.nbytes = nbytes
        self.handle = handle
        self.size = size


class WebGpuMemory:
    """Allocates up to `limit` bytes, in buffers of at most `largest` bytes.

    Unreferenced buffers are destroyed by a later call of `destroy_unreferenced` and not by their
    finalizers: the garbage collector may run these in any thread, even while it holds a lock.
    """

    def __init__(
        self, native: Native, device: Any, space: Space, name: str, limit: int, largest: int
    ) -> None:
        self._native = native
        self._device = device
        self._space = space
        self._name = name
        self.limit = limit
        self._max_buffer_bytes = largest
        self.in_use = 0
        self.peak = 0
        self._next_address = _FIRST_ADDRESS
        self._lock = threading.Lock()
        self._discarded: deque[tuple[Any, int]] = deque()
        usage = native.wgpu.BufferUsage
        self._usage = usage.STORAGE | usage.COPY_SRC | usage.COPY_DST

    def allocate(self, nbytes: int) -> Buffer:
        """Allocate zeroed memory.

        Raises DeviceError above the limit of the device or of one buffer, and WebGpuError if the
        driver fails.
        """
        nbytes = byte_count(nbytes)
        padded_bytes = max(_SIZE_GRANULARITY, -(-nbytes // _SIZE_GRANULARITY) * _SIZE_GRANULARITY)
        if padded_bytes > self._max_buffer_bytes:
            raise DeviceError(
                f"a buffer of {self._name} has at most {bytes_text(self._max_buffer_bytes)}, not "
                f"{bytes_text(nbytes)}; split the work, or use a device with larger "
                "buffers"
            )
        self.destroy_unreferenced()
        with self._lock:
            if self.in_use + padded_bytes > self.limit:
                raise DeviceError(
                    f"no memory for a buffer of {bytes_text(nbytes)}: {bytes_text(self.in_use)} of "
                    f"{bytes_text(self.limit)} are in use; a larger QUOD_WEBGPU_MEMORY "
                    "allows more (in Python also memory_budget)"
                )
            self.in_use += padded_bytes
            self.peak = max(self.peak, self.in_use)
            address = self._next_address
            self._next_address += (padded_bytes // ALIGNMENT + 2) * ALIGNMENT
        try:
            with self._native.errors():
                handle = self._device.create_buffer(size=padded_bytes, usage=self._usage)
        except BaseException as error:
            with self._lock:
                self.in_use -= padded_bytes
            if isinstance(error, WebGpuError) and error.is_out_of_memory:
                raise WebGpuError(
                    f"no memory for a buffer of {bytes_text(nbytes)}: the driver of "
                    f"{self._name} is out of memory; end other programs, or set a "
                    "smaller QUOD_WEBGPU_MEMORY (in Python also memory_budget)",
                    is_out_of_memory=True,
                ) from error
            raise
        allocation = Allocation(address, nbytes, handle, padded_bytes)
        finalizer = weakref.finalize(allocation, self._discarded.append, (handle, padded_bytes))
        finalizer.atexit = False
        return Buffer(allocation, address, nbytes, space=self._space)

    def destroy_unreferenced(self) -> None:
        """Destroy the driver buffers of allocations that were garbage-collected."""
        while True:
            try:
                handle, padded_bytes = self._discarded.popleft()
            except IndexError:
                # Emptiness is not checked first: another thread may pop the last entry meanwhile.
                return
            handle.destroy()
            with self._lock:
                self.in_use -= padded_bytes


def allocation_and_offset(buffer: Buffer) -> tuple[Allocation, int]:
    """Return the allocation of a buffer and the buffer's byte offset in it."""
    allocation = buffer.owner
    assert isinstance(allocation, Allocation)
    return allocation, buffer.address - allocation.address

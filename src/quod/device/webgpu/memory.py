"""Memory of a WebGPU device: a buffer of the driver's an allocation, at addresses of its own.

WebGPU has no addresses. What is recorded is told apart by them, so each allocation gets a range
that nothing else ever has, with a gap behind it.
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
_WORDS = 16
"""Sizes are multiples of it."""

# Where no host memory is, and no memory of other devices either.
_FIRST_ADDRESS = 1 << 59


class Allocation:
    """A buffer of the driver's. `handle` is that, `size` its bytes with what fills it up."""

    __slots__ = ("__weakref__", "address", "handle", "nbytes", "size")

    def __init__(self, address: int, nbytes: int, handle: Any, size: int) -> None:
        self.address = address
        self.nbytes = nbytes
        self.handle = handle
        self.size = size


class WebGpuMemory:
    """Allocations up to a limit, which is what the device may use.

    Memory that nobody has any more is given back at the next call that uses the device: the
    garbage collector may run anywhere.
    """

    def __init__(
        self, native: Native, device: Any, space: Space, name: str, limit: int, largest: int
    ) -> None:
        self._native = native
        self._device = device
        self._space = space
        self._name = name
        self.limit = limit
        self._largest = largest
        self.in_use = 0
        self.peak = 0
        self._next = _FIRST_ADDRESS
        self._lock = threading.Lock()
        self._discarded: deque[tuple[Any, int]] = deque()
        usage = native.wgpu.BufferUsage
        self._usage = usage.STORAGE | usage.COPY_SRC | usage.COPY_DST

    def allocate(self, nbytes: int) -> Buffer:
        """Zeroed memory; DeviceError if there is too little, or one buffer cannot have so much."""
        nbytes = byte_count(nbytes)
        size = max(_WORDS, -(-nbytes // _WORDS) * _WORDS)
        if size > self._largest:
            raise DeviceError(
                f"a buffer of {self._name} has at most {bytes_text(self._largest)}, not "
                f"{bytes_text(nbytes)}; split what is computed, or take a device that reaches more"
            )
        self.clear_away()
        with self._lock:
            if self.in_use + size > self.limit:
                raise DeviceError(
                    f"no memory for a buffer of {bytes_text(nbytes)}: {bytes_text(self.in_use)} of "
                    f"{bytes_text(self.limit)} are in use; a larger memory_budget or "
                    "QUOD_WEBGPU_MEMORY allows more"
                )
            self.in_use += size
            self.peak = max(self.peak, self.in_use)
            address = self._next
            self._next += (size // ALIGNMENT + 2) * ALIGNMENT
        try:
            with self._native.errors():
                handle = self._device.create_buffer(size=size, usage=self._usage)
        except BaseException as error:
            with self._lock:
                self.in_use -= size
            if isinstance(error, WebGpuError) and error.is_out_of_memory:
                raise WebGpuError(
                    f"no memory for a buffer of {bytes_text(nbytes)}: the driver of {self._name} "
                    "has no more; give the device a smaller memory_budget or end other programs",
                    is_out_of_memory=True,
                ) from error
            raise
        allocation = Allocation(address, nbytes, handle, size)
        finalizer = weakref.finalize(allocation, self._discarded.append, (handle, size))
        finalizer.atexit = False
        return Buffer(allocation, address, nbytes, space=self._space)

    def clear_away(self) -> None:
        """Gives the driver back what nobody has any more."""
        while True:
            try:
                handle, size = self._discarded.popleft()
            except IndexError:
                # Not asked before: another thread may take the last one meanwhile.
                return
            handle.destroy()
            with self._lock:
                self.in_use -= size


def place_of(buffer: Buffer) -> tuple[Allocation, int]:
    """The allocation that a buffer is part of, and the byte of it at which it begins."""
    allocation = buffer.owner
    assert isinstance(allocation, Allocation)
    return allocation, buffer.address - allocation.address

"""Page-locked host memory, from and to which a GPU copies without the CPU."""

from __future__ import annotations

import ctypes
import threading
import weakref
from collections import deque

import numpy as np

from quod.device.cuda.driver import CudaError, Driver
from quod.device.memory.budget import byte_count, bytes_text
from quod.device.memory.buffer import Array
from quod.errors import DeviceError

_PORTABLE = 1  # CU_MEMHOSTALLOC_PORTABLE
# Sizes are multiples of a granule, so that freed memory fits requests of nearly the same size.
_SMALL_GRANULE = 64 << 10
_LARGE_GRANULE = 2 << 20
# Locking a page takes longer than copying it, so freed memory is kept for the next request.
_KEPT_BYTES = 4 << 30


class PinnedMemory:
    """Page-locked arrays, allocated in the caller's current context. Safe from any thread."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._lock = threading.Lock()
        self._kept: dict[int, list[int]] = {}
        self._kept_bytes = 0
        self._in_use = 0
        self._returned: deque[tuple[int, int]] = deque()

    def allocate(self, nbytes: int) -> Array:
        """Allocate uninitialised bytes; raises DeviceError if the system cannot lock more pages."""
        nbytes = byte_count(nbytes)
        granule = _SMALL_GRANULE if nbytes < _LARGE_GRANULE else _LARGE_GRANULE
        size = max(1, -(-nbytes // granule)) * granule
        with self._lock:
            self._take_returned()
            idle_blocks = self._kept.get(size)
            if idle_blocks:
                address = idle_blocks.pop()
                self._kept_bytes -= size
            else:
                address = self._allocate_locked(size)
            self._in_use += 1
        # The array's memory is this object, which lives as long as any view of it.
        owner = (ctypes.c_uint8 * size).from_address(address)
        finalizer = weakref.finalize(owner, self._returned.append, (address, size))
        finalizer.atexit = False
        memory: Array = np.frombuffer(memoryview(owner), np.uint8)
        return memory[:nbytes]

    def _allocate_locked(self, size: int) -> int:
        try:
            return int(self._driver.cuMemHostAlloc(size, _PORTABLE))
        except CudaError as error:
            if not error.is_out_of_memory:
                raise
        self._free_kept()
        try:
            return int(self._driver.cuMemHostAlloc(size, _PORTABLE))
        except CudaError as error:
            if not error.is_out_of_memory:
                raise
            raise DeviceError(
                f"the system cannot lock {bytes_text(size)} of host memory for the GPU; "
                "free memory or use an ordinary array"
            ) from error

    def _take_returned(self) -> None:
        while self._returned:
            address, size = self._returned.popleft()
            self._in_use -= 1
            if self._kept_bytes + size > _KEPT_BYTES:
                self._driver.cuMemFreeHost(address)
            else:
                self._kept.setdefault(size, []).append(address)
                self._kept_bytes += size

    def _free_kept(self) -> None:
        for addresses in self._kept.values():
            for address in addresses:
                self._driver.cuMemFreeHost(address)
        self._kept.clear()
        self._kept_bytes = 0

    def close(self, *, lost: bool) -> None:
        """Unlock the memory that no array uses.

        Memory still in use (`is_in_use`) belongs to the context, which must then be kept. The
        memory of a `lost` context is not freed here, as it goes with the context.
        """
        with self._lock:
            while self._returned:
                address, size = self._returned.popleft()
                self._in_use -= 1
                self._kept.setdefault(size, []).append(address)
            if not lost:
                self._free_kept()

    @property
    def is_in_use(self) -> bool:
        """True if arrays use memory; `allocate` and `close` take returned memory into account."""
        with self._lock:
            return self._in_use > 0

"""A GPU's memory: segments from the driver, split into blocks that are reused.

A request takes the smallest free block that fits; the remainder stays free, and returned blocks are
merged with free neighbours. Blocks below a mebibyte have separate segments, so that small,
long-lived buffers do not split large ones. Unused segments are returned to the driver when the
driver is out of memory.

A buffer returns its block when it is garbage-collected. Submitted work keeps its buffers alive
until it is done, so no submitted work on any stream uses a free block.
"""

from __future__ import annotations

import threading
import weakref
from bisect import bisect_left, insort
from collections import deque

from quod.device.cuda.driver import CudaError, Driver
from quod.device.memory.budget import OutOfMemory, byte_count, bytes_text
from quod.device.memory.buffer import Buffer, Space
from quod.errors import DeviceError
from quod.frozen import frozen

# Requests of up to this size are small; granules and segments are explained in `_Arena`.
_SMALL_BYTES = 1 << 20
_SMALL_GRANULE = 512
_LARGE_GRANULE = 2 << 20
_SMALL_SEGMENT = 8 << 20
_LARGE_SEGMENT = 64 << 20


@frozen
class PoolStatistics:
    """The state of a pool in bytes: used by buffers, reserved from the driver, and the peaks.

    largest_free: size of the largest free block in the pool's segments.
    segments: number of allocations from the driver.
    kept: number of `requests` that were satisfied without the driver.
    """

    in_use: int
    reserved: int
    peak_in_use: int
    peak_reserved: int
    largest_free: int
    segments: int
    requests: int
    kept: int

    @property
    def fragmentation(self) -> float:
        """Fraction of the free memory outside the largest free block."""
        free = self.reserved - self.in_use
        return 1 - self.largest_free / free if free else 0.0


class _Block:
    """A part of a segment, linked to its neighbours."""

    __slots__ = ("after", "before", "is_free", "size", "start")

    def __init__(self, start: int, size: int) -> None:
        self.start, self.size, self.is_free = start, size, False
        self.before: _Block | None = None
        self.after: _Block | None = None


class _Arena:
    """The blocks of one size class, and their segments.

    granule: the sizes of blocks are multiples of this number of bytes.
    segment: the usual size of a segment in bytes.
    """

    def __init__(self, granule: int, segment: int) -> None:
        self.granule = granule
        self.segment = segment
        self.segments: dict[int, int] = {}
        self._free: list[tuple[int, int, _Block]] = []

    def rounded(self, nbytes: int) -> int:
        return max(1, -(-nbytes // self.granule)) * self.granule

    @property
    def largest_free(self) -> int:
        return self._free[-1][0] if self._free else 0

    def add_segment(self, start: int, size: int) -> None:
        self.segments[start] = size
        self._insert_free(_Block(start, size))

    def allocate(self, size: int) -> _Block | None:
        """Take a block of `size` bytes from the smallest free block with room; None without one."""
        index = bisect_left(self._free, (size,))
        if index == len(self._free):
            return None
        block = self._free.pop(index)[2]
        block.is_free = False
        if block.size > size:
            remainder = _Block(block.start + size, block.size - size)
            remainder.before, remainder.after = block, block.after
            if block.after is not None:
                block.after.before = remainder
            block.after, block.size = remainder, size
            self._insert_free(remainder)
        return block

    def release(self, block: _Block) -> None:
        """Free a block and merge it with free neighbours."""
        before, after = block.before, block.after
        if after is not None and after.is_free:
            self._remove_free(after)
            block.size += after.size
            block.after = after.after
            if after.after is not None:
                after.after.before = block
        if before is not None and before.is_free:
            self._remove_free(before)
            before.size += block.size
            before.after = block.after
            if block.after is not None:
                block.after.before = before
            block = before
        self._insert_free(block)

    def take_unused_segments(self) -> list[tuple[int, int]]:
        """Remove the segments that are wholly free; return their addresses and sizes."""
        unused = [
            (block.start, block.size)
            for size, start, block in self._free
            if self.segments.get(start) == size
        ]
        for start, _ in unused:
            del self.segments[start]
        unused_starts = {start for start, _ in unused}
        self._free = [row for row in self._free if row[1] not in unused_starts]
        return unused

    def _insert_free(self, block: _Block) -> None:
        block.is_free = True
        insort(self._free, (block.size, block.start, block))

    def _remove_free(self, block: _Block) -> None:
        del self._free[bisect_left(self._free, (block.size, block.start))]


class _Allocation:
    """The owner of a block, which its buffers keep alive."""

    __slots__ = ("__weakref__",)


class MemoryPool:
    """The memory of one GPU, in its current context.

    limit: maximum bytes that buffers may use at a time.
    Safe to use from any thread in which the context is current.
    """

    def __init__(self, driver: Driver, space: Space, device: str, limit: int) -> None:
        self._driver = driver
        self._space = space
        self._device = device
        self.limit = limit
        self._lock = threading.Lock()
        self._small = _Arena(_SMALL_GRANULE, _SMALL_SEGMENT)
        self._large = _Arena(_LARGE_GRANULE, _LARGE_SEGMENT)
        # Blocks freed by the garbage collector, which may run while the lock is held; the next
        # request processes them.
        self._returned: deque[tuple[_Arena, _Block]] = deque()
        self._in_use = self._reserved = self._peak_in_use = self._peak_reserved = 0
        self._requests = self._kept = 0

    def allocate(self, nbytes: int) -> Buffer:
        """Allocate uninitialised memory, aligned to 512 bytes.

        Raises DeviceError, which says how much memory there is, if there is too little.
        """
        nbytes = byte_count(nbytes)
        arena = self._small if nbytes <= _SMALL_BYTES else self._large
        size = arena.rounded(nbytes)
        with self._lock:
            self._take_returned()
            if self._in_use + size > self.limit:
                raise OutOfMemory(
                    f"no memory for a buffer of {bytes_text(nbytes)} on {self._device}: "
                    f"{bytes_text(self._in_use)} of the budget of {bytes_text(self.limit)} are in "
                    "use"
                )
            block = arena.allocate(size)
            self._requests += 1
            if block is None:
                self._grow(arena, size, nbytes)
                block = arena.allocate(size)
                assert block is not None
            else:
                self._kept += 1
            self._in_use += block.size
            self._peak_in_use = max(self._peak_in_use, self._in_use)
        owner = _Allocation()
        finalizer = weakref.finalize(owner, self._returned.append, (arena, block))
        finalizer.atexit = False
        return Buffer(owner, block.start, nbytes, space=self._space)

    def _grow(self, arena: _Arena, size: int, nbytes: int) -> None:
        """Add a segment, if possible of the usual size, with room for a block of `size` bytes.

        Raises DeviceError, which names the requested `nbytes`, if the driver is out of memory.
        """
        segment_bytes = max(size, arena.segment)
        for size_to_try in (segment_bytes, size):
            try:
                start = int(self._driver.cuMemAlloc(size_to_try))
            except CudaError as error:
                if not error.is_out_of_memory:
                    raise
                self._release_unused()
                continue
            arena.add_segment(start, size_to_try)
            self._reserved += size_to_try
            self._peak_reserved = max(self._peak_reserved, self._reserved)
            return
        raise DeviceError(self._shortage(nbytes))

    def _shortage(self, nbytes: int) -> str:
        free, total = self._driver.cuMemGetInfo()
        other_bytes = max(0, total - free - self._reserved)
        return (
            f"no memory for a buffer of {bytes_text(nbytes)} on {self._device}: "
            f"{bytes_text(free)} of {bytes_text(total)} are free, "
            f"{bytes_text(self._reserved)} are reserved by this device "
            f"({bytes_text(self._in_use)} in use) and {bytes_text(other_bytes)} by the "
            "driver and other processes; free memory or split the work"
        )

    def _take_returned(self) -> None:
        while self._returned:
            arena, block = self._returned.popleft()
            self._in_use -= block.size
            arena.release(block)

    def _release_unused(self) -> None:
        for arena in (self._small, self._large):
            for start, size in arena.take_unused_segments():
                self._driver.cuMemFree(start)
                self._reserved -= size

    def statistics(self) -> PoolStatistics:
        with self._lock:
            self._take_returned()
            return PoolStatistics(
                self._in_use, self._reserved, self._peak_in_use, self._peak_reserved,
                max(self._small.largest_free, self._large.largest_free),
                len(self._small.segments) + len(self._large.segments), self._requests, self._kept,
            )  # fmt: skip

    def close(self) -> None:
        """Free all segments. Buffers in them must not be used any more."""
        with self._lock:
            for arena in (self._small, self._large):
                for start in arena.segments:
                    self._driver.cuMemFree(start)
                arena.segments.clear()
            self._reserved = self._in_use = 0

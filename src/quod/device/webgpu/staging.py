"""Staging buffers: memory that both the host and the GPU access, reused by many copies.

A buffer for uploads is mapped again as soon as the GPU has read it, and is then free.

A copy takes buffers through a `StagingLease`. The end of the lease destroys those still held, so a
copy that fails or is interrupted keeps none. A copy never waits for a buffer while it holds others
of the ring, so copies do not deadlock.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from typing import Any

from quod.device.memory.buffer import Array
from quod.device.webgpu.native import READ, WRITE, Mapping, Native
from quod.device.webgpu.queue import WebGpuQueue
from quod.errors import DeviceError

CHUNK_BYTES = 8 << 20
"""Bytes of the chunks of longer copies."""
RING_BYTES = 64 << 20
"""Bytes of staging memory that each direction retains."""
_SMALLEST = 4 << 10


class StagingBuffer:
    """A buffer that the host reaches while it is mapped."""

    __slots__ = ("__weakref__", "handle", "mapping", "nbytes")

    def __init__(self, handle: Any, nbytes: int) -> None:
        self.handle = handle
        self.nbytes = nbytes
        self.mapping: Mapping | None = None

    @property
    def is_mapped(self) -> bool:
        return self.mapping is not None and self.mapping.is_done and not self.mapping.refusal


def size_class(nbytes: int) -> int:
    """Return the size of the staging buffer for `nbytes`: a power of two, at least a minimum."""
    return max(_SMALLEST, 1 << max(0, nbytes - 1).bit_length())


class StagingRing:
    """Staging buffers of one direction: at most `RING_BYTES` in total."""

    def __init__(self, native: Native, device: Any, *, upload: bool) -> None:
        self._native = native
        self._device = device
        self._upload = upload
        usage = native.wgpu.BufferUsage
        self._usage = (
            usage.MAP_WRITE | usage.COPY_SRC if upload else usage.MAP_READ | usage.COPY_DST
        )
        self._lock = threading.Lock()
        # Weak, so that a buffer that an interrupt has lost does not count for ever.
        self._all: weakref.WeakSet[StagingBuffer] = weakref.WeakSet()
        self._idle: list[StagingBuffer] = []
        # Buffers for uploads that the GPU may still read.
        self._returning: list[StagingBuffer] = []

    @property
    def nbytes(self) -> int:
        """The bytes of all its buffers, free or not."""
        with self._lock:
            return self._total()

    def _total(self) -> int:
        return sum(buffer.nbytes for buffer in self._all)

    def acquire(
        self, nbytes: int, held: set[StagingBuffer], *, always: bool = False
    ) -> StagingBuffer | None:
        """Take a buffer of at least `nbytes` and add it to `held`; one for uploads is mapped.

        Returns None if the ring is full, unless `always`.
        """
        size = size_class(nbytes)
        with self._lock:
            self._collect()
            for buffer in self._idle:
                if buffer.nbytes == size:
                    held.add(buffer)
                    self._idle.remove(buffer)
                    return buffer
            if not self._make_room(size) and not always:
                return None
            # Counted before its memory is allocated, so that no other thread takes the space.
            new_buffer = StagingBuffer(None, size)
            self._all.add(new_buffer)
        try:
            with self._native.errors():
                new_buffer.handle = self._device.create_buffer(
                    size=size, usage=self._usage, mapped_at_creation=self._upload
                )
        except BaseException:
            with self._lock:
                self._all.discard(new_buffer)
            raise
        held.add(new_buffer)
        return new_buffer

    def _collect(self) -> None:
        returned_buffers = [
            buffer for buffer in self._returning if buffer.mapping and buffer.mapping.is_done
        ]
        for buffer in returned_buffers:
            self._returning.remove(buffer)
            if buffer.is_mapped:
                self._idle.append(buffer)
            else:
                self._all.discard(buffer)

    def _make_room(self, size: int) -> bool:
        """Destroy idle buffers until `size` bytes fit; return whether they fit."""
        while (full := self._total() + size > RING_BYTES) and self._idle:
            oldest_buffer = self._idle.pop(0)
            self._all.discard(oldest_buffer)
            oldest_buffer.handle.destroy()
        return not full

    def write(self, buffer: StagingBuffer, data: Array) -> None:
        """Put bytes into a buffer for an upload, and pass it to the GPU."""
        target = self._native.mapped_bytes(buffer.handle, buffer.nbytes, mode=WRITE)
        target[: data.nbytes] = data
        # No view of the memory may be left when it is unmapped.
        del target
        self._native.unmap(buffer.handle)

    def begin_reading(self, buffer: StagingBuffer) -> None:
        """Start mapping a buffer to read a download; call it after its submission."""
        buffer.mapping = self._native.map(buffer.handle, READ, buffer.nbytes)

    def read(self, buffer: StagingBuffer, start: int, target: Array) -> None:
        """Copy bytes from `start` on to host memory."""
        source = self._native.mapped_bytes(buffer.handle, buffer.nbytes, mode=READ)
        target[:] = source[start : start + target.nbytes]
        del source
        self._native.unmap(buffer.handle)

    def drop(self, buffer: StagingBuffer) -> None:
        """Destroy a buffer."""
        with self._lock:
            self._all.discard(buffer)
        buffer.handle.destroy()

    def release(self, buffer: StagingBuffer) -> None:
        """Make a buffer reusable; one for uploads once the submitted work has read it."""
        if self._upload:
            buffer.mapping = self._native.map(buffer.handle, WRITE, buffer.nbytes)
            with self._lock:
                self._returning.append(buffer)
        else:
            buffer.mapping = None
            with self._lock:
                self._idle.append(buffer)


class StagingLease:
    """The staging buffers of one copy or one run of a recording; a context manager."""

    def __init__(self, ring: StagingRing, queue: WebGpuQueue) -> None:
        self._ring = ring
        self._queue = queue
        self._held: set[StagingBuffer] = set()

    def __enter__(self) -> StagingLease:
        return self

    def __exit__(self, *_: object) -> None:
        self.drop()

    def acquire(
        self, nbytes: int, let_go: Callable[[], bool], stop: Callable[[], bool] | None = None
    ) -> StagingBuffer:
        """Take a buffer of at least `nbytes`, waiting if the ring is full.

        let_go: releases some or all of the caller's buffers and returns False if it has none;
        called before waiting.
        stop: ends the wait if it returns True. Raises DeviceError then.
        """
        acquired: list[StagingBuffer] = []

        def try_acquire() -> bool:
            staging_buffer = self._ring.acquire(nbytes, self._held)
            if staging_buffer is not None:
                acquired.append(staging_buffer)
            return staging_buffer is not None

        while not try_acquire():
            if not let_go():
                if not self._queue.wait(try_acquire, stop):
                    raise DeviceError("the copy was stopped")
                break
        return acquired[0]

    def acquire_short(self, nbytes: int) -> StagingBuffer:
        """Take a buffer for a few bytes at once, even if the ring is full."""
        staging_buffer = self._ring.acquire(nbytes, self._held, always=True)
        assert staging_buffer is not None
        return staging_buffer

    def release(self, buffer: StagingBuffer) -> None:
        """Return a buffer to the ring; the GPU may still read one for an upload."""
        self._held.discard(buffer)
        self._ring.release(buffer)

    def drop(self) -> None:
        """Destroy the buffers still held, after failed work; the GPU may still use them."""
        while self._held:
            buffer = self._held.pop()
            if not self._queue.is_dead:
                self._ring.drop(buffer)

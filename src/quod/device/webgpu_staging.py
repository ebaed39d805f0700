"""Memory between the host's and the GPU's: buffers that both reach, taken and given back.

Those for uploads are mapped again as soon as the GPU has read them, and are then free.
"""

from __future__ import annotations

import threading
from typing import Any

from quod.device.buffer import Array
from quod.device.webgpu_native import READ, WRITE, Mapping, Native

CHUNK_BYTES = 8 << 20
"""Longer copies go in pieces of so many bytes."""
RING_BYTES = 64 << 20
"""What is kept for each direction."""
_SMALLEST = 4 << 10


class StagingBuffer:
    """A buffer that the host reaches while it is mapped."""

    __slots__ = ("handle", "mapping", "nbytes")

    def __init__(self, handle: Any, nbytes: int) -> None:
        self.handle = handle
        self.nbytes = nbytes
        self.mapping: Mapping | None = None

    @property
    def is_mapped(self) -> bool:
        return self.mapping is not None and self.mapping.is_done and not self.mapping.refusal


def size_class(nbytes: int) -> int:
    """The size of the staging buffer for a piece of so many bytes: a power of two."""
    return max(_SMALLEST, 1 << max(0, nbytes - 1).bit_length())


class StagingRing:
    """Staging buffers of one direction: free ones by size, never more than the ring has bytes."""

    def __init__(self, native: Native, device: Any, *, upload: bool) -> None:
        self._native = native
        self._device = device
        self._upload = upload
        usage = native.wgpu.BufferUsage
        self._usage = (
            usage.MAP_WRITE | usage.COPY_SRC if upload else usage.MAP_READ | usage.COPY_DST
        )
        self._lock = threading.Lock()
        self._idle: list[StagingBuffer] = []
        # Of uploads: the GPU may still read them.
        self._returning: list[StagingBuffer] = []
        self.nbytes = 0

    def take(self, nbytes: int) -> StagingBuffer | None:
        """A buffer for at least so many bytes, mapped for an upload; None while there is none."""
        size = size_class(nbytes)
        with self._lock:
            self._collect()
            found = next((buffer for buffer in self._idle if buffer.nbytes == size), None)
            if found is not None:
                self._idle.remove(found)
                return found
            if self.nbytes + size > RING_BYTES and not self._make_room(size):
                return None
            self.nbytes += size
        try:
            with self._native.errors():
                handle = self._device.create_buffer(
                    size=size, usage=self._usage, mapped_at_creation=self._upload
                )
        except BaseException:
            with self._lock:
                self.nbytes -= size
            raise
        return StagingBuffer(handle, size)

    def _collect(self) -> None:
        back = [buffer for buffer in self._returning if buffer.mapping and buffer.mapping.is_done]
        for buffer in back:
            self._returning.remove(buffer)
            if buffer.is_mapped:
                self._idle.append(buffer)
            else:
                self.nbytes -= buffer.nbytes

    def _make_room(self, size: int) -> bool:
        """Lets idle buffers of other sizes go; whether there is room then."""
        while self._idle and self.nbytes + size > RING_BYTES:
            gone = self._idle.pop(0)
            self.nbytes -= gone.nbytes
            gone.handle.destroy()
        return self.nbytes + size <= RING_BYTES

    def write(self, buffer: StagingBuffer, data: Array) -> None:
        """Puts bytes into a buffer for an upload, and leaves it to the GPU."""
        target = self._native.mapped_bytes(buffer.handle, buffer.nbytes, mode=WRITE)
        target[: data.nbytes] = data
        del target
        self._native.unmap(buffer.handle)

    def begin_reading(self, buffer: StagingBuffer) -> None:
        """Asks for what a download has put there; call it when that was submitted."""
        buffer.mapping = self._native.map(buffer.handle, READ, buffer.nbytes)

    def read(self, buffer: StagingBuffer, start: int, target: Array) -> None:
        """Copies bytes from `start` on to host memory."""
        source = self._native.mapped_bytes(buffer.handle, buffer.nbytes, mode=READ)
        target[:] = source[start : start + target.nbytes]
        del source
        self._native.unmap(buffer.handle)

    def drop(self, buffer: StagingBuffer) -> None:
        """It will not be used any more."""
        with self._lock:
            self.nbytes -= buffer.nbytes
        buffer.handle.destroy()

    def give_back(self, buffer: StagingBuffer) -> None:
        """It may be used again; of an upload, once what was submitted has read it."""
        if self._upload:
            buffer.mapping = self._native.map(buffer.handle, WRITE, buffer.nbytes)
            with self._lock:
                self._returning.append(buffer)
        else:
            buffer.mapping = None
            with self._lock:
                self._idle.append(buffer)

"""Uploads to a GPU: threads copy data to page-locked memory, from which it is sent."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence

import numpy as np

from quod.device import host
from quod.device.memory.buffer import Buffer
from quod.device.protocol import AnyDevice
from quod.device.runtime.background import Background
from quod.device.runtime.recording import Recording
from quod.device.runtime.stream import SubmittedStream
from quod.field.array import Words

# The minimum bytes of one transfer to the GPU, during which the next bytes are copied.
_CHUNK = 8 << 20
# The bytes that a thread copies at a time: enough to be worth waking a thread up, and so few that
# all threads end at about the same time.
_LEAST_BLOCK, _MOST_BLOCK = 1 << 18, 4 << 20
_BLOCKS_PER_THREAD = 4

# How long threads wait for the next proof: waking a thread is faster than starting one.
LINGER_SECONDS = 0.05

# The number of threads that saturate the memory.
_MOST_THREADS = 8


class Copiers:
    """Threads that copy data."""

    def __init__(self, threads: int | None = None) -> None:
        self.threads = threads or min(host.usable_threads(), _MOST_THREADS)
        self._others = Background("quod-upload", max(1, self.threads - 1), linger=LINGER_SECONDS)

    def run(self, work: Callable[[], None], threads: int, caller_work: Callable[[], None]) -> None:
        """Run `work` on up to `threads` threads; the caller's thread runs `caller_work` instead."""
        others = [self._others.begin(work) for _ in range(threads - 1)]
        try:
            caller_work()
        finally:
            # Do not wait for a thread that has not woken up yet.
            running = [other for other in others if not other.drop()]
            for other in running:
                other.wait()
        for other in running:
            other.result()

    def close(self) -> None:
        self._others.close()


class UploadBuffer:
    """Memory for `nbytes` on a GPU, with page-locked memory for its upload.

    A device with a single queue has no page-locked memory and copies by itself.
    """

    def __init__(self, device: AnyDevice, nbytes: int, copiers: Copiers) -> None:
        self._device, self._copiers = device, copiers
        self.buffer = device.allocate(nbytes, zero=False)
        if device.single_queue:
            return
        self._pinned = device.pinned(nbytes)
        share = nbytes // (_BLOCKS_PER_THREAD * copiers.threads)
        self._block = min(max(share, _LEAST_BLOCK), _MOST_BLOCK)
        self._blocks_per_chunk = -(-_CHUNK // self._block)
        chunk = self._block * self._blocks_per_chunk
        self._uploads = [
            self._upload(start, min(start + chunk, nbytes)) for start in range(0, nbytes, chunk)
        ]

    def fill(self, words: Words | Buffer, *, pinned: bool = False) -> None:
        """Upload words to `buffer`; work submitted afterwards reads them.

        `pinned` words are in page-locked memory already and sent from there; words in the device's
        memory are copied on the device.
        """
        if isinstance(words, Buffer):
            copying = self._device.stream("upload").record()
            copying.copy(words, self.buffer)
            copying.finish().run()
            return
        if pinned or self._device.single_queue:
            self._device.upload(words, into=self.buffer)
            return
        source = np.ascontiguousarray(words).reshape(-1).view(np.uint8)
        size = self._block
        blocks = deque(range(-(-len(source) // size)))
        copied = [0] * len(self._uploads)
        wanted = [self._blocks_per_chunk] * len(self._uploads)
        wanted[-1] = len(blocks) - sum(wanted[:-1])
        changing = threading.Lock()

        def copy_one() -> bool:
            """Copy the next block, if there is one left."""
            try:
                block = blocks.popleft()
            except IndexError:
                return False
            place = slice(block * size, (block + 1) * size)
            self._pinned[place] = source[place]
            with changing:
                copied[block // self._blocks_per_chunk] += 1
            return True

        def copy() -> None:
            while copy_one():
                pass

        streams: list[SubmittedStream] = []

        def send() -> None:
            while len(streams) < len(wanted) and copied[len(streams)] == wanted[len(streams)]:
                upload = self._uploads[len(streams)]
                streams.append(self._device.stream("upload").replay(upload).submit())

        def copy_and_send() -> None:
            while copy_one():
                send()

        try:
            self._copiers.run(copy, min(self._copiers.threads, len(blocks)), copy_and_send)
            send()
        finally:
            for stream in streams:
                stream.wait()

    def _upload(self, start: int, stop: int) -> Recording:
        stream = self._device.stream("upload").record()
        stream.upload(self._pinned[start:stop], self.buffer.slice(start, stop), label="upload")
        return stream.finish().recording


class JointUploadBuffer:
    """Memory on a GPU for up to `most` arrays of `nbytes` each, which are uploaded as one array."""

    def __init__(self, device: AnyDevice, most: int, nbytes: int) -> None:
        self._device, self._each = device, nbytes
        self.buffer = device.allocate(most * nbytes, zero=False)
        self._host = device.pinned(most * nbytes)

    def fill(self, arrays: Sequence[Words | Buffer], count: int) -> None:
        """Upload concatenated arrays to `buffer`, padded with zeros to `count` arrays.

        Work submitted afterwards reads them. Arrays in device memory are copied on the device.
        """
        each, rows = self._each, self._host.reshape(-1, self._each)
        for row, array in zip(rows, arrays):
            if not isinstance(array, Buffer):
                row[:] = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        rows[len(arrays) : count] = 0
        size = count * each
        self._device.upload(self._host[:size], into=self.buffer.slice(0, size))
        on_device = [place for place, array in enumerate(arrays) if isinstance(array, Buffer)]
        if on_device:
            copying = self._device.stream("upload").record()
            for place in on_device:
                array = arrays[place]
                assert isinstance(array, Buffer)
                copying.copy(array, self.buffer.slice(place * each, (place + 1) * each))
            copying.finish().run()

"""Uploads to a GPU: threads copy data to page-locked memory, from which the GPU copies it."""

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
_MIN_CHUNK_BYTES = 8 << 20
# Limits of the block that a thread copies at a time, in bytes: large enough to be worth waking a
# thread, and small enough that all threads end at about the same time.
_MIN_BLOCK_BYTES, _MAX_BLOCK_BYTES = 1 << 20, 4 << 20
_BLOCKS_PER_THREAD = 4

# The time for which threads wait for the next proof; waking a thread is faster than starting one.
LINGER_SECONDS = 0.05

# The number of threads that saturate the memory.
_MAX_THREADS = 8


class Copiers:
    """Threads that copy data to page-locked memory.

    threads: the number of threads, including the caller's; default: enough to saturate the memory.
    """

    def __init__(self, threads: int | None = None) -> None:
        self.threads = threads or min(host.usable_threads(), _MAX_THREADS)
        self._background = Background(
            "quod-upload", max(1, self.threads - 1), linger=LINGER_SECONDS
        )

    def run(self, work: Callable[[], None], threads: int, caller_work: Callable[[], None]) -> None:
        """Run `work` on up to `threads` threads; the caller's thread runs `caller_work` instead."""
        outcomes = [self._background.begin(work) for _ in range(threads - 1)]
        try:
            caller_work()
        finally:
            # Drop the tasks that no thread has begun.
            running = [outcome for outcome in outcomes if not outcome.drop()]
            for outcome in running:
                outcome.wait()
        for outcome in running:
            outcome.result()

    def close(self) -> None:
        self._background.close()


def copy_on_device(device: AnyDevice, source: Buffer, target: Buffer) -> None:
    """Copy a buffer to another one of the device, and wait for the copy."""
    recording = device.stream("upload").record()
    recording.copy(source, target)
    recording.finish().run()


def upload_words(device: AnyDevice, words: Words | Buffer, target: Buffer) -> None:
    """Copy words to a buffer, from host memory or from the device's."""
    if isinstance(words, Buffer):
        copy_on_device(device, words, target)
    else:
        device.upload(np.ascontiguousarray(words), into=target)


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
        bytes_per_block = nbytes // (_BLOCKS_PER_THREAD * copiers.threads)
        self._block_bytes = min(max(bytes_per_block, _MIN_BLOCK_BYTES), _MAX_BLOCK_BYTES)
        self._blocks_per_chunk = -(-_MIN_CHUNK_BYTES // self._block_bytes)
        chunk_bytes = self._block_bytes * self._blocks_per_chunk
        self._uploads = [
            self._record_upload(start, min(start + chunk_bytes, nbytes))
            for start in range(0, nbytes, chunk_bytes)
        ]

    def fill(self, words: Words | Buffer, *, pinned: bool = False) -> None:
        """Upload words to `buffer`; work submitted afterwards reads them.

        pinned: whether the words are in page-locked memory; then they are uploaded from there.
        Words in the device's memory are copied on the device.
        """
        if pinned or self._device.single_queue or isinstance(words, Buffer):
            upload_words(self._device, words, self.buffer)
            return
        source = np.ascontiguousarray(words).reshape(-1).view(np.uint8)
        block_bytes = self._block_bytes
        blocks = deque(range(-(-len(source) // block_bytes)))
        copied_blocks = [0] * len(self._uploads)
        chunk_blocks = [self._blocks_per_chunk] * len(self._uploads)
        chunk_blocks[-1] = len(blocks) - sum(chunk_blocks[:-1])
        lock = threading.Lock()

        def copy_block() -> bool:
            """Copy the next block, if there is one left."""
            try:
                block = blocks.popleft()
            except IndexError:
                return False
            byte_range = slice(block * block_bytes, (block + 1) * block_bytes)
            self._pinned[byte_range] = source[byte_range]
            with lock:
                copied_blocks[block // self._blocks_per_chunk] += 1
            return True

        def copy() -> None:
            while copy_block():
                pass

        streams: list[SubmittedStream] = []

        def submit_chunks() -> None:
            while (
                len(streams) < len(chunk_blocks)
                and copied_blocks[len(streams)] == chunk_blocks[len(streams)]
            ):
                upload = self._uploads[len(streams)]
                streams.append(self._device.stream("upload").replay(upload).submit())

        def copy_and_submit() -> None:
            while copy_block():
                submit_chunks()

        try:
            self._copiers.run(copy, min(self._copiers.threads, len(blocks)), copy_and_submit)
            submit_chunks()
        finally:
            for stream in streams:
                stream.wait()

    def _record_upload(self, start: int, stop: int) -> Recording:
        stream = self._device.stream("upload").record()
        stream.upload(self._pinned[start:stop], self.buffer.slice(start, stop), label="upload")
        return stream.finish().recording


class JointUploadBuffer:
    """Memory on a GPU for up to `most` arrays of `nbytes` each, which are uploaded as one array."""

    def __init__(self, device: AnyDevice, most: int, nbytes: int) -> None:
        self._device, self._array_bytes = device, nbytes
        self.buffer = device.allocate(most * nbytes, zero=False)
        self._host = device.pinned(most * nbytes)

    def fill(self, arrays: Sequence[Words | Buffer], count: int) -> None:
        """Upload concatenated arrays to `buffer`, padded with zeros to `count` arrays.

        Work submitted afterwards reads them. Arrays in device memory are copied on the device.
        """
        array_bytes, rows = self._array_bytes, self._host.reshape(-1, self._array_bytes)
        for row, array in zip(rows, arrays):
            if not isinstance(array, Buffer):
                row[:] = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        rows[len(arrays) : count] = 0
        total_bytes = count * array_bytes
        self._device.upload(self._host[:total_bytes], into=self.buffer.slice(0, total_bytes))
        device_indices = [index for index, array in enumerate(arrays) if isinstance(array, Buffer)]
        if device_indices:
            recording = self._device.stream("upload").record()
            for index in device_indices:
                array = arrays[index]
                assert isinstance(array, Buffer)
                recording.copy(
                    array, self.buffer.slice(index * array_bytes, (index + 1) * array_bytes)
                )
            recording.finish().run()

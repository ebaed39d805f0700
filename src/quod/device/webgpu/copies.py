"""Copies between the host and a WebGPU device, in chunks through staging buffers."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

import numpy as np

from quod.device.memory.buffer import Array, Buffer
from quod.device.webgpu.encoding import Encoding
from quod.device.webgpu.program import first_word_and_offset, whole_words
from quod.device.webgpu.queue import Receipt
from quod.device.webgpu.staging import CHUNK_BYTES, StagingBuffer

if TYPE_CHECKING:
    from quod.device.webgpu.session import Session

# Shorter uploads need no staging buffer, because the driver keeps a copy.
_SMALL_BYTES = 64 << 10
_AHEAD = 4
"""The number of chunks of a long download that are in flight at a time."""


def _doing() -> str:
    return "copying memory"


def upload(session: Session, data: Array, target: Buffer) -> None:
    """Copy host bytes to the device; return once the host's bytes have been read."""
    allocation, start, size = whole_words(target)
    if size <= _SMALL_BYTES:
        padded = np.zeros(size, np.uint8)
        padded[: data.nbytes] = data
        session.gpu.queue.write_buffer(allocation.handle, start, padded)
        return
    with session.lease(session.uploads) as lease:
        for chunk_start in range(0, size, CHUNK_BYTES):
            chunk_bytes = min(CHUNK_BYTES, size - chunk_start)
            staging = lease.acquire(chunk_bytes, lambda: False)
            session.uploads.write(staging, data[chunk_start : chunk_start + chunk_bytes])
            encoding = Encoding(session)
            encoding.copy(staging.handle, 0, allocation.handle, start + chunk_start, chunk_bytes)
            session.queue.submit(encoding.encoder, _doing, target)
            lease.release(staging)


def download(session: Session, source: Buffer, data: Array) -> None:
    """Copy to host bytes, and wait for the copy."""
    allocation, begin, lead_bytes = first_word_and_offset(source)
    in_flight: deque[tuple[Receipt, StagingBuffer, Array]] = deque()
    with session.lease(session.downloads) as lease:

        def finish_one() -> bool:
            if not in_flight:
                return False
            receipt, staging, chunk = in_flight.popleft()
            session.wait_for(receipt)
            session.read_download(staging, lead_bytes, chunk)
            lease.release(staging)
            return True

        for start in range(0, data.nbytes, CHUNK_BYTES):
            chunk = data[start : start + CHUNK_BYTES]
            size = chunk.nbytes + lead_bytes
            size += -size % 4
            staging = lease.acquire(size, finish_one)
            encoding = Encoding(session)
            encoding.copy(allocation.handle, begin + start, staging.handle, 0, size)
            receipt = session.queue.submit(encoding.encoder, _doing, source)
            session.downloads.begin_reading(staging)
            in_flight.append((receipt, staging, chunk))
            if len(in_flight) == _AHEAD:
                finish_one()
        while finish_one():
            pass

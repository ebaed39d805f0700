"""Data files: the constants of a graph, which a page loads and checks one file at a time.

The constants are concatenated in buffer order, each padded to a multiple of 4 bytes, and split into
files of limited size. Tables of a circuit are mostly small steps: a constant that gets much smaller
is stored as the differences of its 32-bit words, byte by byte (all first bytes, then all second
bytes, ...), deflated (RFC 1950) and padded like the others. Constants that are all zeros are left
out, as WebGPU buffers begin as zeros.

The coefficients of matrices are few distinct field elements. Such a constant is stored as its
distinct rows of 32 bytes, in the order of their first occurrence, and the 32-bit index of each row,
byte by byte as above, all deflated.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from quod.device.export.device import ExportDevice
from quod.device.memory.buffer import Buffer
from quod.frozen import frozen

PART_BYTES = 4 << 20
"""The maximum size of a data file in bytes: a page fetches a damaged file again as a whole."""

ROW_BYTES = 32
"""The size of a row of a constant that is stored by its distinct rows: a field element."""
_SAMPLED_ROWS = 1 << 12

# Constants are stored in the shorter form if it saves this share.
_MIN_SAVING = 0.25
_MIN_BYTES = 1 << 10


def listed(content: bytes) -> dict[str, Any]:
    """Return the row of a file in the table of files: its length and SHA-256."""
    return {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}


def deflated(content: NDArray[np.uint8]) -> bytes:
    """Return a constant of whole words as the differences of its words, deflated."""
    words = content.view("<u4")
    steps = np.diff(words, prepend=np.uint32(0)).astype("<u4")
    return zlib.compress(_byte_planes(steps), 9)


def indexed(content: NDArray[np.uint8]) -> tuple[bytes, int] | None:
    """Return a constant as its distinct rows and their indices, deflated; and the number of rows.

    Returns None for a constant that is not whole rows, or whose first rows mostly differ.
    """
    if len(content) % ROW_BYTES:
        return None
    rows = content.view(f"V{ROW_BYTES}")
    sample = rows[:_SAMPLED_ROWS]
    if 2 * len(np.unique(sample)) > len(sample):
        return None
    distinct, first, inverse = np.unique(rows, return_index=True, return_inverse=True)
    order = np.argsort(first)
    ranks = np.empty(len(order), "<u4")
    ranks[order] = np.arange(len(order))
    return zlib.compress(distinct[order].tobytes() + _byte_planes(ranks[inverse]), 9), len(order)


def _byte_planes(words: NDArray[Any]) -> bytes:
    """Return all first bytes of little-endian words, then all second bytes, and so on."""
    return words.view(np.uint8).reshape(-1, 4).T.tobytes()


@frozen
class Part:
    """A data file: the bytes from `start` to `stop` - 1 of the stored constants."""

    data: DataFiles
    start: int
    stop: int

    def write(self, file: BinaryIO) -> None:
        for piece in self.data.pieces(self.start, self.stop):
            file.write(piece)

    def listed(self) -> dict[str, Any]:
        hash_ = hashlib.sha256()
        for piece in self.data.pieces(self.start, self.stop):
            hash_.update(piece)
        return {"bytes": self.stop - self.start, "sha256": hash_.hexdigest()}


class DataFiles:
    """The stored constants of some buffers.

    ranges: in order, the range of a buffer that each constant fills; with `deflated`, the length
        of its shorter form without padding, if it is stored in one; with `rows`, the number of its
        distinct rows, if it is stored by those.
    nbytes: the size of all files.
    """

    def __init__(self, device: ExportDevice, buffers: Sequence[Buffer]) -> None:
        self._sources: list[tuple[int, memoryview]] = []
        self.ranges: list[dict[str, int]] = []
        self.nbytes = 0
        for index, buffer in enumerate(buffers, 1):
            if not buffer.nbytes or not device.is_constant(buffer):
                continue
            content = np.asarray(device.bytes_of(buffer))
            if not content.any():
                continue
            if len(content) % 4:
                content = np.concatenate([content, np.zeros(-len(content) % 4, np.uint8)])
            self._add(index, np.ascontiguousarray(content))

    def _add(self, index: int, content: NDArray[np.uint8]) -> None:
        row = {"buffer": index, "offset": 0, "bytes": len(content)}
        stored = memoryview(content.data)
        if len(content) >= _MIN_BYTES:
            shorter, rows = deflated(content), 0
            by_rows = indexed(content)
            if by_rows is not None and len(by_rows[0]) < len(shorter):
                shorter, rows = by_rows
            if len(shorter) <= (1 - _MIN_SAVING) * len(content):
                # All constants begin at whole words, as browsers write whole words to a GPU.
                stored = memoryview(shorter + bytes(-len(shorter) % 4))
                row |= {"deflated": len(shorter)} | ({"rows": rows} if rows else {})
        self._sources.append((self.nbytes, stored))
        self.ranges.append(row)
        self.nbytes += len(stored)

    def parts(self) -> Iterator[Part]:
        for start in range(0, self.nbytes, PART_BYTES):
            yield Part(self, start, min(start + PART_BYTES, self.nbytes))

    def pieces(self, start: int, stop: int) -> Iterator[memoryview]:
        for begin, content in self._sources:
            low, high = max(start - begin, 0), min(stop - begin, len(content))
            if low < high:
                yield content[low:high]

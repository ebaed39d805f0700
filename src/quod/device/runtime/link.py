"""Copies from the memory of one device to the memory of another."""

from __future__ import annotations

from contextlib import suppress
from time import perf_counter
from typing import Any, cast

from quod.device.memory.buffer import Buffer, check_same_size
from quod.device.protocol import AnyDevice
from quod.device.runtime.stream import SubmittedStream
from quod.errors import DeviceError

# The size of a chunk that goes through host memory; two page-locked chunks are used in turn.
_CHUNK = 64 << 20

# The number of bytes with which a rate is measured.
_PROBE = 256 << 20


class Link:
    """A connection that copies from `source` to `target`.

    It copies directly if one GPU can access the other's memory (`is_peer`). Otherwise it copies
    through page-locked host memory: one chunk is filled while another is emptied. Peer access
    is queried once, when the link is made. The work that writes the source must have ended; a copy
    is complete when `copy` returns.
    """

    def __init__(self, source: AnyDevice, target: AnyDevice) -> None:
        self.source, self.target = source, target
        self.is_peer = False
        if source.kind == target.kind == "cuda":
            from quod.device.cuda.peer import open_peer

            self.is_peer = open_peer(cast(Any, source), cast(Any, target))
        self._chunks: list[Any] = []

    @property
    def kind(self) -> str:
        """The name of the copying method, for human readers."""
        return "peer access" if self.is_peer else "page-locked host memory"

    def copy(self, source_memory: Buffer, into: Buffer) -> None:
        """Copy a buffer to one of the same size; raises DeviceError if the sizes differ."""
        check_same_size(source_memory, into)
        if self.is_peer:
            from quod.device.cuda.peer import copy_to_peer

            copy_to_peer(cast(Any, self.source), cast(Any, self.target), source_memory, into)
            return
        if not self._chunks:
            self._chunks = [self.source.pinned(_CHUNK) for _ in range(2)]
        spans = [
            (start, min(start + _CHUNK, source_memory.nbytes))
            for start in range(0, source_memory.nbytes, _CHUNK)
        ]
        download = self._fill(source_memory, spans, 0)
        try:
            for index, (start, stop) in enumerate(spans):
                assert download is not None
                pending, download = download, None
                pending.wait()
                download = self._fill(source_memory, spans, index + 1)
                chunk = self._chunks[index % 2][: stop - start]
                self.target.upload(chunk, into=into.slice(start, stop))
        finally:
            # After an error too, as the next copy uses the same chunks.
            if download is not None:
                with suppress(DeviceError):
                    download.wait()

    def _fill(
        self, source_memory: Buffer, spans: list[tuple[int, int]], index: int
    ) -> SubmittedStream | None:
        """Submit a recording that copies span `index` of the buffer to the host.

        Returns the submitted stream, or None after the last span.
        """
        if index == len(spans):
            return None
        start, stop = spans[index]
        stream = self.source.stream("link").record()
        stream.download(source_memory.slice(start, stop), self._chunks[index % 2][: stop - start])
        return stream.finish().submit()

    def bytes_per_second(self, nbytes: int = _PROBE) -> float:
        """Measure the rate of a copy of `nbytes`, after one copy as warm-up."""
        source_memory, into = (
            device.allocate(nbytes, zero=False) for device in (self.source, self.target)
        )
        self.copy(source_memory, into)
        begin = perf_counter()
        self.copy(source_memory, into)
        return nbytes / (perf_counter() - begin)

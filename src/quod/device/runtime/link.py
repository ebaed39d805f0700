"""Copies from the memory of one device to that of another."""

from __future__ import annotations

from contextlib import suppress
from time import perf_counter
from typing import Any, cast

from quod.device.memory.buffer import Buffer, check_same_size
from quod.device.protocol import AnyDevice
from quod.device.runtime.stream import SubmittedStream
from quod.errors import DeviceError

# What goes through host memory at a time, in two pieces of page-locked memory.
_CHUNK = 64 << 20

# What a rate is measured with.
_PROBE = 256 << 20


class Link:
    """From `source` to `target`: directly where one GPU reaches the other's memory, `is_peer`.

    Otherwise through page-locked host memory, of which one piece is filled while another is
    emptied. That is asked of the driver once, when the link is made. Copies may begin once what
    they read was waited for, and are done when `copy` returns.
    """

    def __init__(self, source: AnyDevice, target: AnyDevice) -> None:
        self.source, self.target = source, target
        self.is_peer = False
        if source.kind == target.kind == "cuda":
            from quod.device.cuda.peer import open_peer

            self.is_peer = open_peer(cast(Any, source), cast(Any, target))
        self._pieces: list[Any] = []

    @property
    def kind(self) -> str:
        """For people."""
        return "peer access" if self.is_peer else "page-locked host memory"

    def copy(self, given: Buffer, into: Buffer) -> None:
        """All bytes of a buffer to one of as many; DeviceError if they are not."""
        check_same_size(given, into)
        if self.is_peer:
            from quod.device.cuda.peer import copy_to_peer

            copy_to_peer(cast(Any, self.source), cast(Any, self.target), given, into)
            return
        if not self._pieces:
            self._pieces = [self.source.pinned(_CHUNK) for _ in range(2)]
        spans = [
            (start, min(start + _CHUNK, given.nbytes)) for start in range(0, given.nbytes, _CHUNK)
        ]
        begun = self._fill(given, spans, 0)
        try:
            for number, (start, stop) in enumerate(spans):
                assert begun is not None
                arrived, begun = begun, None
                arrived.wait()
                begun = self._fill(given, spans, number + 1)
                piece = self._pieces[number % 2][: stop - start]
                self.target.upload(piece, into=into.slice(start, stop))
        finally:
            # After an error: the next copy takes the same pieces.
            if begun is not None:
                with suppress(DeviceError):
                    begun.wait()

    def _fill(
        self, given: Buffer, spans: list[tuple[int, int]], number: int
    ) -> SubmittedStream | None:
        """Begin to bring a span of the buffer to the host, if there is one."""
        if number == len(spans):
            return None
        start, stop = spans[number]
        stream = self.source.stream("link").record()
        stream.download(given.slice(start, stop), self._pieces[number % 2][: stop - start])
        return stream.finish().submit()

    def bytes_per_second(self, nbytes: int = _PROBE) -> float:
        """Measure the rate of a copy of `nbytes`, after one copy as warm-up."""
        given, into = (device.allocate(nbytes, zero=False) for device in (self.source, self.target))
        self.copy(given, into)
        begin = perf_counter()
        self.copy(given, into)
        return nbytes / (perf_counter() - begin)

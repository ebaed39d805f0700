"""A witness on its way to a GPU: copied to page-locked memory by several threads, and sent on."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np

from quod.device import host
from quod.device.protocol import AnyDevice
from quod.device.recording import Recording
from quod.field.array import Words

# What goes to the GPU at a time, while the next is copied, and what one thread copies of it.
_CHUNK = 32 << 20
_PIECE = 4 << 20


class WitnessBuffer:
    """Room for a witness of `nbytes` on a GPU, and the page-locked memory before it."""

    def __init__(self, device: AnyDevice, nbytes: int) -> None:
        self._device = device
        self.buffer = device.allocate(nbytes, zero=False)
        self._pinned = device.pinned(nbytes)
        self._uploads = [
            (slice(start, min(start + _CHUNK, nbytes)), self._upload(start))
            for start in range(0, nbytes, _CHUNK)
        ]

    def fill(self, witness: Words) -> None:
        """Puts the witness into `buffer`, and waits until it is there."""
        source = np.ascontiguousarray(witness).reshape(-1).view(np.uint8)

        def copy(piece: slice) -> None:
            self._pinned[piece] = source[piece]

        running = []
        threads = min(host.usable_threads(), _CHUNK // _PIECE)
        with ThreadPoolExecutor(threads, "quod-witness") as pool:
            for chunk, upload in self._uploads:
                pieces = [
                    slice(start, min(start + _PIECE, chunk.stop))
                    for start in range(chunk.start, chunk.stop, _PIECE)
                ]
                if len(pieces) == 1:
                    copy(pieces[0])
                else:
                    list(pool.map(copy, pieces))
                running.append(self._device.stream("witness").replay(upload).submit())
            for submitted in running:
                submitted.wait()

    def _upload(self, start: int) -> Recording:
        stop = min(start + _CHUNK, self.buffer.nbytes)
        stream = self._device.stream("witness").record()
        stream.upload(self._pinned[start:stop], self.buffer.slice(start, stop), label="witness")
        return stream.finish().recording

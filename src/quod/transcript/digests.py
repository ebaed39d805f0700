"""Digests of long messages on a device (`Hash.digest_by_runs`); an instance hashes one run."""

from __future__ import annotations

from typing import Any

import numpy as np

from quod.device.memory.buffer import Buffer
from quod.device.protocol import AnyDevice
from quod.device.runtime.sentinel import UNWRITTEN, not_written
from quod.device.runtime.stream import RecordingStream
from quod.field.spec import FieldSpec
from quod.hash.function import STATE_WORDS
from quod.hash.table import Hash
from quod.kernel import U32, Builder, Pointer, kernel
from quod.transcript.chain import RunHash


@kernel
def digest_runs(
    k: Builder, runs: U32, level: U32, data: Pointer[U32], digests: Pointer[U32],
    *, hash: Hash, words: int,
) -> None:  # fmt: skip
    """Compute the digests of `runs` runs of `words` words each, canonical integers."""
    digest = RunHash(k, hash)
    run = k.global_id()
    with k.if_(run < runs):
        first = run * words
        state = digest(lambda offset, count: k.load(data, first + offset, count), words, level)
        k.store(digests, run * STATE_WORDS, *state)


class RecordedDigest:
    """The digests of `count` messages of one length, which lie one after the other in a buffer.

    The device computes the levels that consist of whole runs, each in its own memory; the host
    computes the other levels.
    """

    def __init__(self, device: AnyDevice, hash: Hash, data: Buffer, count: int = 1) -> None:
        self._device, self._hash, self._count = device, hash, count
        self._levels = [data]
        words, run_words = data.nbytes // 4 // count, hash.run_words
        while words >= run_words and words % run_words == 0:
            words = words // run_words * STATE_WORDS
            self._levels.append(device.allocate(4 * words * count))

    def record(self, recording: RecordingStream) -> None:
        """Record the launches of all levels."""
        words = self._hash.run_words
        for level, (data, digests) in enumerate(
            zip(self._levels[:-1], self._levels[1:], strict=True)
        ):
            recording.fill(digests, UNWRITTEN)
            compiled: Any = self._device.compile(digest_runs, hash=self._hash, words=words)
            runs = digests.nbytes // (4 * STATE_WORDS)
            recording.launch(compiled, -(-runs // compiled.lanes), runs, level, data, digests)

    def digests(self, field: FieldSpec) -> list[bytes]:
        """Return the digests of the messages, after the launches have finished.

        Raises DeviceError if the device wrote no digests.
        """
        words = np.full(self._levels[-1].nbytes // 4, UNWRITTEN, np.uint32)
        self._device.download(self._levels[-1], words)
        level = len(self._levels) - 1
        if level and (words.reshape(-1, STATE_WORDS) == UNWRITTEN).all(axis=1).any():
            raise not_written(self._device, "the digest of a table")
        data, bytes_per_message = (
            words.astype("<u4", copy=False).tobytes(),
            words.nbytes // self._count,
        )
        parts = [
            data[start : start + bytes_per_message]
            for start in range(0, len(data), bytes_per_message)
        ]
        if level and bytes_per_message == 4 * STATE_WORDS:
            return parts
        return [self._hash.digest_by_runs(part, field, level=level) for part in parts]

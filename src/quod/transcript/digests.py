"""Digests of long messages on a device (`Hash.digest_by_runs`), a run an instance."""

from __future__ import annotations

from typing import Any

import numpy as np

from quod.device.buffer import Buffer
from quod.device.protocol import AnyDevice
from quod.device.stream import RecordingStream
from quod.device.written import UNWRITTEN, not_written
from quod.field.spec import FieldSpec
from quod.kernel import U32, Builder, Pointer, kernel
from quod.transcript.chain import STATE_WORDS, RunHash
from quod.transcript.hashes import Hash


@kernel
def digest_runs(
    k: Builder, runs: U32, level: U32, data: Pointer[U32], digests: Pointer[U32],
    *, hash: Hash, words: int,
) -> None:  # fmt: skip
    """The digests of so many runs of `words` words each, canonical integers as messages have
    them."""
    digest = RunHash(k, hash)
    run = k.global_id()
    with k.if_(run < runs):
        first = run * words
        found = digest(lambda at, count: k.load(data, first + at, count), words, level)
        k.store(digests, run * STATE_WORDS, *found)


class RecordedDigest:
    """The levels of a digest of a buffer of whole runs, in memory of its own; what is less than a
    run is left to the host."""

    def __init__(self, device: AnyDevice, hash: Hash, data: Buffer) -> None:
        self._device, self._hash = device, hash
        self._levels = [data]
        words, each = data.nbytes // 4, hash.run_words
        while words >= each and words % each == 0:
            words = words // each * STATE_WORDS
            self._levels.append(device.allocate(4 * words))

    def record(self, recording: RecordingStream) -> None:
        """Its launches."""
        words = self._hash.run_words
        for level, (data, digests) in enumerate(
            zip(self._levels[:-1], self._levels[1:], strict=True)
        ):
            recording.fill(digests, UNWRITTEN)
            compiled: Any = self._device.compile(digest_runs, hash=self._hash, words=words)
            runs = digests.nbytes // (4 * STATE_WORDS)
            recording.launch(compiled, -(-runs // compiled.lanes), runs, level, data, digests)

    def digest(self, field: FieldSpec) -> bytes:
        """What the host makes of it once the launches are done; DeviceError if they have not
        written it."""
        found = np.full(self._levels[-1].nbytes // 4, UNWRITTEN, np.uint32)
        self._device.download(self._levels[-1], found)
        level = len(self._levels) - 1
        if level and (found.reshape(-1, STATE_WORDS) == UNWRITTEN).all(axis=1).any():
            raise not_written(self._device, "the digest of a table")
        data = found.astype("<u4", copy=False).tobytes()
        if level and found.nbytes == 4 * STATE_WORDS:
            return data
        return self._hash.digest_by_runs(data, field, level=level)

"""A model on a device: chunks of tokens, with a cache of the positions before."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quod.device.discovery import DeviceChoice, resolve_device
from quod.device.memory.buffer import Buffer
from quod.device.protocol import AnyDevice
from quod.device.runtime.recording import Recording
from quod.device.runtime.sentinel import not_written
from quod.frozen import frozen
from quod.inference.transformer.device.memory import (
    Sizes,
    allocate_values,
    memory_bytes,
    upload_weights,
)
from quod.inference.transformer.device.recorder import UNWRITTEN_WORD, Recorder
from quod.inference.transformer.device.workgroups import workgroups_of
from quod.inference.transformer.program import Program
from quod.inference.transformer.reference import check_tokens
from quod.inference.transformer.rounding import Integers
from quod.validation import whole_number

_UNWRITTEN = UNWRITTEN_WORD * ((1 << 32) + 1) - (1 << 64)
"""A logit of two such words, which no sum reaches; see `quod.device.runtime.sentinel`."""


@frozen(eq=False)
class ChunkGraph:
    """The recorded evaluation of a chunk of tokens, such as for a browser.

    state: Four words, u32; the first is the position of the first token.
    tokens: The tokens, u32.
    logits: The logits of the last rows, i64.
    """

    recording: Recording
    state: Buffer
    tokens: Buffer
    logits: Buffer


class DeviceModel:
    """A model on a device with a cache of the positions so far; not for concurrent use."""

    def __init__(
        self, device: DeviceChoice, program: Program, *, context: int | None = None,
        chunk: int | None = None,
    ) -> None:  # fmt: skip
        """Upload a model.

        context: The number of positions that the cache holds; default: the model's context.
        chunk: The number of tokens that are evaluated at once; default: as suits the device.
        Raises DeviceError, before anything is uploaded, if memory does not suffice.
        """
        self.program = program
        self.device: AnyDevice = resolve_device(device)
        shape = program.model.architecture
        self.context = min(context or shape.context, shape.context)
        self._workgroups = workgroups_of(self.device, shape.head_width)
        self._chunk = min(self.context, chunk or self._workgroups.chunk)
        self._sizes = Sizes(self.context, self._chunk)
        self.device.check_budget(
            f"the model {program.model.path}", memory_bytes(program, self._sizes)
        )
        self._weights = upload_weights(self.device, program, self._sizes)
        self._values = allocate_values(self.device, program, self._sizes)
        self._positions = 0
        self._recordings: dict[tuple[int, int], Recording] = {}

    @property
    def positions(self) -> int:
        """The number of positions in the cache."""
        return self._positions

    def rewind(self, positions: int) -> None:
        """Forget all positions from a number on."""
        self._positions = min(self._positions, positions)

    def extend(self, tokens: Sequence[int] | NDArray[Any], *, rows: int = 1) -> Integers:
        """Append tokens to the cache; return the logits after the last `rows` of them, int64.

        Raises InputError for tokens beyond the vocabulary and positions beyond the context.
        """
        array = np.asarray(tokens, np.int64)
        check_tokens(self.program, array, self._positions, self.context)
        logits = []
        for start in range(0, len(array), self._chunk):
            chunk = array[start : start + self._chunk]
            wanted = min(len(chunk), max(0, rows - (len(array) - start - len(chunk))))
            logits.append(self._run(chunk, wanted))
        return np.concatenate(logits)

    def residual(self, tokens: int) -> Integers:
        """Return the residual stream of the last chunk of tokens, after all layers."""
        out = np.zeros((tokens, self.program.model.architecture.width), np.int32)
        self.device.download(self._values.x.slice(0, out.nbytes), out)
        return out.astype(np.int64)

    def graph(self, tokens: int, rows: int = 1) -> ChunkGraph:
        """Return a recording that appends a chunk of tokens, to be exported or replayed.

        Raises InputError for more tokens than a chunk has.
        """
        count = whole_number("tokens", tokens, 1, self._chunk)
        wanted = whole_number("rows", rows, 0, count)
        return ChunkGraph(
            self._record(count, wanted), self._values.state,
            self._values.tokens.slice(0, 4 * count),
            self._values.logits.slice(0, 8 * wanted * self.program.model.vocabulary),
        )  # fmt: skip

    def _run(self, tokens: Integers, rows: int) -> Integers:
        """Evaluate a chunk of tokens and return the logits of its last rows."""
        key = len(tokens), rows
        recording = self._recordings.get(key)
        if recording is None:
            recording = self._recordings[key] = self._record(*key)
        state = np.array([self._positions, 0, 0, 0], np.uint32)
        self.device.upload(state, into=self._values.state)
        count = tokens.astype(np.uint32)
        self.device.upload(count, into=self._values.tokens.slice(0, count.nbytes))
        self.device.stream("transformer").replay(recording).run()
        self._positions += len(tokens)
        logits = np.zeros((rows, self.program.model.vocabulary), np.int64)
        if rows:
            self.device.download(self._values.logits.slice(0, logits.nbytes), logits)
            if (logits == _UNWRITTEN).any():
                raise not_written(self.device, "the logits")
        return logits

    def _record(self, tokens: int, rows: int) -> Recording:
        recorder = Recorder(
            self.device, self.program, self._weights, self._values, self._sizes.capacity,
            self._workgroups, tokens,
        )  # fmt: skip
        return recorder.record(rows)

"""A model on a device: chunks of tokens, with a cache of the positions before."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quod.device.discovery import DeviceChoice, resolve_device
from quod.device.memory.buffer import Buffer
from quod.device.protocol import AnyDevice
from quod.device.runtime.recording import Recording
from quod.device.runtime.sentinel import not_written
from quod.errors import InputError
from quod.frozen import frozen, replace
from quod.inference.transformer.device.memory import (
    Sizes,
    allocate_values,
    memory_bytes,
    upload_weights,
)
from quod.inference.transformer.device.recorder import UNWRITTEN_WORD, Recorder
from quod.inference.transformer.device.workgroups import capacity_of, chunk_of, workgroups_of
from quod.inference.transformer.program import Program
from quod.inference.transformer.reference import check_tokens
from quod.inference.transformer.rounding import Integers
from quod.validation import whole_number

_LEAST_CHUNK = 64
"""Smaller chunks save little memory."""
_MAX_RECORDINGS = 16
"""A recording takes half a megabyte, and each length of the end of a prompt needs one."""
_UNWRITTEN = UNWRITTEN_WORD * ((1 << 32) + 1) - (1 << 64)
"""A logit of two such words, which no sum reaches; see `quod.device.runtime.sentinel`."""


@frozen(eq=False)
class ChunkGraph:
    """The recorded evaluation of a chunk of tokens, such as for a browser.

    state: The position and the sequence of each token, u32.
    tokens: The tokens, u32.
    logits: The logits of the last rows, i64.
    """

    recording: Recording
    state: Buffer
    tokens: Buffer
    logits: Buffer


class DeviceModel:
    """A model on a device with a cache of sequences; not for concurrent use."""

    def __init__(
        self, device: DeviceChoice, program: Program, *, context: int | None = None,
        sequences: int = 1, chunk: int | None = None,
    ) -> None:  # fmt: skip
        """Upload a model.

        context: The number of positions that the cache holds; default: the model's context.
        sequences: The number of texts that the cache holds.
        chunk: The number of tokens that are evaluated at once; default: as suits the device and its
            memory.
        Raises InputError for a cache beyond 2**32 words a layer, and DeviceError, before anything
        is uploaded, if memory does not suffice.
        """
        self.program = program
        self.device: AnyDevice = resolve_device(device)
        shape = program.model.architecture
        self.context = min(context or shape.context, shape.context)
        count = whole_number("sequences", sequences, 1)
        self._sizes = Sizes(
            self.context, capacity_of(self.device, shape.head_width, self.context), count,
            max(count, min(self.context, chunk or chunk_of(self.device))),
        )  # fmt: skip
        if chunk is None:
            self._sizes = self._fitting(self._sizes)
        if count * shape.kv_width * self._sizes.capacity >= 1 << 32:
            raise InputError(
                f"a cache of {count} sequences of {self.context} positions is too large; open "
                "fewer or shorter sequences"
            )
        self.device.check_budget(
            f"the model {program.model.path}", memory_bytes(program, self._sizes)
        )
        self._weights = upload_weights(self.device, program, self._sizes)
        self._values = allocate_values(self.device, program, self._sizes)
        self._positions = [0] * count
        self._recordings: OrderedDict[tuple[int, int, bool], Recording] = OrderedDict()

    def _fitting(self, sizes: Sizes) -> Sizes:
        """Return sizes with smaller chunks, if the memory does not suffice for large ones."""
        least = max(sizes.sequences, _LEAST_CHUNK)
        while sizes.chunk > least and (
            memory_bytes(self.program, sizes) > self.device.memory_budget
        ):
            sizes = replace(sizes, chunk=max(least, sizes.chunk // 2))
        return sizes

    @property
    def memory_bytes(self) -> int:
        """The bytes that the weights, the cache and the values of a chunk take."""
        return memory_bytes(self.program, self._sizes)

    @property
    def chunk(self) -> int:
        """The number of tokens that are evaluated at once."""
        return self._sizes.chunk

    @property
    def sequences(self) -> int:
        """The number of sequences that the cache holds."""
        return self._sizes.sequences

    def positions(self, sequence: int = 0) -> int:
        """Return the number of positions of a sequence in the cache."""
        return self._positions[sequence]

    def rewind(self, positions: int, sequence: int = 0) -> None:
        """Forget all positions of a sequence from a number on."""
        self._positions[sequence] = min(self._positions[sequence], positions)

    def extend(
        self, tokens: Sequence[int] | NDArray[Any], *, rows: int = 1, sequence: int = 0
    ) -> Integers:
        """Append tokens to a sequence; return the logits after the last `rows` of them, int64.

        Raises InputError for tokens beyond the vocabulary and positions beyond the context.
        """
        array = np.asarray(tokens, np.int64)
        check_tokens(self.program, array, self._positions[sequence], self.context)
        logits = [np.zeros((0, self.program.model.vocabulary), np.int64)]
        for start in range(0, len(array), self.chunk):
            chunk = array[start : start + self.chunk]
            wanted = min(len(chunk), max(0, rows - (len(array) - start - len(chunk))))
            logits.append(self._run(chunk, [sequence] * len(chunk), wanted))
        return np.concatenate(logits)

    def extend_batch(self, tokens: Mapping[int, int]) -> Integers:
        """Append a token to each of several sequences; return the logits after each, int64.

        tokens: The tokens by sequence. The weights are read once for all of them.
        Raises InputError as `extend` does, with nothing appended.
        """
        array = np.array(list(tokens.values()), np.int64)
        for sequence, token in tokens.items():
            check_tokens(self.program, np.array([token]), self._positions[sequence], self.context)
        return self._run(array, list(tokens), len(array))

    def residual(self, tokens: int) -> Integers:
        """Return the residual stream of the last chunk of tokens, after all layers."""
        out = np.zeros((tokens, self.program.model.architecture.width), np.int32)
        self.device.download(self._values.x.slice(0, out.nbytes), out)
        return out.astype(np.int64)

    def graph(self, tokens: int, rows: int = 1) -> ChunkGraph:
        """Return a recording that appends a chunk of tokens, to be exported or replayed.

        Raises InputError for more tokens than a chunk has.
        """
        count = whole_number("tokens", tokens, 1, self.chunk)
        wanted = whole_number("rows", rows, 0, count)
        return ChunkGraph(
            self._record(count, wanted, one_text=True), self._values.state.slice(0, 8 * count),
            self._values.tokens.slice(0, 4 * count),
            self._values.logits.slice(0, 8 * wanted * self.program.model.vocabulary),
        )  # fmt: skip

    def _run(self, tokens: Integers, sequences: Sequence[int], rows: int) -> Integers:
        """Evaluate tokens of sequences and return the logits of the last rows."""
        one_text = len(set(sequences)) == 1
        key = len(tokens), rows, one_text
        recording = self._recordings.get(key)
        if recording is None:
            recording = self._record(len(tokens), rows, one_text=one_text)
            self._recordings[key] = recording
            if len(self._recordings) > _MAX_RECORDINGS:
                self._recordings.popitem(last=False)
        self._recordings.move_to_end(key)
        positions, state = list(self._positions), np.zeros((len(tokens), 2), np.uint32)
        for row, sequence in enumerate(sequences):
            state[row] = positions[sequence], sequence
            positions[sequence] += 1
        self.device.upload(state, into=self._values.state.slice(0, state.nbytes))
        count = tokens.astype(np.uint32)
        self.device.upload(count, into=self._values.tokens.slice(0, count.nbytes))
        self.device.stream("transformer").replay(recording).run()
        self._positions = positions
        logits = np.zeros((rows, self.program.model.vocabulary), np.int64)
        if rows:
            self.device.download(self._values.logits.slice(0, logits.nbytes), logits)
            if (logits == _UNWRITTEN).any():
                raise not_written(self.device, "the logits")
        return logits

    def _record(self, tokens: int, rows: int, *, one_text: bool) -> Recording:
        head_width = self.program.model.architecture.head_width
        workgroups = workgroups_of(self.device, head_width, tokens, one_text=one_text)
        recorder = Recorder(
            self.device, self.program, self._weights, self._values, self._sizes.capacity,
            workgroups, tokens,
        )  # fmt: skip
        return recorder.record(rows)

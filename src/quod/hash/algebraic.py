"""Transcripts over a prime field: a chain of a permutation, for verifiers that are circuits.

The state is half of what Poseidon2 permutes, its elements little-endian in 32 bytes; the other half
takes the elements of a message, block by block: the state after a block is the first half of what
the permutation makes of both. Before the last block of a message its tag is added to the state's
first element, which says the label, the kind of message and how full the block is. `quod.transcript
.algebraic_chain` is the same inside kernels.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from quod.field.element_bytes import decode
from quod.field.moduli import Modulus
from quod.hash.function import DIGEST_LABEL
from quod.hash.poseidon2 import PARAMETERS, Poseidon2Parameters, permuted

STATE_BYTES = 32

RUN_ELEMENTS = 512
"""Elements that a digest hashes one after the other; of more, it hashes the digests of runs."""

LOG_TAGS = 10
"""A logarithm of the tags that there are: those of 32 labels."""

_MANY_RUNS = 4


def tag(label: int, *, are_elements: bool, fill: Any) -> Any:
    """What is added to the state before the last block of a message, which has `fill` elements."""
    return fill + (1 + (int(are_elements) << 4) + (label << 5))


class AlgebraicHash:
    """The chain over the field of one permutation."""

    def __init__(self, permutation: Poseidon2Parameters) -> None:
        self.permutation = permutation
        self.field: Modulus = permutation.field
        self.capacity = STATE_BYTES // self.field.bytes
        """Elements of a state."""
        self.rate = permutation.width - self.capacity
        """Elements of a block."""
        states = self.field.value**self.capacity
        self.collision_bits = ((states >> (LOG_TAGS + 1)).bit_length() - 1) // 2
        """Against two states that differ by the difference of two tags."""

    def after(self, state: bytes, label: int, message: bytes, *, are_elements: bool) -> bytes:
        """The state after a message, of elements of this field or of bytes; none are elements."""
        are_elements = are_elements or not message
        values = self._elements(message) if are_elements else self.of_bytes(message)
        found = self._after(self._elements(state), label, values, are_elements=are_elements)
        return self._bytes(found)

    def behind(self, before: bytes, digest: bytes) -> bytes:
        """The elements of a digest, and before it those of some bytes if there are any."""
        return self._bytes(self.of_bytes(before)) + digest if before else digest

    @property
    def run_words(self) -> int:
        """32-bit words of a run of elements."""
        return RUN_ELEMENTS * self.field.bytes // 4

    def digest(self, data: bytes, *, are_elements: bool, level: int = 0) -> bytes:
        """A digest of any number of elements of this field, or of bytes.

        Runs of them are hashed from a state of their own, whose second element is the level: 0 for
        the message, 1 for the digests of its runs, and so on until there is one digest. `data` may
        be the digests that stand on a `level` above 0.
        """
        values = self._elements(data) if are_elements else self.of_bytes(data)
        while True:
            runs = self._runs(values, level, are_elements=are_elements)
            if len(runs) == 1:
                return self._bytes(runs[0])
            values = [value for run in runs for value in run]
            level += 1

    def digests_of_runs(self, runs: Sequence[bytes], level: int) -> list[bytes]:
        """The digest of each of several runs of elements of this field, one as long as another."""
        columns = [self._elements(run) for run in runs]
        start = [0, level, *[0] * (self.capacity - 2)]
        if len(columns) < _MANY_RUNS:
            found = [
                self._after(start, DIGEST_LABEL, column, are_elements=True) for column in columns
            ]
        else:
            found = self._side_by_side(start, np.array(columns, self._kind), are_elements=True)
        return [self._bytes(own) for own in found]

    @property
    def _kind(self) -> Any:
        """Of arrays of elements."""
        return np.int64 if self.field.bits < 32 else object

    def _side_by_side(
        self, start: Sequence[int], runs: Any, *, are_elements: bool
    ) -> list[list[int]]:
        """The digests of the rows of an array."""
        starts = [np.full(len(runs), value, self._kind) for value in start]
        ends = self._after(starts, DIGEST_LABEL, list(runs.T), are_elements=are_elements)
        return [[int(value) for value in row] for row in zip(*ends, strict=True)]

    def of_bytes(self, data: bytes) -> list[int]:
        """Bytes as elements: a byte 1 and zeros behind them, then as many in each as p exceeds."""
        size = (self.field.bits - 1) // 8
        data += b"\1"
        return [int.from_bytes(data[at : at + size], "little") for at in range(0, len(data), size)]

    def _runs(self, values: list[int], level: int, *, are_elements: bool) -> list[list[int]]:
        """The digest of each run."""
        start = [0, level, *[0] * (self.capacity - 2)]
        whole = len(values) // RUN_ELEMENTS
        found: list[list[int]] = []
        at = 0
        if whole >= _MANY_RUNS:
            at = whole * RUN_ELEMENTS
            runs = np.array(values[:at], self._kind).reshape(whole, RUN_ELEMENTS)
            found = self._side_by_side(start, runs, are_elements=are_elements)
        while at < len(values) or not found:
            run = values[at : at + RUN_ELEMENTS]
            found.append(self._after(start, DIGEST_LABEL, run, are_elements=are_elements))
            at += RUN_ELEMENTS
        return found

    def _after(
        self, state: Sequence[Any], label: int, values: Sequence[Any], *, are_elements: bool
    ) -> list[Any]:
        state = list(state)
        last = max(0, len(values) - 1) // self.rate * self.rate
        for at in range(0, last + 1, self.rate):
            block = list(values[at : at + self.rate])
            if at == last:
                added = tag(label, are_elements=are_elements, fill=len(block))
                state[0] = (state[0] + added) % self.field.value
            # Of arrays zeros are arrays too.
            block += [state[0] * 0] * (self.rate - len(block))
            state = permuted(self.permutation, state + block)[: self.capacity]
        return state

    def _elements(self, data: bytes) -> list[int]:
        """InputError for what is none."""
        return [value for (value,) in decode(self.field, data)]

    def _bytes(self, values: Sequence[int]) -> bytes:
        return b"".join(value.to_bytes(self.field.bytes, "little") for value in values)


@cache
def algebraic_hash(field: str) -> AlgebraicHash:
    """The chain over the field of a name."""
    return AlgebraicHash(PARAMETERS[field])

"""Transcripts over a prime field: a chain of a permutation, for verifiers that are circuits.

The state is half of the elements that Poseidon2 permutes, little-endian in 32 bytes. The other half
takes the elements of a message, block by block. The state after a block is the first half of the
permuted elements. Before the last block of a message a tag is added to the first element of the
state. The tag encodes the label, the kind of message and the number of elements in the block.
`AlgebraicChain` is the form inside kernels.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from quod.field.element_bytes import decode
from quod.field.moduli import Modulus
from quod.hash.function import DIGEST_BYTES, DIGEST_LABEL, check_length
from quod.hash.poseidon2 import PARAMETERS, Poseidon2, Poseidon2Parameters, permuted
from quod.hash.words import Load, Words, message_words
from quod.kernel.builder.builder import Builder
from quod.kernel.ir import types
from quod.kernel.ir.value import Value

RUN_ELEMENTS = 512
"""Elements of a run. The digest of a longer message is that of the digests of its runs."""

# Blocks of a message in private memory at a time, from which a loop loads one by its index.
_LOOPED_BLOCKS = 16

LOG_TAGS = 10
"""log2 of the number of tags, for 32 labels."""

# From this number on, runs are hashed as a batch of NumPy arrays.
_MANY_RUNS = 4


def tag(label: int, *, are_elements: bool, fill: Any) -> Any:
    """Return the domain tag added to the state before a last block of `fill` elements."""
    return fill + (1 + (int(are_elements) << 4) + (label << 5))


class AlgebraicHash:
    """The chain over the field of one permutation.

    `circuit_layers` is 1: a circuit computes a round in a layer, so that a sequential delay of a
    hash for each layer is 19 times as deep as the circuit or more
    (docs/design/recursive-transcripts.md).
    """

    circuit_layers = 1
    has_kernel = True

    def __init__(self, permutation: Poseidon2Parameters) -> None:
        self.permutation = permutation
        self.field: Modulus = permutation.field
        self.capacity = DIGEST_BYTES // self.field.bytes
        """Elements of a state."""
        self.rate = permutation.width - self.capacity
        """Elements of a block."""
        states = self.field.value**self.capacity
        self.collision_bits = ((states >> (LOG_TAGS + 1)).bit_length() - 1) // 2
        """The bits of security against two states that differ by the difference of two tags."""

    def absorb(self, state: bytes, label: int, message: bytes, *, are_elements: bool) -> bytes:
        """Return the state after a message, of elements of this field or of bytes."""
        check_length(len(message))
        are_elements = are_elements or not message
        values = self._elements(message) if are_elements else self.of_bytes(message)
        new_state = self._state_after(
            self._elements(state), label, values, are_elements=are_elements
        )
        return self._bytes(new_state)

    def prefixed_digest(self, prefix: bytes, digest: bytes) -> bytes:
        """Return the message of the bytes `prefix`, as elements, and then a digest."""
        return self._bytes(self.of_bytes(prefix)) + digest if prefix else digest

    @property
    def run_words(self) -> int:
        """32-bit words of a run of elements."""
        return RUN_ELEMENTS * self.field.bytes // 4

    def in_kernel(self, k: Builder, *, alone: bool = False) -> AlgebraicChain:
        """Return the chain inside a kernel, where each instance has its own state."""
        return AlgebraicChain(k, self)

    def digest(self, data: bytes, *, are_elements: bool) -> bytes:
        """Return the digest of any number of elements of this field, or of bytes."""
        return self.digest_by_runs(data, are_elements=are_elements)

    def digest_by_runs(self, data: bytes, *, are_elements: bool, level: int = 0) -> bytes:
        """Return the digest of any number of elements of this field, or of bytes.

        Each run is hashed from an initial state whose second element is the level: 0 for the
        message, 1 for the digests of its runs, and so on until there is one digest.
        level: the level of `data`; above 0, `data` are digests of the level below.
        """
        values = self._elements(data) if are_elements else self.of_bytes(data)
        while True:
            runs = self._run_digests(values, level, are_elements=are_elements)
            if len(runs) == 1:
                return self._bytes(runs[0])
            values = [value for run in runs for value in run]
            level += 1

    def digests_of_runs(self, runs: Sequence[bytes], level: int) -> list[bytes]:
        """Return the digest of each run of elements of this field; the runs have one length."""
        columns = [self._elements(run) for run in runs]
        start = [0, level, *[0] * (self.capacity - 2)]
        if len(columns) < _MANY_RUNS:
            digests = [
                self._state_after(start, DIGEST_LABEL, column, are_elements=True)
                for column in columns
            ]
        else:
            digests = self._batched(start, np.array(columns, self._array_type), are_elements=True)
        return [self._bytes(digest) for digest in digests]

    @property
    def _array_type(self) -> Any:
        """The dtype of arrays of elements."""
        return np.int64 if self.field.bits < 32 else object

    def _batched(self, start: Sequence[int], runs: Any, *, are_elements: bool) -> list[list[int]]:
        """Return the digests of the rows of an array, computed as a batch."""
        starts = [np.full(len(runs), value, self._array_type) for value in start]
        ends = self._state_after(starts, DIGEST_LABEL, list(runs.T), are_elements=are_elements)
        return [[int(value) for value in row] for row in zip(*ends, strict=True)]

    def of_bytes(self, data: bytes) -> list[int]:
        """Encode bytes, followed by a byte 1, as elements of as many bytes as are below p."""
        size = (self.field.bits - 1) // 8
        data += b"\1"
        return [
            int.from_bytes(data[start : start + size], "little")
            for start in range(0, len(data), size)
        ]

    def _run_digests(self, values: list[int], level: int, *, are_elements: bool) -> list[list[int]]:
        """Return the digest of each run."""
        start = [0, level, *[0] * (self.capacity - 2)]
        full_runs = len(values) // RUN_ELEMENTS
        digests: list[list[int]] = []
        next_value = 0
        if full_runs >= _MANY_RUNS:
            next_value = full_runs * RUN_ELEMENTS
            runs = np.array(values[:next_value], self._array_type).reshape(full_runs, RUN_ELEMENTS)
            digests = self._batched(start, runs, are_elements=are_elements)
        while next_value < len(values) or not digests:
            run = values[next_value : next_value + RUN_ELEMENTS]
            digests.append(self._state_after(start, DIGEST_LABEL, run, are_elements=are_elements))
            next_value += RUN_ELEMENTS
        return digests

    def _state_after(
        self, state: Sequence[Any], label: int, values: Sequence[Any], *, are_elements: bool
    ) -> list[Any]:
        state = list(state)
        last_start = max(0, len(values) - 1) // self.rate * self.rate
        for block_start in range(0, last_start + 1, self.rate):
            block = list(values[block_start : block_start + self.rate])
            if block_start == last_start:
                tag_value = tag(label, are_elements=are_elements, fill=len(block))
                state[0] = (state[0] + tag_value) % self.field.value
            # `state[0] * 0` is an array of zeros if the state consists of arrays.
            block += [state[0] * 0] * (self.rate - len(block))
            state = permuted(self.permutation, state + block)[: self.capacity]
        return state

    def _elements(self, data: bytes) -> list[int]:
        """Decode the elements of a message; raise InputError if they are invalid."""
        return [value for (value,) in decode(self.field, data)]

    def _bytes(self, values: Sequence[int]) -> bytes:
        return b"".join(value.to_bytes(self.field.bytes, "little") for value in values)


class AlgebraicChain:
    """The chain over messages of elements in one kernel; create it at the kernel's top.

    Each instance has its own state, and not all instances need to call it.
    """

    is_shared = False

    def __init__(self, k: Builder, hash: AlgebraicHash) -> None:
        self._k, self._hash = k, hash
        self._permutation = Poseidon2(k, hash.permutation)
        self._field = self._permutation.field
        self._element_words = hash.field.bytes // 4
        self._radix = hash.field.montgomery_radix
        self._message = k.private(types.u32, _LOOPED_BLOCKS * hash.rate * self._element_words)

    def absorbed(self, state: Words, label: int, message: Sequence[Value]) -> Words:
        """Return the state after a message of elements, as words of canonical integers."""
        count, rate = len(message) // self._element_words, self._hash.rate
        last_block = max(0, count - 1) // rate
        tag_value = tag(label, are_elements=True, fill=count - last_block * rate)
        values = self._over_blocks(self._elements(state), message, last_block, tag_value)
        return self._words(values)

    def absorbed_prefix(
        self, state: Words, header: Value, message: Sequence[Value], length: Value
    ) -> Words:
        """Return the state after the first `length` words of a message.

        header: the header of the message (`quod.hash.function.header`), of which the label is used.
        """
        k, rate = self._k, self._hash.rate
        zero = k.constant(0, types.u32)
        masked = [k.select(length > index, word, zero) for index, word in enumerate(message)]
        count = length // self._element_words
        last_block = k.select(count == 0, zero, (count - 1) // rate)
        # The label is the top byte of the header.
        tag_word = tag(0, are_elements=True, fill=count - last_block * rate)
        tag_element = self._element([tag_word + ((header >> 24) << 5), zero][: self._element_words])
        return self._words(
            self._over_blocks(self._elements(state), masked, last_block, tag_element)
        )

    def digest_run(self, load: Load, words: int, level: Value) -> Words:
        """Return the digest of a run of `words` words of elements, read by `load`, on a level."""
        k, f, block = self._k, self._field, self._hash.rate * self._element_words
        last_start = max(0, words - 1) // block * block
        zero = k.constant(0, types.u32)
        zero_element = f.bounded(f.zero())
        level_element = self._element([level, zero][: self._element_words])
        values = [zero_element, level_element, *[zero_element] * (self._hash.capacity - 2)]
        if last_start:
            with k.range(0, last_start, block, carry=tuple(values)) as blocks:
                blocks.next(tuple(self._state_after(blocks.carried, load(blocks.index, block))))
            values = list(blocks.results)
        fill = (words - last_start) // self._element_words
        tag_element = f.constant(tag(DIGEST_LABEL, are_elements=True, fill=fill))
        values[0] = f.bounded(values[0] + tag_element)
        return self._words(
            self._state_after(values, load(k.constant(last_start, types.u32), words - last_start))
        )

    def _over_blocks(
        self, state: list[Any], message: Sequence[Value], last_block: Value | int, tag_element: Any
    ) -> list[Any]:
        """Return the state after blocks 0 to `last_block`; the tag is added before the last one.

        The blocks are in a loop, since some drivers take minutes to compile unrolled permutations.
        """
        k, f, block = self._k, self._field, self._hash.rate * self._element_words
        blocks = max(1, -(-len(message) // block))
        if isinstance(tag_element, int):
            tag_element = f.constant(tag_element)
        if blocks == 1:
            first, *upper_elements = state
            return self._state_after([f.bounded(first + tag_element), *upper_elements], message)
        zero = k.constant(0, types.u32)
        words = [*message, *[zero] * (blocks * block - len(message))]
        last_block = (
            k.constant(last_block, types.u32) if isinstance(last_block, int) else last_block
        )
        for start in range(0, blocks, _LOOPED_BLOCKS):
            stop = min(start + _LOOPED_BLOCKS, blocks)
            k.store(self._message, 0, *words[start * block : stop * block])
            with k.range(start, k.minimum(last_block + 1, stop), carry=tuple(state)) as loop:
                first, *upper_elements = loop.carried
                first = f.select(loop.index == last_block, f.bounded(first + tag_element), first)
                block_words = k.load(self._message, (loop.index - start) * block, block)
                loop.next(tuple(self._state_after([first, *upper_elements], block_words)))
            state = list(loop.results)
        return state

    def _state_after(self, state: Sequence[Any], block: Sequence[Value]) -> list[Any]:
        values = self._elements(block)
        zeros = [self._field.bounded(self._field.zero())] * (self._hash.rate - len(values))
        return self._permutation([*state, *values, *zeros])[: self._hash.capacity]

    def _elements(self, words: Sequence[Value]) -> list[Any]:
        words_per_element = self._element_words
        return [
            self._element(words[start : start + words_per_element])
            for start in range(0, len(words), words_per_element)
        ]

    def _element(self, words: Sequence[Value]) -> Any:
        """Convert words of a canonical integer to an element."""
        f = self._field
        if f.word_type is types.u64:
            low, high = words
            words = [low.cast(types.u64) | (high.cast(types.u64) << 32)]
        element = f.from_words(tuple(words))
        return f.bounded(element if self._radix == 1 else element * self._radix)

    def _words(self, values: Sequence[Any]) -> Words:
        return tuple(word for value in values for word in message_words(self._field, value))


M31 = AlgebraicHash(PARAMETERS["m31"])
BABY_BEAR = AlgebraicHash(PARAMETERS["baby_bear"])
KOALA_BEAR = AlgebraicHash(PARAMETERS["koala_bear"])
GOLDILOCKS = AlgebraicHash(PARAMETERS["goldilocks"])

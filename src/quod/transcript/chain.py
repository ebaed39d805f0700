"""The transcript inside kernels: the same states and challenges as `quod.transcript.transcript`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from quod.field.arithmetic import FieldArithmetic
from quod.field.spec import FieldSpec
from quod.hash.function import STATE_WORDS
from quod.hash.table import Hash
from quod.hash.words import Load, Words
from quod.kernel.builder.builder import Builder
from quod.kernel.ir import types
from quod.kernel.ir.value import Value
from quod.transcript.elements import challenge_bits
from quod.transcript.labels import Label


class Chain:
    """Absorbs messages in one kernel, made at its top.

    All instances of a workgroup come, each with a state of its own or, where `is_shared`, all with
    one and the same. InputError for a hash that has no form inside kernels.
    """

    def __init__(self, k: Builder, hash: Hash = Hash.SHA3_256) -> None:
        self._k, self._hash = k, hash.in_kernel(k)
        self.is_shared = self._hash.is_shared

    def load(self, memory: Value, place: Value) -> Words:
        """The state in memory from a place on, counted in 32-bit words."""
        return self._k.load(memory.cast(types.u32), place, STATE_WORDS)

    def store(self, memory: Value, place: Value, state: Words) -> None:
        """Stores a state."""
        self._k.store(memory.cast(types.u32), place, *state)

    def absorbed(self, state: Words, label: Label, message: Sequence[Value]) -> Words:
        """The state after a message of elements (`message_words`)."""
        return self._hash.absorbed(state, label, message)


class RunHash:
    """Digests of runs (`Hash.digest_by_runs`) in one kernel, made at its top; each instance has a
    run of its own, and comes or does not."""

    def __init__(self, k: Builder, hash: Hash = Hash.SHA3_256) -> None:
        self._k, self._hash = k, hash.in_kernel(k, alone=True)

    def __call__(self, load: Load, words: int, level: Value | int) -> Words:
        """That of so many words, which `load` gives, on a level below 256."""
        if isinstance(level, int):
            level = self._k.constant(level, types.u32)
        return self._hash.of_run(load, words, level)


def challenge(f: FieldArithmetic[Any], field: FieldSpec, state: Words) -> Any:
    """The element of a field that a state stands for."""
    each = challenge_bits(field) // 32
    coefficients = [
        _reduced(f, state[at : at + each]) for at in range(0, each * field.degree, each)
    ]
    return f.made(*coefficients) if field.degree > 1 else coefficients[0]  # type: ignore[attr-defined]


def _reduced(f: Any, words: Words) -> Any:
    """The integer of 32-bit words modulo p: pieces below p, each times its power of two."""
    base = getattr(f, "base", f)
    modulus = base.modulus
    piece = modulus.bits - 1
    total, pairs = 32 * len(words), []
    for start in range(0, total, piece):
        packed = _packed(base, words, start, min(start + piece, total))
        # Read as an element it is that many times too small.
        weight = (modulus.montgomery_radix << start) % modulus.value
        # Of the second factor, words that are 0 cost nothing: of a short piece most are.
        pairs.append((base.constant(weight), base.from_words(packed)))
    return base.sum_of_products(pairs)


def _packed(base: Any, words: Words, start: int, stop: int) -> Words:
    """The bits of an integer from `start` on, below `stop`, as words of an element in memory."""
    pieces = [
        _bits(words, at, min(at + 32, stop)) if at < stop else words[0] & 0
        for at in range(start, start + 32 * base.modulus.words, 32)
    ]
    if base.word_type is types.u32:
        return tuple(pieces)
    return tuple(
        low.cast(types.u64) | (high.cast(types.u64) << 32)
        for low, high in zip(pieces[::2], pieces[1::2], strict=True)
    )


def _bits(words: Words, start: int, stop: int) -> Value:
    """At most 32 bits of an integer."""
    place, shift = divmod(start, 32)
    word = words[place] >> shift if shift else words[place]
    if shift and place + 1 < len(words):
        word = word | (words[place + 1] << (32 - shift))
    return word if stop - start == 32 else word & ((1 << (stop - start)) - 1)

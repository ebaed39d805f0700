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
    """The transcript in one kernel; create it at the kernel's top.

    All instances of a workgroup must call it, each with its own state, or all with the same state
    if `is_shared`. Raises InputError for a hash without a kernel form.
    """

    def __init__(self, k: Builder, hash: Hash = Hash.SHA3_256) -> None:
        self._k, self._hash = k, hash.in_kernel(k)
        self.is_shared = self._hash.is_shared

    def load(self, memory: Value, place: Value) -> Words:
        """Load a state from an offset in 32-bit words."""
        return self._k.load(memory.cast(types.u32), place, STATE_WORDS)

    def store(self, memory: Value, place: Value, state: Words) -> None:
        """Store a state at an offset in 32-bit words."""
        self._k.store(memory.cast(types.u32), place, *state)

    def absorbed(self, state: Words, label: Label, message: Sequence[Value]) -> Words:
        """Return the state after a message of elements (`message_words`)."""
        return self._hash.absorbed(state, label, message)


class RunHash:
    """Digests of runs (`Hash.digest_by_runs`) in one kernel; create it at the kernel's top.

    Each instance hashes its own run, and not all instances need to call it.
    """

    def __init__(self, k: Builder, hash: Hash = Hash.SHA3_256) -> None:
        self._k, self._hash = k, hash.in_kernel(k, alone=True)

    def __call__(self, load: Load, words: int, level: Value | int) -> Words:
        """Return the digest of `words` words, which `load` reads, on a level below 256."""
        if isinstance(level, int):
            level = self._k.constant(level, types.u32)
        return self._hash.digest_run(load, words, level)


def challenge(f: FieldArithmetic[Any], field: FieldSpec, state: Words) -> Any:
    """Return the challenge of a state, an element of a field."""
    words_per_coefficient = challenge_bits(field) // 32
    coefficients = [
        _reduced(f, state[start : start + words_per_coefficient])
        for start in range(0, words_per_coefficient * field.degree, words_per_coefficient)
    ]
    return f.from_coefficients(*coefficients) if field.degree > 1 else coefficients[0]  # type: ignore[attr-defined]


def _reduced(f: Any, words: Words) -> Any:
    """Reduce the integer of 32-bit words modulo p: chunks below p, each times a power of two."""
    base = getattr(f, "base", f)
    modulus = base.modulus
    chunk_bits = modulus.bits - 1
    # A chunk of bits - 1 bits is below p.
    total_bits, pairs = 32 * len(words), []
    for start in range(0, total_bits, chunk_bits):
        packed = _packed(base, words, start, min(start + chunk_bits, total_bits))
        # `from_words` divides by the radix, which the weight compensates.
        weight = (modulus.montgomery_radix << start) % modulus.value
        # Zero words of a second factor cost nothing; a short chunk has many.
        pairs.append((base.constant(weight), base.from_words(packed)))
    return base.sum_of_products(pairs)


def _packed(base: Any, words: Words, start: int, stop: int) -> Words:
    """Return bits start to stop - 1 of an integer, as words of an element in memory."""
    limbs = [
        _bits(words, bit, min(bit + 32, stop)) if bit < stop else words[0] & 0
        for bit in range(start, start + 32 * base.modulus.words, 32)
    ]
    if base.word_type is types.u32:
        return tuple(limbs)
    return tuple(
        low.cast(types.u64) | (high.cast(types.u64) << 32)
        for low, high in zip(limbs[::2], limbs[1::2], strict=True)
    )


def _bits(words: Words, start: int, stop: int) -> Value:
    """Return bits start to stop - 1 of an integer, at most 32."""
    word_index, shift = divmod(start, 32)
    word = words[word_index] >> shift if shift else words[word_index]
    if shift and word_index + 1 < len(words):
        word = word | (words[word_index + 1] << (32 - shift))
    return word if stop - start == 32 else word & ((1 << (stop - start)) - 1)

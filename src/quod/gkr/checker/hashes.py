"""The transcript's hash inside kernels, of messages whose lengths are not known before."""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

from quod.hash.algebraic_chain import AlgebraicChain
from quod.hash.sha2 import BLOCK_WORDS, Sha256, start_words, swapped
from quod.hash.sha3 import RATE_WORDS, Permutation
from quod.hash.table import Hash, HashFamily
from quod.kernel import Builder, u32
from quod.kernel.ir import types
from quod.kernel.ir.value import Value
from quod.transcript.chain import STATE_WORDS

Words = Sequence[Value]

BEFORE_WORDS = STATE_WORDS + 1
"""32-bit words before a message: the state and its header."""


class MessageHash:
    """The state after a message of at most `most_words` words of 32 bits, made at a kernel's top.

    A workgroup has one state, or `alone` each instance its own.
    """

    def __init__(self, k: Builder, hash: Hash, most_words: int, *, alone: bool) -> None:
        self._k, self._most_words = k, most_words
        self._algebraic = self._sha2 = self._permutation = None
        family = hash.family
        match family:
            case HashFamily.SHA3:
                self._permutation = Permutation(k, alone=alone)
            case HashFamily.SHA2:
                self._sha2 = Sha256(k)
            case HashFamily.POSEIDON2:
                assert hash.algebraic is not None
                self._algebraic = AlgebraicChain(k, hash.algebraic)
            case _:
                assert_never(family)

    def absorbed(
        self, state: Words, header: Value, message: Words, length: Value
    ) -> tuple[Value, ...]:
        """The state after the first `length` words of a message."""
        if self._algebraic is not None:
            return self._algebraic.absorbed_some(tuple(state), header, message, length)
        before = [*state, header]
        if self._permutation is not None:
            return self._by_sponge(self._permutation, before, message, length)
        assert self._sha2 is not None
        return self._by_blocks(self._sha2, before, message, length)

    def _padded(self, before: Words, message: Words, length: Value, mark: int, count: int) -> Words:
        """So many words: the message, a mark behind it, and zeros."""
        k, zero = self._k, self._k.constant(0, u32)
        words = [*before]
        for place in range(count - len(before)):
            end = k.select(length == place, k.constant(mark, u32), zero)
            words.append(k.select(length > place, message[place], end)
                         if place < len(message) else end)  # fmt: skip
        return words

    def _by_sponge(
        self, permutation: Permutation, before: Words, message: Words, length: Value
    ) -> tuple[Value, ...]:
        k, zero = self._k, self._k.constant(0, u32)
        blocks = (BEFORE_WORDS + self._most_words) // RATE_WORDS + 1
        words = [*self._padded(before, message, length, 0x06, blocks * RATE_WORDS)]
        last = (length + BEFORE_WORDS) // RATE_WORDS
        sponge = [k.constant(0, types.u64)] * 25
        found: list[Value] = []
        for number in range(blocks):
            block = words[number * RATE_WORDS : (number + 1) * RATE_WORDS]
            block[-1] |= k.select(last == number, k.constant(0x80000000, u32), zero)
            for place in range(RATE_WORDS // 2):
                low, high = block[2 * place], block[2 * place + 1]
                sponge[place] ^= low.cast(types.u64) | (high.cast(types.u64) << 32)
            sponge = permutation(sponge, 4 if number == blocks - 1 else 25)
            found = [
                k.select(last == number, new, old)
                for new, old in zip(sponge[:4], found or sponge[:4], strict=True)
            ]
        return tuple(half.cast(u32) for word in found for half in (word, word >> 32))

    def _by_blocks(
        self, sha2: Sha256, before: Words, message: Words, length: Value
    ) -> tuple[Value, ...]:
        k = self._k
        # Behind the mark there are two words for the number of bits.
        blocks = (BEFORE_WORDS + self._most_words + 2) // BLOCK_WORDS + 1
        padded = self._padded(before, message, length, 0x80, blocks * BLOCK_WORDS)
        words = [swapped(word) for word in padded]
        last = (length + BEFORE_WORDS + 2) // BLOCK_WORDS
        bits = (length + BEFORE_WORDS) << 5
        state: Words = [k.constant(word, u32) for word in start_words()]
        for number in range(blocks):
            block = words[number * BLOCK_WORDS : (number + 1) * BLOCK_WORDS]
            block[-1] = k.select(last == number, bits, block[-1])
            new = sha2.after_block(state, block)
            state = [k.select(last >= number, a, b) for a, b in zip(new, state, strict=True)]
        return tuple(swapped(word) for word in state)

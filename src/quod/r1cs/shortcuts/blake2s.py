"""BLAKE2s (RFC 7693) of words in a kernel: the compression function."""

from __future__ import annotations

from collections.abc import Sequence

from quod.hash.blake import ORDER, STEPS
from quod.hash.sha2 import start_words
from quod.kernel import Builder
from quod.kernel.ir import types
from quod.kernel.ir.value import Value

_ROUNDS = 10
_STATE_WORDS, _BLOCK_WORDS, _COUNTER_WORDS = 8, 16, 3
_ROTATIONS = ((16, 12), (8, 7))


def blake2s_compression(k: Builder, words: Sequence[Value]) -> list[Value]:
    """Return the state after a block.

    words: the state, 8 words; the block, 16; the low and the high word of the number of bytes, and
        all bits of a last block; 8 words that are added to the result by exclusive or.
    """
    parts = iter(words)
    state, block, counters = (
        [next(parts) for _ in range(count)]
        for count in (_STATE_WORDS, _BLOCK_WORDS, _COUNTER_WORDS)
    )
    constants = [k.constant(number, types.u32) for number in start_words()]
    for index, counter in enumerate(counters, 4):
        constants[index] = constants[index] ^ counter
    v = [*state, *constants]
    for order in ORDER[:_ROUNDS]:
        for index, (a, b, c, d) in enumerate(STEPS):
            for half, (d_rotation, b_rotation) in enumerate(_ROTATIONS):
                v[a] = v[a] + v[b] + block[order[2 * index + half]]
                v[d] = _rotated(v[d] ^ v[a], d_rotation)
                v[c] = v[c] + v[d]
                v[b] = _rotated(v[b] ^ v[c], b_rotation)
    return [
        word ^ v[index] ^ v[index + 8] ^ mask
        for index, (word, mask) in enumerate(zip(state, parts, strict=True))
    ]


def _rotated(word: Value, count: int) -> Value:
    return (word >> count) | (word << (32 - count))

"""SHA-256 (FIPS 180-4): hashlib's on the host; inside kernels one message per instance."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from math import isqrt

from quod.hash.byte_hash import ByteHash, KernelDigest
from quod.hash.words import Load
from quod.kernel.builder.builder import Builder
from quod.kernel.ir import types
from quod.kernel.ir.value import Value

BLOCK_WORDS = 16
"""32-bit words of a block."""

_ROUNDS = 64


def round_constants() -> list[int]:
    """Return the first 32 bits of the fractions of the cube roots of the first 64 primes."""
    return [_cube_root(prime << 96) % (1 << 32) for prime in _primes(_ROUNDS)]


def start_words(bits: int = 32) -> list[int]:
    """Return the initial state of SHA-2 and BLAKE, with words of `bits` bits, 32 or 64.

    The words are the first bits of the fractions of the square roots of the first 8 primes.
    """
    return [isqrt(prime << 2 * bits) % (1 << bits) for prime in _primes(8)]


class Sha256(KernelDigest):
    """SHA-256 inside one kernel; create it at the kernel's top, as its constants are a table.

    Each instance has its own message, and not all instances need to call it.
    """

    is_shared = False

    def __init__(self, k: Builder) -> None:
        super().__init__(k)
        self._constants = k.table(types.u32, round_constants())

    def __call__(self, message: Sequence[Value]) -> tuple[Value, ...]:
        """Return the digest of a message; both are bytes in little-endian words of 32 bits."""
        words = [swapped(word) for word in message]
        words.append(self._k.constant(0x80000000, types.u32))
        return self._digest(self._start(), words, 32 * len(message))

    def digest_run(self, load: Load, words: int, level: Value) -> tuple[Value, ...]:
        """Return the digest of `words` words, read by `load`, and then a byte with the level."""
        state, full_words = self._start(), words // BLOCK_WORDS * BLOCK_WORDS
        if full_words:
            with self._k.range(0, full_words, BLOCK_WORDS, carry=tuple(state)) as blocks:
                block = [swapped(word) for word in load(blocks.index, BLOCK_WORDS)]
                blocks.next(tuple(self.after_block(blocks.carried, block)))
            state = list(blocks.results)
        tail = (
            load(self._k.constant(full_words, types.u32), words - full_words)
            if words > full_words
            else ()
        )
        # The byte with the level, and the bit 1 of the padding.
        end = (level << 24) | 0x800000
        return self._digest(state, [*map(swapped, tail), end], 32 * words + 8)

    def digest_prefix(
        self, before: Sequence[Value], message: Sequence[Value], length: Value
    ) -> tuple[Value, ...]:
        """Return the digest of the words `before` and the first `length` words of a message."""
        k = self._k
        # The mark is followed by two words for the number of bits.
        blocks = (len(before) + len(message) + 2) // BLOCK_WORDS + 1
        padded = self.padded(before, message, length, 0x80, blocks * BLOCK_WORDS)
        words = [swapped(word) for word in padded]
        last = (length + len(before) + 2) // BLOCK_WORDS
        bits = (length + len(before)) << 5
        state: Sequence[Value] = self._start()
        for number in range(blocks):
            block = words[number * BLOCK_WORDS : (number + 1) * BLOCK_WORDS]
            block[-1] = k.select(last == number, bits, block[-1])
            next_state = self.after_block(state, block)
            state = [k.select(last >= number, a, b) for a, b in zip(next_state, state, strict=True)]
        return tuple(swapped(word) for word in state)

    def _start(self) -> list[Value]:
        return [self._k.constant(word, types.u32) for word in start_words()]

    def _digest(
        self, state: Sequence[Value], words: Sequence[Value], bits: int
    ) -> tuple[Value, ...]:
        """Return the digest after the last words, which end with the mark; the length is `bits`."""
        end = [*[0] * (-(len(words) + 2) % BLOCK_WORDS), 0, bits]
        padded = [*words, *[self._k.constant(word, types.u32) for word in end]]
        for start in range(0, len(padded), BLOCK_WORDS):
            state = self.after_block(state, padded[start : start + BLOCK_WORDS])
        return tuple(swapped(word) for word in state)

    def after_block(self, state: Sequence[Value], block: Sequence[Value]) -> list[Value]:
        """Return the state after a block, both in words as FIPS 180-4 counts them."""
        # Each iteration runs 16 rounds, one for each of the 16 words of the schedule.
        with self._k.range(0, _ROUNDS // BLOCK_WORDS, carry=(*state, *block)) as rounds:
            a, b, c, d, e, f, g, h, *words = rounds.carried
            for index in range(BLOCK_WORDS):
                constant = self._constants[rounds.index * BLOCK_WORDS + index]
                choice = g ^ (e & (f ^ g))
                majority = (a & b) ^ (c & (a ^ b))
                t1 = h + _xor_of_rotations(e, 6, 11, 25) + choice + constant + words[index]
                t2 = _xor_of_rotations(a, 2, 13, 22) + majority
                a, b, c, d, e, f, g, h = t1 + t2, a, b, c, d + t1, e, f, g
                # The schedule's word of 16 rounds later replaces this one.
                word_1, word_14 = (
                    words[(index + 1) % BLOCK_WORDS],
                    words[(index + 14) % BLOCK_WORDS],
                )
                words[index] += _xor_of_rotations(word_1, 7, 18) ^ (word_1 >> 3)
                words[index] += words[(index + 9) % BLOCK_WORDS] + (
                    _xor_of_rotations(word_14, 17, 19) ^ (word_14 >> 10)
                )
            rounds.next((a, b, c, d, e, f, g, h, *words))
        return [old + new for old, new in zip(state, rounds.results[:8], strict=True)]


def _reference(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()


SHA_256 = ByteHash(_reference, 6, lambda k, alone: Sha256(k))


def _xor_of_rotations(word: Value, *turns: int) -> Value:
    """Return the exclusive or of a word rotated right by each of several numbers of bits."""
    total, *others = [(word >> turn) | (word << (32 - turn)) for turn in turns]
    for other in others:
        total = total ^ other
    return total


def swapped(word: Value) -> Value:
    """Return a word with its bytes reversed."""
    halves_swapped = (word >> 16) | (word << 16)
    return ((halves_swapped >> 8) & 0x00FF00FF) | ((halves_swapped << 8) & 0xFF00FF00)


def _primes(count: int) -> list[int]:
    primes: list[int] = []
    number = 2
    while len(primes) < count:
        if all(number % prime for prime in primes):
            primes.append(number)
        number += 1
    return primes


def _cube_root(number: int) -> int:
    """Return the cube root of an integer, rounded down."""
    low, high = 0, 1 << (number.bit_length() // 3 + 1)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if middle**3 <= number else (low, middle)
    return low

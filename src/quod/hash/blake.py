"""BLAKE-256 and BLAKE-512, the candidates for SHA-3 of 2010, which hashlib lacks.

Aumasson, Henzen, Meier, Phan, "SHA-3 proposal BLAKE", version 1.3: 14 and 16 rounds, no salt.
circomlib derives generators with BLAKE-256 and keys with BLAKE-512. BLAKE2 (RFC 7693) has the same
steps and order of words: `quod.hash.blake2b`.
"""

from __future__ import annotations

from functools import cache

from quod.frozen import frozen
from quod.hash.sha2 import start_words

ORDER = (
    (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15),
    (14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3),
    (11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4),
    (7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8),
    (9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13),
    (2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9),
    (12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11),
    (13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10),
    (6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5),
    (10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0),
)
"""Row r: the order of a block's words in round r; rounds beyond the last row repeat the rows."""

STEPS = (
    (0, 4, 8, 12), (1, 5, 9, 13), (2, 6, 10, 14), (3, 7, 11, 15),
    (0, 5, 10, 15), (1, 6, 11, 12), (2, 7, 8, 13), (3, 4, 9, 14),
)  # fmt: skip
"""The words of the state that a round mixes: columns, then diagonals."""


@frozen
class _Blake:
    """BLAKE-256 or BLAKE-512.

    word: bits of a word.
    rotations: the four rotations of a mixing step, in bits.
    """

    word: int
    rounds: int
    rotations: tuple[int, int, int, int]

    def digest(self, message: bytes) -> bytes:
        word_bytes = self.word // 8
        counter_bytes, block_bytes = 2 * word_bytes, 16 * word_bytes
        # A bit 1, zeros, a bit 1, and the length in bits.
        zeros = -(len(message) + 1 + counter_bytes) % block_bytes
        padding = bytearray(1 + zeros)
        padding[0] |= 0x80
        padding[-1] |= 0x01
        padded = message + bytes(padding) + (8 * len(message)).to_bytes(counter_bytes, "big")
        state = start_words(self.word)
        for start in range(0, len(padded), block_bytes):
            words = [
                int.from_bytes(padded[offset : offset + word_bytes], "big")
                for offset in range(start, start + block_bytes, word_bytes)
            ]
            # Bits of the message so far; 0 for a block that contains padding only.
            bit_count = 8 * min(len(message), start + block_bytes) if start < len(message) else 0
            state = self._compress(state, words, bit_count)
        return b"".join(part.to_bytes(word_bytes, "big") for part in state)

    @property
    def _mask(self) -> int:
        return (1 << self.word) - 1

    def _compress(self, state: list[int], words: list[int], bit_count: int) -> list[int]:
        constants, mask = _fraction_of_pi(self.word), self._mask
        v = [*state, *constants[:8]]
        low, high = bit_count & mask, bit_count >> self.word
        v[12], v[13], v[14], v[15] = v[12] ^ low, v[13] ^ low, v[14] ^ high, v[15] ^ high
        for round_index in range(self.rounds):
            order = ORDER[round_index % len(ORDER)]
            for index, (a, b, c, d) in enumerate(STEPS):
                first, second = order[2 * index], order[2 * index + 1]
                for half, (word_index, constant_index) in enumerate(
                    ((first, second), (second, first))
                ):
                    v[a] = v[a] + v[b] + (words[word_index] ^ constants[constant_index]) & mask
                    v[d] = self._rotate_right(v[d] ^ v[a], self.rotations[2 * half])
                    v[c] = v[c] + v[d] & mask
                    v[b] = self._rotate_right(v[b] ^ v[c], self.rotations[2 * half + 1])
        return [part ^ v[index] ^ v[index + 8] for index, part in enumerate(state)]

    def _rotate_right(self, value: int, bits: int) -> int:
        return (value >> bits | value << self.word - bits) & self._mask


@cache
def _fraction_of_pi(word_bits: int) -> list[int]:
    """Return the first 16 words of the fraction of pi, by Machin's formula."""
    bits = 16 * word_bits
    unit = 1 << bits + 64

    def arctangent(inverse: int) -> int:
        power, total, divisor = unit // inverse, 0, 1
        while power:
            total += power // divisor if divisor % 4 == 1 else -(power // divisor)
            power //= inverse * inverse
            divisor += 2
        return total

    pi = 4 * (4 * arctangent(5) - arctangent(239))
    fraction = pi % unit >> 64
    return [
        fraction >> bits - word_bits * (index + 1) & (1 << word_bits) - 1 for index in range(16)
    ]


_BLAKE_256 = _Blake(32, 14, (16, 12, 8, 7))
_BLAKE_512 = _Blake(64, 16, (32, 25, 16, 11))


def blake_256(data: bytes) -> bytes:
    """Return the 32 bytes of BLAKE-256, not BLAKE2s."""
    return _BLAKE_256.digest(data)


def blake_512(data: bytes) -> bytes:
    """Return the 64 bytes of BLAKE-512, not BLAKE2b."""
    return _BLAKE_512.digest(data)

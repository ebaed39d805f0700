"""The random numbers of snarkjs's transcripts: ChaCha20 (RFC 8439) from a seed of eight words.

The keys of beacons and the points of proofs of knowledge are derived from such streams. Anyone can
compute a stream again, so nothing is secret, and Python integers are safe to use.
"""

from __future__ import annotations

import struct

from quod.field.moduli import Modulus

_SIGMA = struct.unpack("<4I", b"expand 32-byte k")
_MASK = 0xFFFFFFFF
_QUARTERS = (
    (0, 4, 8, 12), (1, 5, 9, 13), (2, 6, 10, 14), (3, 7, 11, 15),
    (0, 5, 10, 15), (1, 6, 11, 12), (2, 7, 8, 13), (3, 4, 9, 14),
)  # fmt: skip


class ChaChaStream:
    """The words of ChaCha20 in order, with a counter that begins at 0 and a nonce of 0."""

    def __init__(self, digest: bytes) -> None:
        """Seed the stream with the first 32 bytes of `digest`, as eight big-endian words."""
        self._seed = struct.unpack(">8I", digest[:32])
        self._counter = 0
        self._words: list[int] = []

    def next_u32(self) -> int:
        """Return the next word."""
        if not self._words:
            self._words = self._block()[::-1]
            self._counter += 1
        return self._words.pop()

    def next_u64(self) -> int:
        """Return an integer of two words, the more significant word first."""
        high = self.next_u32()
        return high << 32 | self.next_u32()

    def next_element(self, modulus: Modulus) -> int:
        """Return an element as snarkjs draws it: the random bits are its Montgomery form."""
        mask = (1 << modulus.bits) - 1
        while True:
            random_bits = sum(self.next_u64() << 64 * index for index in range(modulus.words // 2))
            if random_bits & mask < modulus.value:
                return modulus.from_montgomery(random_bits & mask)

    def _block(self) -> list[int]:
        start = [*_SIGMA, *self._seed, self._counter & _MASK, self._counter >> 32, 0, 0]
        state = list(start)
        for _ in range(10):
            for a, b, c, d in _QUARTERS:
                for rotation_d, rotation_b in ((16, 12), (8, 7)):
                    state[a] = (state[a] + state[b]) & _MASK
                    state[d] = _rotate_left(state[d] ^ state[a], rotation_d)
                    state[c] = (state[c] + state[d]) & _MASK
                    state[b] = _rotate_left(state[b] ^ state[c], rotation_b)
        return [(word + initial) & _MASK for word, initial in zip(state, start, strict=True)]


def _rotate_left(word: int, bits: int) -> int:
    return (word << bits | word >> (32 - bits)) & _MASK

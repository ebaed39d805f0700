"""The random numbers of snarkjs's transcripts: ChaCha20 (RFC 8439) from a seed of eight words.

Keys of beacons and the points that contributions are proved with follow from such a stream, which
anyone can repeat: nothing of it is secret, and plain integers hold it.
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
    """Words of ChaCha20 with a counter from 0 on and a nonce of 0, in order."""

    def __init__(self, digest: bytes) -> None:
        """The seed is the first 32 bytes, as eight big-endian words."""
        self._seed = struct.unpack(">8I", digest[:32])
        self._counter = 0
        self._words: list[int] = []

    def next_u32(self) -> int:
        """The next word."""
        if not self._words:
            self._words = self._block()[::-1]
            self._counter += 1
        return self._words.pop()

    def next_u64(self) -> int:
        """Two words, the higher one first."""
        high = self.next_u32()
        return high << 32 | self.next_u32()

    def next_element(self, modulus: Modulus) -> int:
        """An element as snarkjs draws it: what is drawn is its Montgomery form."""
        mask = (1 << modulus.bits) - 1
        while True:
            drawn = sum(self.next_u64() << 64 * place for place in range(modulus.words // 2))
            if drawn & mask < modulus.value:
                return modulus.from_montgomery(drawn & mask)

    def _block(self) -> list[int]:
        start = [*_SIGMA, *self._seed, self._counter & _MASK, self._counter >> 32, 0, 0]
        state = list(start)
        for _ in range(10):
            for a, b, c, d in _QUARTERS:
                for turn_d, turn_b in ((16, 12), (8, 7)):
                    state[a] = (state[a] + state[b]) & _MASK
                    state[d] = _turned(state[d] ^ state[a], turn_d)
                    state[c] = (state[c] + state[d]) & _MASK
                    state[b] = _turned(state[b] ^ state[c], turn_b)
        return [(word + initial) & _MASK for word, initial in zip(state, start, strict=True)]


def _turned(word: int, bits: int) -> int:
    return (word << bits | word >> (32 - bits)) & _MASK

"""The ChaCha block function over arrays: RFC 8439, with any number of rounds."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.uint32]

BLOCK_BYTES = 64
_CONSTANTS = np.frombuffer(b"expand 32-byte k", "<u4").astype(np.uint32)
_STATES = 1 << 12


def chacha_blocks(keys: Words, positions: Words, rounds: int) -> Words:
    """Return blocks of key streams, uint32 of shape (n, 16).

    keys: uint32 of shape (n, 8), or (1, 8) for one stream.
    positions: uint32 of shape (n, 4): the last four words of the state, which are a counter and a
        nonce of three words (RFC 8439) or a counter of two words and a stream of two words.
    rounds: an even number.
    """
    blocks = np.empty((len(positions), 16), np.uint32)
    for start in range(0, len(positions), _STATES):
        chunk = slice(start, start + _STATES)
        key = keys if len(keys) == 1 else keys[chunk]
        blocks[chunk] = _blocks(key, positions[chunk], rounds).T
    return blocks


def _blocks(keys: Words, positions: Words, rounds: int) -> Words:
    """Return blocks as columns."""
    initial = np.empty((16, len(positions)), np.uint32)
    initial[:4] = _CONSTANTS[:, None]
    initial[4:12], initial[12:] = keys.T, positions.T
    # Row i of the state's matrix of 4 * 4 words, whose columns a quarter round mixes.
    a, b, c, d = (initial[4 * row : 4 * row + 4].copy() for row in range(4))
    for _ in range(rounds // 2):
        _quarter_rounds(a, b, c, d)
        # Rotated rows have the diagonals as columns.
        b, c, d = (np.roll(row, -turn, axis=0) for turn, row in enumerate((b, c, d), 1))
        _quarter_rounds(a, b, c, d)
        b, c, d = (np.roll(row, turn, axis=0) for turn, row in enumerate((b, c, d), 1))
    return np.concatenate((a, b, c, d)) + initial


def _quarter_rounds(a: Words, b: Words, c: Words, d: Words) -> None:
    for turns in ((16, 12), (8, 7)):
        for x, y, z, turn in ((a, b, d, turns[0]), (c, d, b, turns[1])):
            x += y
            z ^= x
            _rotate(z, turn)


def _rotate(words: NDArray[Any], turn: int) -> None:
    low = words >> np.uint32(32 - turn)
    words <<= np.uint32(turn)
    words |= low


def chacha20_stream(key: bytes, nonce: bytes, offsets: NDArray[Any], length: int) -> NDArray[Any]:
    """Return parts of a ChaCha20 key stream (RFC 8439), uint8 of shape (n, length).

    key, nonce: 32 and 12 bytes; the counter begins at 0.
    offsets: the offset of each part in bytes, a multiple of its length.
    length: bytes of a part, a divisor of 64.
    """
    counters, places = np.divmod(np.asarray(offsets, np.int64), BLOCK_BYTES)
    positions = np.empty((len(counters), 4), np.uint32)
    positions[:, 0], positions[:, 1:] = counters, np.frombuffer(nonce, "<u4")
    keys = np.frombuffer(key, "<u4").astype(np.uint32).reshape(1, 8)
    parts = chacha_blocks(keys, positions, 20).astype("<u4").view(np.uint8)
    parts = parts.reshape(len(counters), -1, length)
    streams: NDArray[Any] = parts[np.arange(len(counters)), places // length]
    return streams

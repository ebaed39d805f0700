"""BLAKE2b-512 (RFC 7693) with a state that can be saved and restored.

Contributions to powers of tau contain the state of an unfinished hash, which hashlib does not
expose. One instance of a kernel on the CPU compresses the blocks.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from quod.device.discovery import resolve_device
from quod.errors import InputError
from quod.hash.blake import ORDER, STEPS
from quod.hash.sha2 import start_words
from quod.kernel import U32, U64, Builder, Pointer, kernel
from quod.kernel.ir import types
from quod.kernel.ir.value import Value

BLOCK = 128
STATE_BYTES = 216
"""Bytes of a state: a block, eight words, the counts of bytes compressed and in the block, 0."""

_IV = start_words(64)
_ROUNDS = 12
# The first word includes the parameters: 64 bytes of digest, no key.
_START = (_IV[0] ^ 0x01010040, *_IV[1:])
_FULL = (1 << 64) - 1
_MAX_BLOCKS = 1 << 24
# The limit of bytes compressed before a restored state, so that counts stay below 2**64.
_MAX_BYTES = 1 << 62


@kernel
def compress_blocks(
    k: Builder,
    count: U32,
    last: U64,
    before: U64,
    taken: U64,
    blocks: Pointer[U64],
    state: Pointer[U64],
) -> None:
    """Compress `count` blocks into a state, in one instance.

    before: the number of bytes that were compressed earlier.
    taken: the number of message bytes of each block.
    last: all ones for the end of the message, else 0.
    """
    start = tuple(k.load(state, k.constant(0, types.u64), 8))
    with k.range(0, count, carry=(*start, before)) as loop:
        *h, length = loop.carried
        length = length + taken
        words = k.load(blocks, loop.index.cast(types.u64) * 16, 16)
        v: list[Value] = [*h, *(k.constant(word, types.u64) for word in _IV)]
        v[12] = v[12] ^ length
        v[14] = v[14] ^ last
        for round_index in range(_ROUNDS):
            order = ORDER[round_index % len(ORDER)]
            for step, indices in enumerate(STEPS):
                _mix(v, indices, words[order[2 * step]], words[order[2 * step + 1]])
        loop.next((*(h[i] ^ v[i] ^ v[i + 8] for i in range(8)), length))
    k.store(state, k.constant(0, types.u64), *loop.results[:8])


def _mix(v: list[Value], indices: tuple[int, int, int, int], x: Value, y: Value) -> None:
    """Apply the mixing function G of RFC 7693, section 3.1, to four words of the state."""
    a, b, c, d = indices
    for word, first_rotation, second_rotation in ((x, 32, 24), (y, 16, 63)):
        v[a] = v[a] + v[b] + word
        v[d] = _rotate_right(v[d] ^ v[a], first_rotation)
        v[c] = v[c] + v[d]
        v[b] = _rotate_right(v[b] ^ v[c], second_rotation)


def _rotate_right(word: Value, bits: int) -> Value:
    return (word >> bits) | (word << (64 - bits))


class Blake2b:
    """An incremental hash; messages are shorter than 2**64 bytes."""

    def __init__(self, data: Any = b"") -> None:
        self._words = np.array(_START, np.uint64)
        self._block = bytearray(BLOCK)
        self._buffered = 0
        self._compressed = 0
        self.update(data)

    def update(self, data: Any) -> Self:
        """Hash further bytes, or the bytes of an array in C order."""
        view = memoryview(data).cast("B")
        # The last block is compressed only when more bytes follow, or by `digest`.
        if self._buffered and self._buffered + len(view) > BLOCK:
            free_bytes = BLOCK - self._buffered
            self._block[self._buffered :] = view[:free_bytes]
            view = view[free_bytes:]
            self._compress(self._block, 1)
            self._buffered = 0
        if len(view) > BLOCK:
            full_blocks = (len(view) - 1) // BLOCK
            for first_block in range(0, full_blocks, _MAX_BLOCKS):
                count = min(_MAX_BLOCKS, full_blocks - first_block)
                self._compress(view[first_block * BLOCK : (first_block + count) * BLOCK], count)
            view = view[full_blocks * BLOCK :]
        self._block[self._buffered : self._buffered + len(view)] = view
        self._buffered += len(view)
        return self

    def copy(self) -> Blake2b:
        """Return an independent hash with the same state."""
        duplicate = Blake2b()
        duplicate._words = self._words.copy()
        duplicate._block[:] = self._block
        duplicate._buffered, duplicate._compressed = self._buffered, self._compressed
        return duplicate

    def digest(self) -> bytes:
        """Return the 64 bytes of the hash; more bytes may be added afterwards."""
        final = self.copy()
        final._block[final._buffered :] = bytes(BLOCK - final._buffered)
        final._compress(final._block, 1, taken=final._buffered, last=True)
        return final._words.astype("<u8").tobytes()

    def state(self) -> bytes:
        """Return `STATE_BYTES` bytes of state, as contributions to powers of tau store them."""
        block = bytes(self._block[: self._buffered]) + bytes(BLOCK - self._buffered)
        counts = np.array([self._compressed, self._buffered, 0], "<u8")
        return block + self._words.astype("<u8").tobytes() + counts.tobytes()

    @classmethod
    def from_state(cls, state: bytes) -> Blake2b:
        """Restore a hash from the result of `state`; raise InputError if it is invalid."""
        if len(state) != STATE_BYTES:
            raise InputError(f"a state of BLAKE2b has {STATE_BYTES} bytes, not {len(state)}")
        words = np.frombuffer(state, "<u8", offset=BLOCK)
        compressed, buffered = int(words[8]), int(words[9])
        if buffered > BLOCK or compressed % BLOCK or compressed > _MAX_BYTES or words[10]:
            raise InputError(
                f"a state of BLAKE2b cannot have {compressed} compressed bytes and {buffered} "
                "bytes in its block"
            )
        hasher = cls()
        hasher._words = words[:8].astype(np.uint64)
        hasher._block[:] = state[:BLOCK]
        hasher._buffered, hasher._compressed = buffered, compressed
        return hasher

    def _compress(self, data: Any, count: int, *, taken: int = BLOCK, last: bool = False) -> None:
        device = resolve_device("cpu")
        blocks = np.frombuffer(data, np.uint8)
        if blocks.ctypes.data % 8:
            blocks = blocks.copy()
        device.launch(
            device.compile(compress_blocks, lanes=1), 1, count, _FULL if last else 0,
            self._compressed, taken, blocks.view("<u8"), self._words,
        )  # fmt: skip
        self._compressed += taken * count


def blake2b(*parts: Any) -> bytes:
    """Return the digest of the concatenation of `parts`, which must not be secret."""
    import hashlib

    hasher = hashlib.blake2b()
    for part in parts:
        hasher.update(part)
    return hasher.digest()

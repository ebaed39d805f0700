"""A toy hash of bytes, which is not secure: what a file of `quod.hash` has to have."""

from __future__ import annotations

from collections.abc import Sequence

from quod.hash.byte_hash import ByteHash, KernelDigest
from quod.hash.words import Load, Words
from quod.kernel.builder.builder import Builder
from quod.kernel.ir import types
from quod.kernel.ir.value import Value

_START = tuple(range(1, 9))
_FACTOR = 0x9E3779B1
_MARK = 1
"""The byte behind a message."""


def toy(data: bytes) -> bytes:
    """The 32 bytes of the digest of a message."""
    padded = data + bytes([_MARK]) + bytes(-(len(data) + 1) % 4)
    state = list(_START)
    words = [int.from_bytes(padded[at : at + 4], "little") for at in range(0, len(padded), 4)]
    for word in [*words, *_START]:
        state = [*state[1:], ((state[0] ^ word) * _FACTOR + (state[3] >> 7)) % (1 << 32)]
    return b"".join(word.to_bytes(4, "little") for word in state)


class Toy(KernelDigest):
    """The hash for one kernel; each instance has a message of its own, and comes or does not."""

    is_shared = False

    def __init__(self, k: Builder) -> None:
        super().__init__(k)
        self._start = [k.constant(word, types.u32) for word in _START]

    def __call__(self, message: Sequence[Value]) -> Words:
        """The digest of a message."""
        mark = self._k.constant(_MARK, types.u32)
        return self._finished(self._after(self._start, [*message, mark]))

    def digest_run(self, load: Load, words: int, level: Value) -> Words:
        """The digest of so many words and the byte of a level."""
        with self._k.range(0, words, carry=tuple(self._start)) as loop:
            loop.next(tuple(self._after(loop.carried, load(loop.index, 1))))
        return self._finished(self._after(loop.results, [level | (_MARK << 8)]))

    def digest_prefix(
        self, before: Sequence[Value], message: Sequence[Value], length: Value
    ) -> Words:
        """The digest of some words and the first `length` words of a message."""
        k, state = self._k, self._start
        words = self.padded(before, message, length, _MARK, len(before) + len(message) + 1)
        for place, word in enumerate(words):
            is_absorbed = length + len(before) >= place
            after = self._after(state, [word])
            state = [k.select(is_absorbed, new, old) for new, old in zip(after, state, strict=True)]
        return self._finished(state)

    def _finished(self, state: Sequence[Value]) -> Words:
        return tuple(self._after(state, self._start))

    def _after(self, state: Sequence[Value], words: Sequence[Value]) -> list[Value]:
        state = list(state)
        for word in words:
            state = [*state[1:], (state[0] ^ word) * _FACTOR + (state[3] >> 7)]
        return state


TOY = ByteHash(toy, 6, lambda k, alone: Toy(k))

HOST_ONLY = ByteHash(toy, 6)

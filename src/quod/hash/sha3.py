"""SHA3-256 (FIPS 202): hashlib's on the host, and inside kernels over Keccak-f[1600]."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from quod.hash.byte_hash import ByteHash, KernelDigest
from quod.hash.keccak import ROUNDS, moves, round_constants
from quod.hash.keccak_lanes import LanePermutation
from quod.hash.words import Load
from quod.kernel.builder.builder import Builder
from quod.kernel.ir import types
from quod.kernel.ir.value import Value

State = tuple[Value, ...]
"""25 words of 64 bits; word x + 5*y is that of column x and row y."""

RATE_WORDS = 34
"""32-bit words that SHA3-256 absorbs at a time."""

# The bits that follow a message: FIPS 202, sections 5.1 and 6.1.
_MARK = 0x06


class Permutation:
    """The permutation in one kernel; create it at the kernel's top, as its constants are tables.

    On machines with fast shuffles (`is_shared`) the lanes of a subgroup share the work, one word
    each. Then all lanes must have the same state, and all instances of the workgroup must call it.
    alone: each instance has its own state on every machine, and not all instances need to call it.
    """

    def __init__(self, k: Builder, *, alone: bool = False) -> None:
        self._k = k
        self.is_shared = not alone and LanePermutation.is_faster(k)
        if self.is_shared:
            self._by_lanes = LanePermutation(k)
        else:
            self._constants = k.table(types.u64, round_constants())

    def __call__(self, state: Sequence[Value], count: int = 25) -> list[Value]:
        """Return the first `count` words of the state after the permutation."""
        if self.is_shared:
            return self._by_lanes(state, count)
        with self._k.range(0, ROUNDS, carry=tuple(state)) as rounds:
            rounds.next(_round(rounds.carried, self._constants[rounds.index]))
        return list(rounds.results[:count])


class Sha3(KernelDigest):
    """SHA3-256 inside one kernel; create it at the kernel's top.

    Whether instances share a message or have their own is as for the states of `Permutation`.
    """

    def __init__(self, k: Builder, *, alone: bool = False) -> None:
        super().__init__(k)
        self._permutation = Permutation(k, alone=alone)
        self.is_shared = self._permutation.is_shared

    def __call__(self, message: Sequence[Value]) -> State:
        """Return the digest of a message; both are bytes in little-endian words of 32 bits."""
        return self._digest(self._start(), [*message, self._k.constant(_MARK, types.u32)])

    def digest_run(self, load: Load, words: int, level: Value) -> State:
        """Return the digest of `words` words, read by `load`, and then a byte with the level."""
        sponge, full_words = self._start(), words // RATE_WORDS * RATE_WORDS
        if full_words:
            with self._k.range(0, full_words, RATE_WORDS, carry=tuple(sponge)) as blocks:
                mixed = with_block(blocks.carried, load(blocks.index, RATE_WORDS))
                blocks.next(tuple(self._permutation(mixed)))
            sponge = list(blocks.results)
        tail = (
            load(self._k.constant(full_words, types.u32), words - full_words)
            if words > full_words
            else ()
        )
        # The byte with the level precedes the padding's mark.
        return self._digest(sponge, [*tail, level | _MARK << 8])

    def digest_prefix(
        self, before: Sequence[Value], message: Sequence[Value], length: Value
    ) -> State:
        """Return the digest of the words `before` and the first `length` words of a message."""
        k, zero = self._k, self._k.constant(0, types.u32)
        blocks = (len(before) + len(message)) // RATE_WORDS + 1
        words = self.padded(before, message, length, _MARK, blocks * RATE_WORDS)
        last = (length + len(before)) // RATE_WORDS
        sponge = self._start()
        digest: list[Value] = []
        for block_index in range(blocks):
            block = words[block_index * RATE_WORDS : (block_index + 1) * RATE_WORDS]
            block[-1] |= k.select(last == block_index, k.constant(0x80000000, types.u32), zero)
            for word_index in range(RATE_WORDS // 2):
                low, high = block[2 * word_index], block[2 * word_index + 1]
                sponge[word_index] ^= low.cast(types.u64) | (high.cast(types.u64) << 32)
            sponge = self._permutation(sponge, 4 if block_index == blocks - 1 else 25)
            digest = [
                k.select(last == block_index, new, old)
                for new, old in zip(sponge[:4], digest or sponge[:4], strict=True)
            ]
        return tuple(half.cast(types.u32) for word in digest for half in (word, word >> 32))

    def _start(self) -> list[Value]:
        return [self._k.constant(0, types.u64)] * 25

    def _digest(self, sponge: Sequence[Value], words: Sequence[Value]) -> State:
        """Absorb the last words, which already contain the padding's first bit, and squeeze."""
        zero = self._k.constant(0, types.u32)
        padded = [*words, *[zero] * (-len(words) % RATE_WORDS)]
        padded[-1] = padded[-1] | 0x80000000
        blocks = range(0, len(padded), RATE_WORDS)
        for start in blocks:
            mixed = with_block(sponge, padded[start : start + RATE_WORDS])
            sponge = self._permutation(mixed, 4 if start == blocks[-1] else 25)
        halves = [half for word in sponge[:4] for half in (word, word >> 32)]
        return tuple(half.cast(types.u32) for half in halves)


def _reference(data: bytes) -> bytes:
    return hashlib.sha3_256(data).digest()


SHA3_256 = ByteHash(_reference, 6, lambda k, alone: Sha3(k, alone=alone))


def with_block(sponge: Sequence[Value], words: Sequence[Value]) -> list[Value]:
    """Return a sponge's state after the xor with a block of 32-bit words."""
    pairs = zip(words[::2], words[1::2], strict=True)
    block = [low.cast(types.u64) | (high.cast(types.u64) << 32) for low, high in pairs]
    mixed = [word ^ part for word, part in zip(sponge, block)]
    return [*mixed, *sponge[len(block) :]]


def _round(a: State, constant: Value) -> State:
    """Apply the steps theta, rho and pi, chi, iota."""
    columns = [a[x] ^ a[x + 5] ^ a[x + 10] ^ a[x + 15] ^ a[x + 20] for x in range(5)]
    theta = [columns[x - 1] ^ _rotate_left(columns[(x + 1) % 5], 1) for x in range(5)]
    a = tuple(word ^ theta[index % 5] for index, word in enumerate(a))
    moved = list(a)
    for source, rotation, target in moves():
        moved[target] = _rotate_left(a[source], rotation)
    first, *other_words = [
        moved[x + 5 * y] ^ (~moved[(x + 1) % 5 + 5 * y] & moved[(x + 2) % 5 + 5 * y])
        for y in range(5)
        for x in range(5)
    ]
    return (first ^ constant, *other_words)


def _rotate_left(word: Value, bits: int) -> Value:
    return word if bits == 0 else (word << bits) | (word >> (64 - bits))

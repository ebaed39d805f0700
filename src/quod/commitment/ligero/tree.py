"""Kernels of a Merkle tree over the columns of a matrix: a hash an instance.

Node i has the children 2*i and 2*i + 1, so that the root is node 1, and column j of 2**m is node
2**m + j. A digest is 8 words of 32 bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from quod.commitment.ligero.merkle import LEAF, NODE
from quod.field.moduli import Modulus
from quod.field.strategy import prime_field
from quod.kernel import U32, Builder, Pointer, kernel, types
from quod.kernel.value import Value
from quod.transcript.chain import STATE_WORDS
from quod.transcript.keccak import RATE_WORDS, Permutation
from quod.transcript.words import message_words

_PADDING = 0x06


@kernel
def hash_columns(
    k: Builder,
    columns: U32,
    matrix: Pointer[U32],
    tree: Pointer[U32],
    *,
    modulus: Modulus,
    rows: int,
) -> None:
    """The leaves of a tree over the columns of a matrix of so many rows, in the form of memory.

    A leaf is SHA3-256 of the canonical elements of its column and the byte LEAF.
    """
    f: Any = prime_field(k, modulus)
    permutation = Permutation(k, alone=True)
    column = k.global_id()
    a_block = RATE_WORDS // modulus.words
    whole = rows // a_block
    with k.if_(column < columns):

        def element(row: Value | int) -> Sequence[Value]:
            return message_words(f, f.load(matrix, column + columns * row))

        sponge: Sequence[Value] = [k.constant(0, types.u64)] * 25
        if whole:
            with k.range(0, whole, carry=tuple(sponge)) as blocks:
                first = blocks.index * a_block
                words = [word for at in range(a_block) for word in element(first + at)]
                blocks.next(tuple(permutation(_mixed(blocks.carried, words))))
            sponge = blocks.results
        rest = [word for row in range(whole * a_block, rows) for word in element(row)]
        _store_digest(k, permutation, sponge, rest, LEAF, tree, columns + column)


@kernel
def hash_pairs(k: Builder, count: U32, tree: Pointer[U32]) -> None:
    """The nodes count to 2*count - 1: SHA3-256 of both children's digests and the byte NODE."""
    permutation = Permutation(k, alone=True)
    place = k.global_id()
    with k.if_(place < count):
        node = count + place
        words = k.load(tree, node * (2 * STATE_WORDS), 2 * STATE_WORDS)
        zero = k.constant(0, types.u64)
        _store_digest(k, permutation, [zero] * 25, list(words), NODE, tree, node)


def _store_digest(
    k: Builder, permutation: Permutation, sponge: Sequence[Value], rest: Sequence[Value],
    domain: bytes, tree: Value, node: Value,
) -> None:  # fmt: skip
    """Absorbs the last block, less than whole, and the domain behind it."""
    words = [*rest, k.constant(domain[0] | _PADDING << 8, types.u32)]
    words += [k.constant(0, types.u32)] * (RATE_WORDS - len(words))
    words[-1] = words[-1] | 0x80000000
    digest = permutation(_mixed(sponge, words), STATE_WORDS // 2)
    halves = [half.cast(types.u32) for word in digest for half in (word, word >> 32)]
    k.store(tree, node * STATE_WORDS, *halves)


def _mixed(sponge: Sequence[Value], words: Sequence[Value]) -> list[Value]:
    """A state with a block."""
    pairs = zip(words[::2], words[1::2], strict=True)
    block = [low.cast(types.u64) | (high.cast(types.u64) << 32) for low, high in pairs]
    mixed = [word ^ part for word, part in zip(sponge, block)]
    return [*mixed, *sponge[len(block) :]]

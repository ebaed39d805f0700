"""Kernels of a Merkle tree over the columns of a matrix; each instance computes one hash.

Node i has the children 2*i and 2*i + 1; the root is node 1, and column j of 2**m is node 2**m + j.
A digest has 8 words of 32 bits. It is the hash of a run (`Hash.digest_by_runs`), with level 0 for a
leaf and level 1 for any other node.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from quod.commitment.ligero.merkle import LEAF, NODE
from quod.field.moduli import Modulus
from quod.field.strategy import prime_field
from quod.hash.function import STATE_WORDS
from quod.hash.table import Hash
from quod.hash.words import message_words
from quod.kernel import U32, Builder, Pointer, kernel
from quod.kernel.ir.value import Value
from quod.transcript.chain import RunHash


@kernel
def hash_columns(
    k: Builder,
    columns: U32,
    matrix: Pointer[U32],
    tree: Pointer[U32],
    *,
    modulus: Modulus,
    rows: int,
    hash: Hash = Hash.SHA3_256,
) -> None:
    """Hash each column of a matrix to a leaf of the tree; the elements are in memory form.

    A leaf is the hash of the column's canonical elements followed by the byte LEAF.
    """
    f: Any = prime_field(k, modulus)
    digest = RunHash(k, hash)
    column = k.global_id()
    with k.if_(column < columns):

        def elements(first: Value, words: int) -> Sequence[Value]:
            row = first if modulus.words == 1 else first // modulus.words
            return [
                word
                for index in range(words // modulus.words)
                for word in message_words(f, f.load(matrix, column + columns * (row + index)))
            ]

        leaf = digest(elements, rows * modulus.words, LEAF)
        k.store(tree, (columns + column) * STATE_WORDS, *leaf)


@kernel
def hash_pairs(
    k: Builder, count: U32, tree: Pointer[U32], *, hash: Hash = Hash.SHA3_256
) -> None:  # fmt: skip
    """Hash the digests of both children to nodes `count` to 2*count - 1."""
    digest = RunHash(k, hash)
    index = k.global_id()
    with k.if_(index < count):
        node = count + index
        first = node * (2 * STATE_WORDS)
        parent = digest(lambda at, size: k.load(tree, first + at, size), 2 * STATE_WORDS, NODE)
        k.store(tree, node * STATE_WORDS, *parent)

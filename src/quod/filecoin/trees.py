"""TreeD, TreeC and TreeRLast of a sector, with the Merkle proofs of their leaves.

TreeD is binary over SHA-256, 254 bits of each digest. TreeC has the hashes of columns as leaves and
TreeRLast the nodes of the replica; they are trees of Poseidon with the arities of the sector's
shape. Levels are in one array for all base trees, whose roots are the children of the upper levels.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Sequence
from math import prod

import numpy as np

from quod.errors import InputError
from quod.field.array import Words, integers_to_words, words_to_integers
from quod.field.moduli import BLS12_381_FR
from quod.filecoin.nodes import TOP_BYTE_MASK, P
from quod.filecoin.poseidon import NodeHasher
from quod.filecoin.records import MerkleProof, PathElement
from quod.filecoin.sectors import NODE_BYTES, SectorShape
from quod.frozen import frozen
from quod.validation import whole_number

_NODE_WORDS = NODE_BYTES // 4


class Tree(ABC):
    """A Merkle tree.

    arities: the arity of each level, from the leaves.
    base_levels: the number of levels of a base tree; all levels of a tree without upper levels.
    """

    arities: tuple[int, ...]
    base_levels: int

    @property
    def root(self) -> bytes:
        """The commitment: comm_d, comm_c or comm_r_last."""
        return self.node(len(self.arities), 0)

    @abstractmethod
    def node(self, level: int, index: int) -> bytes:
        """Return a node of a level; level 0 has the leaves."""

    def proof(self, leaf: int) -> MerkleProof:
        """Return the Merkle proof of a leaf; raises InputError for a leaf that the tree lacks."""
        leaf = whole_number("the leaf", leaf, 0, prod(self.arities) - 1)
        path, index = [], leaf
        for level, arity in enumerate(self.arities):
            index, digit = divmod(index, arity)
            first = index * arity
            siblings = (first + other for other in range(arity) if other != digit)
            path.append(PathElement(tuple(self.node(level, s) for s in siblings), digit))
        base, upper = tuple(path[: self.base_levels]), path[self.base_levels :]
        sub, top = tuple(upper[:1]), tuple(upper[1:])
        return MerkleProof(self.root, self.node(0, leaf), base, sub, top)


@frozen(eq=False)
class MerkleTree(Tree):
    """A Merkle tree in memory.

    levels: the nodes of each level, from the leaves to the root, uint32 of shape (n, 8).
    """

    arities: tuple[int, ...]
    base_levels: int
    levels: Sequence[Words]

    def node(self, level: int, index: int) -> bytes:
        return words_to_node(self.levels[level][index])


def tree_d(data: bytes | Words) -> MerkleTree:
    """Compute TreeD over the nodes of a sector's data.

    Raises InputError unless the number of nodes is a power of two.
    """
    level = np.ascontiguousarray(data).tobytes() if isinstance(data, np.ndarray) else data
    count = len(level) // NODE_BYTES
    if not count or count & (count - 1) or len(level) % NODE_BYTES:
        raise InputError(f"the data must be 2^n nodes of 32 bytes, not {len(level)} bytes")
    levels = [nodes_to_words(level)]
    while count > 1:
        level = sha256_level(level)
        levels.append(nodes_to_words(level))
        count //= 2
    return MerkleTree((2,) * (len(levels) - 1), len(levels) - 1, levels)


def sha256_level(level: bytes) -> bytes:
    """Return the nodes above a level of TreeD."""
    sha256, size = hashlib.sha256, 2 * NODE_BYTES
    digests = [sha256(level[at : at + size]).digest() for at in range(0, len(level), size)]
    nodes = np.frombuffer(bytearray().join(digests), np.uint8)
    nodes[NODE_BYTES - 1 :: NODE_BYTES] &= TOP_BYTE_MASK
    return nodes.tobytes()


def tree_c(sector: SectorShape, layers: Sequence[Words], hasher: NodeHasher) -> MerkleTree:
    """Compute TreeC over the columns of the labels; `layers` has the labels of each layer."""
    return _replica_tree(sector, hasher.hash_columns(layers), hasher)


def tree_r_last(sector: SectorShape, replica: Words, hasher: NodeHasher) -> MerkleTree:
    """Compute TreeRLast over the nodes of the replica."""
    return _replica_tree(sector, replica, hasher)


def _replica_tree(sector: SectorShape, leaves: Words, hasher: NodeHasher) -> MerkleTree:
    levels = hasher.tree_levels(sector.arities, leaves)
    return MerkleTree(sector.arities, sector.base_levels, levels)


def encode_replica(labels: Words, data: Words) -> Words:
    """Return the replica: the sums of the last layer's labels and the data nodes, in the field."""
    keys, values = (words_to_integers(BLS12_381_FR, words) for words in (labels, data))
    sums = [(key + value) % P for key, value in zip(keys, values, strict=True)]
    return integers_to_words(BLS12_381_FR, sums)


def nodes_to_words(nodes: bytes) -> Words:
    """Return nodes as words, uint32 of shape (n, 8)."""
    return np.frombuffer(nodes, "<u4").astype(np.uint32, copy=False).reshape(-1, _NODE_WORDS)


def words_to_node(words: Words) -> bytes:
    """Return the node of eight words."""
    return np.ascontiguousarray(words, "<u4").tobytes()

"""Merkle trees of large sectors for tests, of which only some nodes are stored."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod

import numpy as np
from numpy.typing import NDArray

from quod.errors import InputError
from quod.field.array import Words
from quod.filecoin.nodes import TOP_BYTE_MASK
from quod.filecoin.sectors import NODE_BYTES
from quod.filecoin.trees import Tree, nodes_to_words
from quod.frozen import frozen

HashGroups = Callable[[int, Words], Words]
"""A function from an arity and nodes to the hash of each group of successive nodes."""

Draw = Callable[[int], Words]
"""A function from a count to as many random nodes."""


def node_source(seed: int) -> Draw:
    """Return a source of random nodes of 254 bits; equal seeds give equal nodes."""
    generator = np.random.default_rng(seed)

    def draw(count: int) -> Words:
        nodes = np.frombuffer(bytearray(generator.bytes(NODE_BYTES * count)), np.uint8)
        nodes[NODE_BYTES - 1 :: NODE_BYTES] &= TOP_BYTE_MASK
        return nodes.view("<u4").astype(np.uint32, copy=False).reshape(-1, NODE_BYTES // 4)

    return draw


@frozen(eq=False)
class SparseTree(Tree):
    """A tree with the nodes on and next to the paths of some leaves.

    levels: the stored nodes of each level by index, from the leaves to the root.
    """

    arities: tuple[int, ...]
    base_levels: int
    levels: Sequence[Mapping[int, bytes]]

    def node(self, level: int, index: int) -> bytes:
        """Return a node; raises InputError for a node that is not stored."""
        try:
            return self.levels[level][index]
        except KeyError:
            raise InputError(f"node {index} of level {level} is not stored") from None


def sparse_tree(
    arities: tuple[int, ...], base_levels: int, leaves: Mapping[int, bytes],
    hash_groups: HashGroups, draw: Draw,
) -> SparseTree:  # fmt: skip
    """Compute the tree over some leaves; the siblings on their paths are random."""
    indices = np.array(sorted(leaves), np.int64)
    nodes = nodes_to_words(b"".join(leaves[index] for index in indices.tolist()))
    levels = []
    for arity in arities:
        parents, groups = np.unique(indices // arity, return_inverse=True)
        children = draw(arity * len(parents))
        children[groups * arity + indices % arity] = nodes
        levels.append(_by_index(parents[:, None] * arity + np.arange(arity), children))
        indices, nodes = parents, hash_groups(arity, children)
    levels.append(_by_index(indices, nodes))
    return SparseTree(arities, base_levels, levels)


def _by_index(indices: NDArray[np.int64], nodes: Words) -> dict[int, bytes]:
    data = np.ascontiguousarray(nodes, "<u4").tobytes()
    starts = range(0, len(data), NODE_BYTES)
    values = (data[start : start + NODE_BYTES] for start in starts)
    return dict(zip(indices.reshape(-1).tolist(), values, strict=True))


@frozen(eq=False)
class RunLengthTree(Tree):
    """A tree whose levels are runs of equal nodes.

    levels: the node of each run and the length of all runs, by level from the leaves to the root.
    """

    arities: tuple[int, ...]
    base_levels: int
    levels: Sequence[tuple[bytes, int]]

    def node(self, level: int, index: int) -> bytes:
        nodes, length = self.levels[level]
        start = NODE_BYTES * (index // length)
        return nodes[start : start + NODE_BYTES]


def run_length_tree(
    arities: tuple[int, ...], base_levels: int, leaves: Words, hash_groups: HashGroups
) -> RunLengthTree:
    """Compute a tree whose leaves are runs of equal length; `leaves` has a leaf of each run.

    The number of runs and all arities are powers of two.
    """
    nodes, length = leaves, prod(arities) // len(leaves)
    levels = [(_to_bytes(nodes), length)]
    for arity in arities:
        if length % arity:
            # A group has several runs.
            nodes, length = np.repeat(nodes, length, axis=0), 1
        else:
            nodes, length = np.repeat(nodes, arity, axis=0), length // arity
        nodes = hash_groups(arity, nodes)
        levels.append((_to_bytes(nodes), length))
    return RunLengthTree(arities, base_levels, levels)


def _to_bytes(nodes: Words) -> bytes:
    return np.ascontiguousarray(nodes, "<u4").tobytes()

"""Merkle trees of field elements: roots and paths.

The compression function gets the level as well, 0 at the leaves, as in Sapling.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from quod.errors import InputError
from quod.hash.mimc import mimc_sponge
from quod.hash.poseidon import poseidon_hash
from quod.validation import whole_number

Compress = Callable[[int, int, int], int]
"""A function from (level, left, right) to the parent node."""


def poseidon_node(level: int, left: int, right: int) -> int:
    """The Poseidon hash of two nodes, the same at each level."""
    return poseidon_hash([left, right])


def mimc_sponge_node(level: int, left: int, right: int) -> int:
    """The MiMCSponge hash of two nodes, the same at each level."""
    return mimc_sponge([left, right])[0]


def merkle_root(
    leaf: int, siblings: Sequence[int], position: int, compress: Compress = poseidon_node
) -> int:
    """Return the root of a path from leaf `position`; `siblings` starts with the leaf's sibling."""
    path = list(siblings)
    position = whole_number("the position", position, 0, (1 << len(path)) - 1)
    node = leaf
    for level, sibling in enumerate(path):
        left, right = (sibling, node) if position >> level & 1 else (node, sibling)
        node = compress(level, left, right)
    return node


def merkle_path(
    leaves: Sequence[int], position: int, depth: int, *, empty: int = 0,
    compress: Compress = poseidon_node,
) -> tuple[int, list[int]]:  # fmt: skip
    """Build a tree of 2**depth leaves; return its root and the siblings on a leaf's path.

    leaves: the first leaves; all others are `empty`.
    position: the index of the leaf. The siblings start with that of the leaf itself.
    """
    depth = whole_number("the depth", depth, 0, 64)
    nodes = list(leaves)
    if len(nodes) > 1 << depth:
        raise InputError(f"a tree of depth {depth} cannot have {len(nodes)} leaves")
    position = whole_number("the position", position, 0, (1 << depth) - 1)
    siblings, empty_node = [], empty
    for level in range(depth):
        sibling = position >> level ^ 1
        siblings.append(nodes[sibling] if sibling < len(nodes) else empty_node)
        if len(nodes) % 2:
            nodes.append(empty_node)
        nodes = [
            compress(level, left, right)
            for left, right in zip(nodes[::2], nodes[1::2], strict=True)
        ]
        empty_node = compress(level, empty_node, empty_node)
    return (nodes[0] if nodes else empty_node), siblings

"""Merkle trees on the host: the nodes that an opening needs, and the root from an opening.

Node i has the children 2*i and 2*i + 1: the root is node 1, leaf j of 2**m is node 2**m + j.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from quod.hash.table import Hash

LEAF, NODE = 0, 1
"""The levels with which leaves and other nodes are hashed (`Hash.digests_of_runs`).

For SHA3-256 the level is the last byte of the hashed data.
"""


def leaves_of(hash: Hash, columns: Sequence[bytes]) -> list[bytes]:
    """Hash columns of equal length to leaves."""
    return hash.digests_of_runs(columns, LEAF)


def siblings(log_leaves: int, places: Iterable[int]) -> list[int]:
    """Return the nodes that a verifier needs, besides the opened leaves, to compute the root.

    They are ordered level by level from the leaves, with ascending indices.
    """
    sibling_nodes: list[int] = []
    nodes = {(1 << log_leaves) + place for place in places}
    for _ in range(log_leaves):
        sibling_nodes += sorted(node ^ 1 for node in nodes if node ^ 1 not in nodes)
        nodes = {node >> 1 for node in nodes}
    return sibling_nodes


def root(
    hash: Hash, log_leaves: int, places: Sequence[int], leaves: Sequence[bytes],
    others: Sequence[bytes],
) -> bytes:  # fmt: skip
    """Compute the root from the leaves at `places` and the digests of the nodes of `siblings`."""
    count = 1 << log_leaves
    digests = {count + place: digest for place, digest in zip(places, leaves, strict=True)}
    digests |= dict(zip(siblings(log_leaves, places), others, strict=True))
    for level in reversed(range(log_leaves)):
        nodes = list({node >> 1 for node in digests if node >> 1 >> level == 1})
        children = [digests[2 * node] + digests[2 * node + 1] for node in nodes]
        digests |= zip(nodes, hash.digests_of_runs(children, NODE), strict=True)
    return digests[1]

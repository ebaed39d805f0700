"""Merkle trees of SHA3-256, on the host: which nodes show some leaves, and what they show.

Node i has the children 2*i and 2*i + 1: the root is node 1, leaf j of 2**m is node 2**m + j.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence

DIGEST_BYTES = 32

LEAF, NODE = b"\0", b"\1"
"""The last byte of what is hashed to a leaf, and of both children's digests."""


def leaf(data: bytes) -> bytes:
    """The digest of a leaf's data."""
    return hashlib.sha3_256(data + LEAF).digest()


def parent(left: bytes, right: bytes) -> bytes:
    """The digest of an inner node."""
    return hashlib.sha3_256(left + right + NODE).digest()


def siblings(log_leaves: int, places: Iterable[int]) -> list[int]:
    """The nodes that the leaves at some places do not give, and that show them with the root.

    Level by level from the leaves, in rising order.
    """
    found: list[int] = []
    known = {(1 << log_leaves) + place for place in places}
    for _ in range(log_leaves):
        found += sorted(node ^ 1 for node in known if node ^ 1 not in known)
        known = {node >> 1 for node in known}
    return found


def root(
    log_leaves: int, places: Sequence[int], leaves: Sequence[bytes], others: Sequence[bytes]
) -> bytes:
    """The root of leaves at some places, and of the digests of the nodes of `siblings`."""
    count = 1 << log_leaves
    known = {count + place: digest for place, digest in zip(places, leaves, strict=True)}
    known |= dict(zip(siblings(log_leaves, places), others, strict=True))
    for level in reversed(range(log_leaves)):
        for node in {node >> 1 for node in known if node >> 1 >> level == 1}:
            known[node] = parent(known[2 * node], known[2 * node + 1])
    return known[1]

"""The frontier of a tree: the last leaf and the nodes from which the tree can grow.

Its encoding is the `CommitmentTree` of zcashd and of lightwalletd's `GetTreeState`: the last pair
of leaves, each with a byte 0 or 1 before it that tells whether it is there, then a compact count
and, from level 1 up, the nodes to the left of the path, with such a byte too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from quod.curve.named.jubjub import JUBJUB
from quod.errors import InputError
from quod.frozen import frozen
from quod.hash.sapling_pedersen import MERKLE_DEPTH, sapling_node
from quod.validation import exact_bytes
from quod.zcash.protocol import Protocol
from quod.zcash.tree.nodes import empty_root

NODE_BYTES = 32
# Counts up to this number are encoded in one byte.
_MAX_BYTE_COUNT = 0xFC


@frozen
class Frontier:
    """The last leaf of a tree, and the siblings to the left of its path.

    position: the index of the last leaf.
    leaf: the last leaf.
    siblings: for each bit of the position that is 1, by the number of the bit, the node to the
        left of the path on this level.
    """

    position: int
    leaf: int
    siblings: Mapping[int, int]

    def subtree_root(self, height: int, protocol: Protocol) -> int:
        """Return the root of the subtree of 2**height leaves that has the last leaf."""
        node = self.leaf
        for level in range(height):
            if level in self.siblings:
                node = sapling_node(level, self.siblings[level], node, protocol.pedersen)
            else:
                node = sapling_node(level, node, empty_root(level, protocol), protocol.pedersen)
        return node

    def within(self, height: int) -> Frontier:
        """Return the frontier of the subtree of 2**height leaves that has the last leaf."""
        siblings = {level: node for level, node in self.siblings.items() if level < height}
        return Frontier(self.position & (1 << height) - 1, self.leaf, siblings)


def encode_frontier(frontier: Frontier | None) -> bytes:
    """Return the encoding of a frontier, or of an empty tree for None."""
    if frontier is None:
        return encode_optional(None) * 2 + bytes([0])
    is_right = frontier.position & 1
    pair = (frontier.siblings[0], frontier.leaf) if is_right else (frontier.leaf, None)
    nodes = [
        frontier.siblings.get(level) for level in range(1, frontier.position.bit_length())
    ]  # fmt: skip
    return b"".join(map(encode_optional, pair)) + bytes([len(nodes)]) + b"".join(
        map(encode_optional, nodes)
    )  # fmt: skip


def encode_optional(node: int | None) -> bytes:
    """Return the encoding of a node that may be missing."""
    return b"\0" if node is None else b"\1" + encode_node(node)


def encode_node(node: int) -> bytes:
    """Return the 32 little-endian bytes of a node."""
    return node.to_bytes(NODE_BYTES, "little")


class TreeReader:
    """A reader of encoded trees; its errors name the offset.

    depth: the levels of the tree.
    """

    def __init__(self, data: bytes, depth: int = MERKLE_DEPTH) -> None:
        self._data = exact_bytes("the encoding of a tree", data)
        self._offset = 0
        self._depth = depth

    def frontier(self) -> Frontier | None:
        """Read a frontier; None for an empty tree.

        Missing nodes at the end, which some encoders write, are accepted.
        """
        start = self._offset
        first, second = self.optional_node(), self.optional_node()
        nodes = [self.optional_node() for _ in range(self.count(self._depth - 1, "parents"))]
        if first is None:
            if second is not None or any(node is not None for node in nodes):
                raise InputError("a tree without a left leaf has other nodes", offset=start)
            return None
        siblings = {level: node for level, node in enumerate(nodes, 1) if node is not None}
        leaf = first
        if second is not None:
            siblings[0], leaf = first, second
        return Frontier(sum(1 << level for level in siblings), leaf, siblings)

    def optional_node(self) -> int | None:
        """Read a node that may be missing."""
        return self.node() if self.presence() else None

    def presence(self) -> bool:
        """Read the byte that tells whether an optional value follows."""
        offset = self._offset
        (byte,) = self._take(1)
        if byte > 1:
            raise InputError(f"an optional value begins with 0 or 1, not {byte}", offset=offset)
        return byte == 1

    def node(self) -> int:
        """Read a node; it must be below the modulus."""
        offset = self._offset
        node = int.from_bytes(self._take(NODE_BYTES), "little")
        if node >= JUBJUB.fq.value:
            raise InputError("a node is not below the modulus", offset=offset)
        return node

    def count(self, limit: int, name: str) -> int:
        """Read a compact count of at most `limit`, which fits in one byte."""
        offset = self._offset
        (count,) = self._take(1)
        if count > min(limit, _MAX_BYTE_COUNT):
            raise InputError(f"the tree has more than {limit} {name}", offset=offset)
        return count

    def finish(self) -> None:
        """Raise InputError if bytes follow."""
        if self._offset != len(self._data):
            raise InputError(
                f"{len(self._data) - self._offset} bytes follow the tree", offset=self._offset
            )

    def _take(self, size: int) -> bytes:
        part = self._data[self._offset : self._offset + size]
        if len(part) != size:
            raise InputError("the encoding of the tree is truncated", offset=self._offset)
        self._offset += size
        return part


def missing_levels(position: int, depth: int) -> Sequence[int]:
    """Return the levels on which the sibling of a leaf's path is to its right."""
    return [level for level in range(depth) if not position >> level & 1]

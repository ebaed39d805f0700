"""Trees that grow by a leaf or by many, with the paths of marked leaves.

A tree keeps its last leaf with the nodes to the left of its path, and for a marked leaf the nodes
next to its path. Appending n leaves hashes each complete node once, however many leaves are marked.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from quod.curve.named.jubjub import JUBJUB
from quod.errors import InputError, MismatchError
from quod.hash.arguments import elements
from quod.hash.sapling_pedersen import MERKLE_DEPTH
from quod.validation import in_order, whole_number
from quod.zcash.protocol import SAPLING, Protocol
from quod.zcash.tree.frontier import (
    Frontier,
    TreeReader,
    encode_frontier,
    encode_node,
    missing_levels,
)
from quod.zcash.tree.nodes import MIN_KERNEL_LEAVES, empty_root, parents
from quod.zcash.tree.path import MerklePath, root_of_path

if TYPE_CHECKING:
    from quod.device.discovery import DeviceChoice


class CommitmentTree:
    """A tree of note commitments, or of the leaves of conversions, that grows.

    size: the number of leaves.
    protocol: SAPLING or MASP, which hash with different generators.
    depth: the levels; the tree has room for 2**depth leaves. Proofs need the default.
    """

    def __init__(self, protocol: Protocol = SAPLING, depth: int = MERKLE_DEPTH) -> None:
        self.protocol = protocol
        self.depth = whole_number("the depth of a tree", depth, 1, MERKLE_DEPTH)
        self._frontier: Frontier | None = None
        # The leaf and the complete siblings, by level, of each marked position.
        self._marked: dict[int, tuple[int, dict[int, int]]] = {}

    @property
    def size(self) -> int:
        """The number of leaves."""
        return 0 if self._frontier is None else self._frontier.position + 1

    @property
    def marked(self) -> list[int]:
        """The marked positions, in ascending order."""
        return sorted(self._marked)

    def append(self, leaf: int, *, mark: bool = False) -> int:
        """Append a leaf, and return its position. See `extend` for the errors.

        mark: whether to keep the leaf's path from now on.
        """
        position = self.size
        self.extend([leaf], [position] if mark else [])
        return position

    def extend(
        self, leaves: Iterable[int], marked: Iterable[int] = (), *, device: DeviceChoice = "cpu"
    ) -> None:
        """Append leaves, such as the commitments of a block's notes in their order.

        leaves: integers below the modulus.
        marked: positions of new leaves whose paths the tree keeps from now on.
        device: hashes the nodes if at least 128 leaves are appended; Python hashes those of fewer.
        Raises InputError for a leaf that is not an int below the modulus, a position that is not
        that of a new leaf, and more leaves than fit, and the errors of the device. After an error
        the tree is as before.
        """
        new = elements("a leaf", leaves, JUBJUB.fq)
        start, stop = self.size, self.size + len(new)
        if stop > 1 << self.depth:
            raise InputError(
                f"a tree of {start} leaves has room for {(1 << self.depth) - start}, not {len(new)}"
            )
        positions = [
            whole_number("a marked position", position, start, stop - 1)
            for position in in_order("marked positions", marked)
        ]
        uses_kernel = len(new) >= MIN_KERNEL_LEAVES
        if uses_kernel or device != "cpu":
            # Imported here: few leaves need no device.
            from quod.device.discovery import resolve_device

            device = resolve_device(device)
        if not new:
            return
        # Hashing can fail, so nothing changes before it is done.
        frontier, levels = self._grown(new, device if uses_kernel else None)
        for position in positions:
            self._marked[position] = (new[position - start], self._siblings_so_far(position))
        for level, (first, nodes) in enumerate(levels):
            self._keep_siblings(level, first, nodes)
        self._frontier = frontier

    def _siblings_so_far(self, position: int) -> dict[int, int]:
        """Return the nodes of the frontier that are next to the path of a later leaf."""
        if self._frontier is None:
            return {}
        last = self._frontier.position
        return {
            level: node
            for level, node in self._frontier.siblings.items()
            if position >> level == last >> level
        }

    def _grown(
        self, new: list[int], device: DeviceChoice | None
    ) -> tuple[Frontier, list[tuple[int, list[int]]]]:
        """Hash, level after level, the nodes whose leaves are before the last of new leaves.

        Returns the frontier with the new leaves, and for each level the index of the first node
        that they complete, with the nodes from there on.
        """
        old = self._frontier
        last = self.size + len(new) - 1
        # The nodes of a level from index `first` on, which the new leaves complete.
        nodes, first = ([old.leaf, *new[:-1]], old.position) if old else (new[:-1], 0)
        siblings: dict[int, int] = {}
        levels: list[tuple[int, list[int]]] = []
        for level in range(last.bit_length()):
            levels.append((first, nodes))
            old_sibling = old.siblings.get(level) if old else None
            if last >> level & 1:
                sibling = nodes[-1] if nodes else old_sibling
                assert sibling is not None
                siblings[level] = sibling
            if first & 1 and nodes:
                assert old_sibling is not None
                nodes = [old_sibling, *nodes]
            nodes, first = parents(level, nodes, self.protocol, device), first >> 1
        return Frontier(last, new[-1], siblings), levels

    def _keep_siblings(self, level: int, first: int, nodes: list[int]) -> None:
        """Keep the nodes of a level, from index `first` on, that are next to a marked path."""
        if nodes:
            for position, (_, siblings) in self._marked.items():
                index = (position >> level ^ 1) - first
                if 0 <= index < len(nodes):
                    siblings[level] = nodes[index]

    def root(self) -> int:
        """Return the root, an anchor if the last leaf is the last one of a block."""
        if self._frontier is None:
            return empty_root(self.depth, self.protocol)
        return self._frontier.subtree_root(self.depth, self.protocol)

    def mark(self) -> int:
        """Keep the path of the last leaf from now on; return its position.

        Raises InputError for an empty tree.
        """
        if self._frontier is None:
            raise InputError("the tree is empty: it has no leaf to mark")
        position = self._frontier.position
        if position not in self._marked:
            self._marked[position] = (self._frontier.leaf, dict(self._frontier.siblings))
        return position

    def unmark(self, position: int) -> None:
        """Forget the path of a marked leaf; raises MismatchError if it is not marked."""
        self._marked_leaf(position)
        del self._marked[position]

    def siblings(self, position: int) -> list[int]:
        """Return the siblings on the path of a marked leaf, from the leaf's up.

        Raises MismatchError if the leaf is not marked.
        """
        _, siblings = self._marked_leaf(position)
        return self._completed(position, siblings)

    def _completed(self, position: int, siblings: Mapping[int, int]) -> list[int]:
        """Return all siblings of a path from those that are complete, by level."""
        return [
            siblings[level] if level in siblings else self._sibling(level, position >> level ^ 1)
            for level in range(self.depth)
        ]

    def _sibling(self, level: int, index: int) -> int:
        """Return a node of a marked leaf's path that has no leaf, or the last one."""
        assert self._frontier is not None
        if index == self._frontier.position >> level:
            return self._frontier.subtree_root(level, self.protocol)
        return empty_root(level, self.protocol)

    def path(self, position: int) -> MerklePath:
        """Return the path of a marked leaf in the tree as it is now, of which `root` is the root.

        Raises MismatchError if the leaf is not marked, and InputError for another depth than 32.
        """
        return MerklePath(self.siblings(position), position)

    def _marked_leaf(self, position: int) -> tuple[int, dict[int, int]]:
        try:
            return self._marked[position]
        except KeyError:
            raise MismatchError(f"the leaf at position {position} is not marked") from None

    # --- encodings of zcashd

    def to_bytes(self) -> bytes:
        """Return the tree without its marks as zcashd's `CommitmentTree`."""
        return encode_frontier(self._frontier)

    @classmethod
    def from_bytes(
        cls, data: bytes, protocol: Protocol = SAPLING, depth: int = MERKLE_DEPTH
    ) -> CommitmentTree:
        """Decode zcashd's `CommitmentTree`, such as `saplingTree` of lightwalletd's tree states.

        Raises InputError, with the offset, for a malformed encoding.
        """
        tree = cls(protocol, depth)
        reader = TreeReader(data, tree.depth)
        tree._frontier = reader.frontier()
        reader.finish()
        return tree

    def witness_to_bytes(self, position: int) -> bytes:
        """Return the path of a marked leaf as zcashd's `IncrementalWitness`.

        Raises MismatchError if the leaf is not marked.
        """
        leaf, siblings = self._marked_leaf(position)
        assert self._frontier is not None
        last = self._frontier.position
        before = {level: siblings[level] for level in siblings if position >> level & 1}
        filled: list[int] = []
        cursor: Frontier | None = None
        for level in missing_levels(position, self.depth):
            index = position >> level ^ 1
            if level in siblings:
                filled.append(siblings[level])
            elif last + 1 == index + 1 << level:
                # The last leaf completes this subtree.
                filled.append(self._sibling(level, index))
            elif last >> level == index:
                cursor = self._frontier.within(level)
        tree = encode_frontier(Frontier(position, leaf, before))
        nodes = bytes([len(filled)]) + b"".join(map(encode_node, filled))
        return tree + nodes + (b"\0" if cursor is None else b"\1" + encode_frontier(cursor))

    def mark_witness(self, data: bytes) -> int:
        """Mark the leaf of an `IncrementalWitness` of zcashd; return its position.

        Raises InputError, with the offset, for a malformed encoding, and MismatchError if the path
        does not lead to the root of this tree, as for a witness of another tree, or of this tree at
        another size.
        """
        reader = TreeReader(data, self.depth)
        tree = reader.frontier()
        if tree is None:
            raise InputError("the witness has no leaf", offset=0)
        levels = missing_levels(tree.position, self.depth)
        filled = [reader.node() for _ in range(reader.count(len(levels), "siblings"))]
        if reader.presence():
            # A part of the frontier, which this tree has as well.
            reader.frontier()
        reader.finish()
        position = tree.position
        # Later leaves change the roots of subtrees that are incomplete.
        complete = {
            level: node
            for level, node in zip(levels, filled, strict=False)
            if ((position >> level ^ 1) + 1) << level <= self.size
        }
        siblings = {**tree.siblings, **complete}
        if position < self.size:
            path = self._completed(position, siblings)
            if root_of_path(tree.leaf, position, path, self.protocol) == self.root():
                self._marked.setdefault(position, (tree.leaf, siblings))
                return position
        raise MismatchError(
            f"the witness of position {tree.position} does not lead to the root of this tree of "
            f"{self.size} leaves"
        )

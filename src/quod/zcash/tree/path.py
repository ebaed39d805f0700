"""Paths of the note commitment tree: Zcash protocol specification, 4.9 and 5.4.1.3."""

from __future__ import annotations

from collections.abc import Sequence

from quod.curve.named.jubjub import JUBJUB
from quod.errors import InputError
from quod.frozen import frozen
from quod.hash.arguments import element, elements
from quod.hash.sapling_pedersen import MERKLE_DEPTH, sapling_node
from quod.validation import whole_number
from quod.zcash.protocol import SAPLING, Protocol


@frozen
class MerklePath:
    """The path of a leaf in a tree of 2**32 leaves.

    siblings: the sibling on each of the 32 levels, from the leaf's up, each below the modulus.
    position: the index of the leaf, from 0.
    """

    siblings: Sequence[int]
    position: int

    def __post_init__(self) -> None:
        siblings = elements("a sibling", self.siblings, JUBJUB.fq)
        if len(siblings) != MERKLE_DEPTH:
            raise InputError(f"a path has {MERKLE_DEPTH} siblings, not {len(siblings)}")
        position = whole_number("the position", self.position, 0, (1 << MERKLE_DEPTH) - 1)
        self.__dict__.update(siblings=tuple(siblings), position=position)

    def __repr__(self) -> str:
        return "MerklePath(...)"

    def root(self, leaf: int, protocol: Protocol = SAPLING) -> int:
        """Return the root of the tree that has this leaf at the position."""
        leaf = element("the leaf", leaf, JUBJUB.fq)
        return root_of_path(leaf, self.position, self.siblings, protocol)

    @property
    def inputs(self) -> dict[str, int]:
        """The inputs of a circuit for the path (`quod.zcash.circuit.tree.root_of_path`)."""
        inputs = {}
        for level, sibling in enumerate(self.siblings):
            inputs[f"path[{level}]/bit"] = self.position >> level & 1
            inputs[f"path[{level}]/sibling"] = sibling
        return inputs


def root_of_path(leaf: int, position: int, siblings: Sequence[int], protocol: Protocol) -> int:
    """Return the root of the tree that has a leaf at a position, with a sibling on each level."""
    node = leaf
    for level, sibling in enumerate(siblings):
        is_right = position >> level & 1
        left, right = (sibling, node) if is_right else (node, sibling)
        node = sapling_node(level, left, right, protocol.pedersen)
    return node

"""Filecoin's Merkle trees in circuits: TreeD of SHA-256, TreeC and TreeRLast of Poseidon."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from quod.errors import InputError
from quod.filecoin.circuits.elements import hash_to_element, message_bits, public_name
from quod.r1cs.gadgets.bellman.packing import publish_packed
from quod.r1cs.gadgets.inclusion import HashChildren, root_of_private_path
from quod.r1cs.gadgets.neptune import neptune_hash
from quod.r1cs.names import name_here
from quod.r1cs.signal import Signal
from quod.r1cs.system import ConstraintSystem

Arities = tuple[int, ...]
"""The number of children of the nodes at each level of a tree, from the leaves' level up.

TreeC and TreeRLast of a 32 GiB sector, of the shape 8-8-0, have nine levels of base trees of arity
8 and a level of arity 8 above them: (8,) * 10.
"""


def leaf_count(arities: Arities) -> int:
    """Return the number of leaves; raises InputError for an arity other than 2, 4 and 8."""
    if not arities or any(arity not in (2, 4, 8) for arity in arities):
        raise InputError(f"the arities of a tree must be 2, 4 or 8 at each level, not {arities}")
    return prod(arities)


def binary_arities(leaves: int) -> Arities:
    """Return the arities of TreeD, a binary tree; `leaves` must be a power of two."""
    return (2,) * (leaves.bit_length() - 1)


def tree_d_node(system: ConstraintSystem, children: Sequence[Signal]) -> Signal:
    """Hash two nodes of TreeD by SHA-256; 45,379 constraints."""
    bits = [bit for child in children for bit in message_bits(system, child)]
    return hash_to_element(system, bits)


def tree_r_node(system: ConstraintSystem, children: Sequence[Signal]) -> Signal:
    """Hash 2, 4 or 8 nodes of TreeC or TreeRLast by Poseidon of this arity."""
    return neptune_hash(system, children)


def prove_inclusion(
    system: ConstraintSystem, leaf: Signal, arities: Arities, hash_children: HashChildren,
    root: Signal,
) -> None:  # fmt: skip
    """Constrain a leaf to be in the tree with a root, and make the leaf's index public.

    The path is private: see `root_of_private_path`. Names are within the current namespace.
    """
    computed_root, index = root_of_private_path(system, leaf, arities, hash_children)
    publish_packed(system, public_name(name_here(system, "leaf_index")), index)
    system.enforce(computed_root, system.one, root)

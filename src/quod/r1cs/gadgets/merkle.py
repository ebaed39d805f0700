"""Paths in Merkle trees of field elements in a circuit."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from quod.r1cs.gadgets.mimc import mimc_sponge
from quod.r1cs.gadgets.poseidon import poseidon_hash
from quod.r1cs.gadgets.signals import signals
from quod.r1cs.signal import Signal, hide_frames_of, signal_of
from quod.r1cs.system import ConstraintSystem, Operand

hide_frames_of(__file__)

Compress = Callable[[ConstraintSystem, int, Signal, Signal], Signal]
"""A function from (system, level, left, right) to the parent node."""


def poseidon_node(system: ConstraintSystem, level: int, left: Signal, right: Signal) -> Signal:
    """The Poseidon hash of two nodes, the same at each level; 240 constraints."""
    return poseidon_hash(system, [left, right])


def mimc_sponge_node(system: ConstraintSystem, level: int, left: Signal, right: Signal) -> Signal:
    """The MiMCSponge hash of two nodes, the same at each level; 1,320 constraints."""
    return mimc_sponge(system, [left, right])[0]


def merkle_root(
    system: ConstraintSystem, leaf: Operand, siblings: Sequence[Operand],
    position: Sequence[Operand], compress: Compress = poseidon_node,
) -> Signal:  # fmt: skip
    """Compute the root of a Merkle path from a leaf, the siblings and the bits of its position.

    Both lists start at the leaf's level; a bit of 1 means that the node is the right child.
    Constrains position to bits. Costs 2 constraints per level and the hash. The reference is
    `quod.r1cs.reference.merkle_root`.
    """
    node = signal_of(system, leaf)
    path = signals(system, "the siblings", siblings)
    bits = signals(system, "the position", position, len(path))
    for level, (sibling, bit) in enumerate(zip(path, bits, strict=True)):
        with system.namespace(f"level[{level}]"):
            system.boolean(bit)
            difference = system.multiply(bit, sibling - node)
            node = compress(system, level, node + difference, sibling - difference)
    return node

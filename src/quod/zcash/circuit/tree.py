"""The path from a leaf to the root of a commitment tree, as in the Spend and Convert circuits.

Zcash protocol specification, 4.9 and 5.4.1.3.
"""

from __future__ import annotations

from collections.abc import Sequence

from quod.hash.sapling_pedersen import MERKLE_DEPTH, merkle_personalisation
from quod.r1cs.gadgets.bellman.packing import element_bits
from quod.r1cs.signal import Signal
from quod.r1cs.system import ConstraintSystem
from quod.zcash.circuit.points import MontgomeryPoint
from quod.zcash.circuit.steps import within_namespace
from quod.zcash.circuit.windows import pedersen_after_prefix, pedersen_prefix
from quod.zcash.protocol import Protocol


def root_of_path(
    system: ConstraintSystem, leaf: Signal, protocol: Protocol
) -> tuple[Signal, list[Signal]]:
    """Return the root of a path of 32 levels, and the bits of the leaf's position.

    Adds 1,382 constraints a level. The private inputs of a level are ``path[level]/bit``, which is
    1 if the node is the right child, and ``path[level]/sibling``.
    """
    node, position = leaf, []
    for level in range(MERKLE_DEPTH):
        with system.namespace(f"path[{level}]"):
            bit, children = system.repeat(_children, node)
            prefix = pedersen_prefix(system, merkle_personalisation(level), protocol.pedersen)
            node = system.repeat(_parent, prefix.x, prefix.y, children, protocol.pedersen)
        position.append(bit)
    return node, position


def _children(system: ConstraintSystem, node: Signal) -> tuple[Signal, list[Signal]]:
    """Return the bit of the node's position, and the bits of the node and its sibling in order.

    Nothing excludes the bits of a node plus the modulus, if these are 255. A path that hashes them
    to the root of a tree, whose nodes have canonical bits, would be a collision of the hash.
    """
    (bit,) = system.private_bits("bit", 1)
    sibling = system.private("sibling")
    left, right = system.wire(), system.wire()
    system.enforce(node - sibling, bit, node - left)
    system.enforce(sibling - node, bit, sibling - right)
    return bit, [
        *within_namespace(system, "left", element_bits, system, left),
        *within_namespace(system, "right", element_bits, system, right),
    ]


def _parent(
    system: ConstraintSystem, x: Signal, y: Signal, children: list[Signal], generators: bytes
) -> Signal:
    """Return the parent of two nodes; (x, y) is the sum of the windows of the level's bits."""
    return pedersen_after_prefix(system, MontgomeryPoint(system, x, y), children, generators).u


def publish_anchor(system: ConstraintSystem, root: Signal, value: Sequence[Signal]) -> None:
    """Make the private input `rt` public as the anchor; it is the root unless the value is 0."""
    with system.namespace("conditional anchor"):
        anchor = system.private("rt")
        system.enforce(root - anchor, system.pack(value), system.zero)
    within_namespace(system, "anchor", system.output, "anchor", anchor)

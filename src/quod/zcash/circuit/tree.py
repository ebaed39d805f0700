"""The path from a leaf to the root of a commitment tree, as in the Spend and Convert circuits.

Zcash protocol specification, 4.9 and 5.4.1.3.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from quod.hash.sapling_pedersen import MERKLE_DEPTH, merkle_personalisation
from quod.r1cs.gadgets.bellman.packing import element_bits
from quod.r1cs.repetition.shortcuts import element_shortcut, with_shortcut
from quod.r1cs.signal import Signal
from quod.r1cs.system import ConstraintSystem
from quod.r1cs.traced import Shortcut
from quod.zcash.circuit.points import SCALE, MontgomeryPoint
from quod.zcash.circuit.steps import within_namespace
from quod.zcash.circuit.windows import pedersen_after_prefix, pedersen_prefix
from quod.zcash.protocol import Protocol


def root_of_path(
    system: ConstraintSystem, leaf: Signal, protocol: Protocol, depth: int = MERKLE_DEPTH
) -> tuple[Signal, list[Signal]]:
    """Return the root of a path of `depth` levels, and the bits of the leaf's position.

    Adds 1,382 constraints a level. The private inputs of a level are ``path[level]/bit``, which is
    1 if the node is the right child, and ``path[level]/sibling``.
    """
    node, position = leaf, []
    for level in range(depth):
        with system.namespace(f"path[{level}]"):
            bit, left, right = system.repeat(_children, node)
            bits = [
                *within_namespace(system, "left", system.repeat, element_bits, left),
                *within_namespace(system, "right", system.repeat, element_bits, right),
            ]
            prefix = pedersen_prefix(system, merkle_personalisation(level), protocol.pedersen)
            start, children = (prefix.x, prefix.y), (left, right)
            node = system.repeat(_parent, start, children, bits, protocol.pedersen)
        position.append(bit)
    return node, position


def _children(system: ConstraintSystem, node: Signal) -> tuple[Signal, Signal, Signal]:
    """Return the bit of the node's position, and the node and its sibling in order.

    Nothing excludes the bits of a node plus the modulus, if these are 255. A path that hashes them
    to the root of a tree, whose nodes have canonical bits, would be a collision of the hash.
    """
    (bit,) = system.private_bits("bit", 1)
    sibling = system.private("sibling")
    left, right = system.wire(), system.wire()
    system.enforce(node - sibling, bit, node - left)
    system.enforce(sibling - node, bit, sibling - right)
    return bit, left, right


def _shortcut(
    system: ConstraintSystem, arguments: Sequence[Any], result: Signal
) -> Shortcut | None:
    start, children, _, generators = arguments
    parameters = (SCALE, int.from_bytes(generators, "big"))
    return element_shortcut("pedersen_node", parameters, [*start, *children], [result])


@with_shortcut(_shortcut)
def _parent(
    system: ConstraintSystem, start: tuple[Signal, Signal], children: tuple[Signal, Signal],
    bits: list[Signal], generators: bytes,
) -> Signal:  # fmt: skip
    """Return the parent of two nodes, whose bits are `bits`.

    start: the sum of the windows of the level's bits, x and y.
    children: the nodes, which only the shortcut reads.
    """
    return pedersen_after_prefix(system, MontgomeryPoint(system, *start), bits, generators).u


def publish_anchor(system: ConstraintSystem, root: Signal, value: Sequence[Signal]) -> None:
    """Make the private input `rt` public as the anchor; it is the root unless the value is 0."""
    with system.namespace("conditional anchor"):
        anchor = system.private("rt")
        system.enforce(root - anchor, system.pack(value), system.zero)
    within_namespace(system, "anchor", system.output, "anchor", anchor)

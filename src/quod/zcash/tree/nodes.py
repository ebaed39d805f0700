"""Nodes of the tree: Zcash protocol specification, 5.4.1.3.

Level 0 has the leaves. Sapling and MASP hash with generators of their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING

from quod.hash.sapling_pedersen import sapling_node
from quod.zcash.protocol import SAPLING, Protocol

if TYPE_CHECKING:
    from quod.device.discovery import DeviceChoice

EMPTY_LEAF = 1
"""The leaf without a note: no point of Jubjub has the coordinate u = 1."""

MIN_KERNEL_LEAVES = 128
"""A kernel hashes extensions by this many leaves; for fewer, opening a device takes longer."""


@cache
def empty_root(level: int, protocol: Protocol = SAPLING) -> int:
    """Return the root of a subtree of 2**level empty leaves."""
    if level == 0:
        return EMPTY_LEAF
    child = empty_root(level - 1, protocol)
    return sapling_node(level - 1, child, child, protocol.pedersen)


def parents(
    level: int, nodes: Sequence[int], protocol: Protocol, device: DeviceChoice | None
) -> list[int]:
    """Return the parents of consecutive nodes of a level; a last node without sibling has none.

    device: where a kernel hashes the pairs; None for Python.
    """
    count = len(nodes) // 2
    if count and device is not None:
        # Imported here: few leaves need no kernels.
        from quod.device.discovery import resolve_device
        from quod.zcash.tree.node_batches import hash_pairs

        return hash_pairs(resolve_device(device), level, nodes[: 2 * count], protocol)
    return [
        sapling_node(level, nodes[index], nodes[index + 1], protocol.pedersen)
        for index in range(0, 2 * count, 2)
    ]

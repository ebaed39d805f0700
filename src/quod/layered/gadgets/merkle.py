"""Merkle paths, with any compression function from two digests to one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from quod.errors import InputError
from quod.layered.gadgets.arguments import wires_of
from quod.layered.gadgets.bits import assert_bits
from quod.layered.program import Program
from quod.layered.wire import Wire
from quod.validation import whole_number

Compress = Callable[[Program, Sequence[Wire], Sequence[Wire]], list[Wire]]
"""A function from two digests to one, such as `POSEIDON2["m31"].compress`."""


def merkle_root(
    program: Program, compress: Compress, leaf: Sequence[Wire], siblings: Sequence[Sequence[Wire]],
    position: Sequence[Wire], *, committed: bool = True,
) -> list[Wire]:  # fmt: skip
    """Compute the root of a Merkle path from a leaf, the siblings and the bits of its position.

    `siblings` and `position` begin at the leaf; a bit of 1 means that the node is the right child.
    Asserts that position consists of bits. With `committed` the intermediate nodes are inputs
    (advice) and all hashes are in the same layers: the circuit is as deep as one hash. Otherwise
    the circuit is as deep as all hashes, and relays each sibling to the layer that uses it.
    """
    node = wires_of("the leaf", program, leaf, least=1)
    bits = wires_of("the position", program, position)
    if not isinstance(siblings, (list, tuple)) or len(siblings) != len(bits):
        raise InputError("a path must have as many siblings as the position has bits")
    rows = [wires_of("a sibling", program, sibling, len(node)) for sibling in siblings]
    assert_bits(program, bits, "position")
    for level, (sibling, bit) in enumerate(zip(rows, bits, strict=True)):
        with program.scope(f"level[{level}]"):
            differences = [
                bit * (other - current) for current, other in zip(node, sibling, strict=True)
            ]
            left = [
                (current + difference).as_value()
                for current, difference in zip(node, differences, strict=True)
            ]
            right = [
                (other - difference).as_value()
                for other, difference in zip(sibling, differences, strict=True)
            ]
            node = wires_of("a node", program, compress(program, left, right), len(node))
            if committed and level < len(rows) - 1:
                node = program.committed(node)
    return node


def merkle_tree(
    compress: Callable[[Any, Any], list[Any]], leaves: Sequence[Any]
) -> list[list[list[Any]]]:
    """Build a tree on the host; return its levels of digests, leaves first and the root last.

    `compress` works on digests of numbers, such as `POSEIDON2["m31"].compress_numbers`. InputError
    unless the number of leaves is a power of two.
    """
    digests: object = leaves
    if not isinstance(digests, (list, tuple)) or not digests or len(digests) & (len(digests) - 1):
        raise InputError(
            "the leaves of a tree must be a list of digests whose length is a power of two"
        )
    levels = [list(leaves)]
    while len(levels[-1]) > 1:
        below = levels[-1]
        levels.append(
            [compress(left, right) for left, right in zip(below[::2], below[1::2], strict=True)]
        )
    return levels


def merkle_path(tree: Sequence[Sequence[Any]], position: int) -> tuple[list[Any], list[int]]:
    """Return the siblings on a leaf's path in a `merkle_tree`, and the bits of its position."""
    levels: object = tree
    if (
        not isinstance(levels, (list, tuple))
        or not levels
        or any(
            len(level) != 1 << index for index, level in enumerate(map(_level, reversed(levels)))
        )
    ):
        raise InputError(
            "the tree must be a result of merkle_tree: levels of 2**k, ..., 2, 1 digests"
        )
    position = whole_number("the position", position, 0, len(tree[0]) - 1)
    siblings = [level[position >> index ^ 1] for index, level in enumerate(tree[:-1])]
    return siblings, [position >> index & 1 for index in range(len(siblings))]


def _level(level: object) -> Sequence[Any]:
    return level if isinstance(level, (list, tuple)) else ()

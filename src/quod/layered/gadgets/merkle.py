"""Paths in Merkle trees, over any hash of two digests to one."""

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
"""Two digests to one, such as `POSEIDON2["m31"].compress`."""


def merkle_root(
    program: Program, compress: Compress, leaf: Sequence[Wire], siblings: Sequence[Sequence[Wire]],
    position: Sequence[Wire], *, committed: bool = True,
) -> list[Wire]:  # fmt: skip
    """The root above a leaf, of the siblings on the way up and the bits of the leaf's position.

    `siblings` and `position` begin at the leaf; a bit of 1 says that the node is the right one of
    two. Asserts that the bits are bits. With `committed` the nodes between are inputs (advice) and
    all hashes stand side by side: the circuit is as deep as one hash. Without, it is as deep as all
    of them, and carries each sibling up to where it is used.
    """
    node = wires_of("the leaf", program, leaf, least=1)
    bits = wires_of("the position", program, position)
    if not isinstance(siblings, (list, tuple)) or len(siblings) != len(bits):
        raise InputError("a path has as many siblings as bits of the position")
    rows = [wires_of("a sibling", program, sibling, len(node)) for sibling in siblings]
    assert_bits(program, bits, "position")
    for level, (sibling, bit) in enumerate(zip(rows, bits, strict=True)):
        with program.scope(f"level[{level}]"):
            moved = [bit * (other - own) for own, other in zip(node, sibling, strict=True)]
            left = [(own + move).held() for own, move in zip(node, moved, strict=True)]
            right = [(other - move).held() for other, move in zip(sibling, moved, strict=True)]
            node = wires_of("a node", program, compress(program, left, right), len(node))
            if committed and level < len(rows) - 1:
                node = program.committed(node)
    return node


def merkle_tree(
    compress: Callable[[Any, Any], list[Any]], leaves: Sequence[Any]
) -> list[list[list[Any]]]:
    """The levels of a tree on the host, leaves first and the root last, each a list of digests.

    `compress` is the hash of digests that are numbers, such as `POSEIDON2["m31"].compress_numbers`;
    InputError unless the leaves are a power of two.
    """
    given: object = leaves
    if not isinstance(given, (list, tuple)) or not given or len(given) & (len(given) - 1):
        raise InputError("the leaves of a tree are a list of digests, as many as a power of two")
    levels = [list(leaves)]
    while len(levels[-1]) > 1:
        below = levels[-1]
        levels.append(
            [compress(left, right) for left, right in zip(below[::2], below[1::2], strict=True)]
        )
    return levels


def merkle_path(tree: Sequence[Sequence[Any]], position: int) -> tuple[list[Any], list[int]]:
    """The siblings above a leaf of a `merkle_tree`, and the bits of its position."""
    levels: object = tree
    if (
        not isinstance(levels, (list, tuple))
        or not levels
        or any(len(level) != 1 << at for at, level in enumerate(map(_level, reversed(levels))))
    ):
        raise InputError("the tree is what merkle_tree gives: levels of 2**k, ..., 2, 1 digests")
    position = whole_number("the position", position, 0, len(tree[0]) - 1)
    siblings = [level[position >> at ^ 1] for at, level in enumerate(tree[:-1])]
    return siblings, [position >> at & 1 for at in range(len(siblings))]


def _level(given: object) -> Sequence[Any]:
    return given if isinstance(given, (list, tuple)) else ()

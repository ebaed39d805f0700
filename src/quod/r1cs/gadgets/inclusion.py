"""Inclusion of a leaf in a Merkle tree whose nodes have 2, 4 or 8 children, level by level.

The constraints are those of the gadgets `por.rs` of Filecoin's rust-fil-proofs. A level is the
position of a node among its siblings, the siblings, and the hash of all children in order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from quod.errors import InputError
from quod.r1cs.gadgets.insertion import insert
from quod.r1cs.gadgets.signals import bit_signals, signals
from quod.r1cs.names import name_here
from quod.r1cs.signal import Signal, hide_frames_of, signal_of
from quod.r1cs.system import ConstraintSystem, Operand
from quod.validation import in_order

hide_frames_of(__file__)

HashChildren = Callable[[ConstraintSystem, Sequence[Signal]], Signal]
"""A function from the children of a node, in order, to the node."""


def root_of_path(
    system: ConstraintSystem, leaf: Operand, position: Sequence[Operand],
    siblings: Sequence[Sequence[Operand]], hash_children: HashChildren,
) -> Signal:  # fmt: skip
    """Compute the root from a leaf, the bits of its position and the siblings of each level.

    position: the bits of the leaf's index, least significant first.
    siblings: for each level from the leaf's, the 1, 3 or 7 siblings in order.
    A level costs 2, 8 or 22 constraints and the hash. Raises InputError if the lengths differ, and
    for a signal of the position that is not known to be a bit.
    """
    bits = bit_signals(system, "the position", position)
    node = signal_of(system, leaf)
    levels = [signals(system, "the siblings", level) for level in in_order("the levels", siblings)]
    sizes = [len(level).bit_length() for level in levels]
    if sum(sizes) != len(bits):
        raise InputError(f"the siblings need a position of {sum(sizes)} bits, not of {len(bits)}")
    start = 0
    for index, (level, size) in enumerate(zip(levels, sizes, strict=True)):
        with system.namespace(f"path[{index}]"):
            node = hash_children(system, insert(system, node, level, bits[start : start + size]))
        start += size
    return node


def root_of_private_path(
    system: ConstraintSystem, leaf: Operand, arities: Sequence[int], hash_children: HashChildren
) -> tuple[Signal, list[Signal]]:
    """Compute the root from a leaf and a path of private inputs; return the position's bits, too.

    arities: the number of children, 2, 4 or 8, for each level from the leaf's.
    The inputs are, within the current namespace, ``path[level]/index``, the index of the node among
    its siblings, and ``path[level]/hashes``, the siblings in order.
    A level costs 3, 10 or 25 constraints and the hash.
    """
    node, position = signal_of(system, leaf), list[Signal]()
    for level, arity in enumerate(arities):
        with system.namespace(f"path[{level}]"):
            bits = system.private_bits(name_here(system, "index"), arity.bit_length() - 1)
            siblings = system.private(name_here(system, "hashes"), arity - 1)
            node = hash_children(system, insert(system, node, siblings, bits))
        position += bits
    return node, position

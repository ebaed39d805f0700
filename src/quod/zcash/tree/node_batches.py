"""Nodes of the tree for many leaves at once, in a kernel: one instance hashes one pair of nodes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np

from quod.curve.named.jubjub import JUBJUB
from quod.device.protocol import AnyDevice
from quod.device.runtime.sentinel import check_written, unwritten
from quod.field.array import Words, integers_to_words, words_to_integers
from quod.hash.sapling_pedersen import merkle_personalisation, sapling_pedersen_point
from quod.r1cs.lanes import Copies, Lanes
from quod.r1cs.shortcuts.pedersen_node import call_pedersen_node, node_tables
from quod.zcash.circuit.points import SCALE
from quod.zcash.protocol import Protocol

_DIGIT_WINDOWS = 2
_START_X, _START_Y, _PARENT, _LEFT, _RIGHT = range(5)
# The columns before the two nodes have wires of their own for each pair.
_FIXED = _LEFT
_STARTS = 2


def hash_pairs(
    device: AnyDevice, level: int, nodes: Sequence[int], protocol: Protocol
) -> list[int]:
    """Return the parents of an even number of consecutive nodes of a level."""
    count = len(nodes) // 2
    # One witness with a copy for each pair: the start's coordinates, the nodes, the parents.
    first_parent = _STARTS + 2 * count
    pairs = np.arange(count, dtype=np.uint32)
    wires = np.zeros((count, 1 + _FIXED), np.uint32)
    wires[:, 0], wires[:, 1 + _START_Y], wires[:, 1 + _PARENT] = (
        _STARTS + 2 * pairs, _START_Y, first_parent + pairs
    )  # fmt: skip
    parents = unwritten(count, JUBJUB.fq.words)
    start = _start(level, protocol.pedersen)
    witness = np.concatenate([start, integers_to_words(JUBJUB.fq, nodes), parents])
    kernel = device.compile(call_pedersen_node, scale=SCALE, windows=_DIGIT_WINDOWS)
    device.launch(
        kernel, -(-count // device.lanes), Lanes(0, count, count, _FIXED, len(witness)),
        Copies(pairs, wires),
        2 * np.array([_START_X, _START_Y, _LEFT, _RIGHT], np.uint32),
        np.array([_PARENT], np.uint32), node_tables(protocol.pedersen, _DIGIT_WINDOWS), witness,
    )  # fmt: skip
    parents = witness[first_parent:]
    check_written(device, "nodes of the tree", parents)
    return words_to_integers(JUBJUB.fq, parents)


@cache
def _start(level: int, generators: bytes) -> Words:
    """Return x and y, in Montgomery form, of the point of a level's personalisation."""
    p = JUBJUB.fq.value
    u, v = sapling_pedersen_point(merkle_personalisation(level), [], generators)
    x = (1 + v) * pow(1 - v, -1, p) % p
    return integers_to_words(JUBJUB.fq, [x, SCALE * x * pow(u, -1, p) % p])

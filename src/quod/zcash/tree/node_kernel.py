"""Nodes of the tree in a kernel, for many leaves at once: one instance hashes one pair of nodes.

The 510 bits of a pair are 85 digits of six bits, or two windows of the Pedersen hash each. A digit
selects one of 64 points of its table, so a node takes 85 additions and one inversion.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from quod.curve.edwards.affine import edwards_group
from quod.curve.edwards.operations import add, from_edwards_points, to_edwards_points
from quod.curve.edwards.point import EdwardsArithmetic, EdwardsPoint, added_base
from quod.curve.named.jubjub import JUBJUB
from quod.device.protocol import AnyDevice
from quod.device.runtime.sentinel import check_written, unwritten
from quod.field.array import Words, from_integers, integers_to_words, words_to_integers
from quod.hash.sapling_pedersen import (
    WINDOW,
    merkle_personalisation,
    sapling_pedersen_point,
    sapling_windows,
)
from quod.kernel import U32, U64, Builder, Pointer, kernel
from quod.kernel.ir import types
from quod.zcash.protocol import Protocol

_DIGIT_BITS = 2 * WINDOW
_NODE_BITS = JUBJUB.fq.bits
_DIGITS = 2 * _NODE_BITS // _DIGIT_BITS
# The windows of the personalisation come first.
_FIRST_WINDOW = 2


@kernel
def tree_nodes(
    k: Builder,
    count: U32,
    digits: Pointer[U32],
    tables: Pointer[U64],
    first: Pointer[U64],
    nodes: Pointer[U64],
) -> None:
    """nodes[i] = the integer u of first + the sum over j of table j at digits[j*count + i].

    tables: y - x, y + x and 2*d*x*y of 64 points for each digit.
    first: an affine point.
    """
    law, i = EdwardsArithmetic(k, JUBJUB), k.global_id()
    f = law.field
    with k.if_(i < count):
        with k.range(0, _DIGITS, carry=law.load(first, 0)) as loop:
            digit = digits[loop.index * count + i]
            base_index = ((loop.index << _DIGIT_BITS) + digit).cast(types.u64) * 3
            minus, plus, scaled_product = (f.load(tables, base_index + part) for part in range(3))
            total = added_base(f, loop.carried, minus, plus, scaled_product)
            loop.next(law.bounded(EdwardsPoint(*total)))
        point = loop.results
        u = point.x * f.inverse(point.z)
        inverse_radix = pow(JUBJUB.fq.montgomery_radix, -1, JUBJUB.fq.value)
        f.store(nodes, i, u * f.constant(inverse_radix))


def hash_pairs(
    device: AnyDevice, level: int, nodes: Sequence[int], protocol: Protocol
) -> list[int]:
    """Return the parents of an even number of consecutive nodes of a level."""
    count = len(nodes) // 2
    out = unwritten(count, JUBJUB.fq.words)
    digits = _pair_digits(integers_to_words(JUBJUB.fq, nodes))
    device.launch(
        device.compile(tree_nodes), -(-count // device.lanes), count, digits,
        _tables(device, protocol.pedersen), _first_point(level, protocol.pedersen), out,
    )  # fmt: skip
    check_written(device, "nodes of the tree", out)
    return words_to_integers(JUBJUB.fq, out)


def _pair_digits(words: Words) -> NDArray[np.uint32]:
    """Return the digits of pairs of nodes, of shape (85, pairs); the first bit is the lowest."""
    bits = np.unpackbits(words.view(np.uint8), bitorder="little").reshape(
        -1, 8 * words.itemsize * 8
    )
    pairs = bits[:, :_NODE_BITS].reshape(-1, _DIGITS, _DIGIT_BITS)
    weights = np.array([1 << bit for bit in range(_DIGIT_BITS)], np.uint32)
    return np.ascontiguousarray((pairs @ weights).T.astype(np.uint32))


def _first_point(level: int, generators: bytes) -> Words:
    """Return the point of the two windows of a level's personalisation."""
    point = sapling_pedersen_point(merkle_personalisation(level), [], generators)
    return from_edwards_points(JUBJUB, [point])


_tables_of_generators: dict[bytes, Words] = {}


def _tables(device: AnyDevice, generators: bytes) -> Words:
    """Return the tables of `tree_nodes`, of which the first digit has windows 2 and 3."""
    if generators not in _tables_of_generators:
        negate = edwards_group(JUBJUB).negate
        windows = sapling_windows(generators, _FIRST_WINDOW + 2 * _DIGITS)[_FIRST_WINDOW:]
        # The third bit of a window is the sign.
        signed_points = [
            point for window in windows for point in (*window, *map(negate, window))
        ]  # fmt: skip
        points = from_edwards_points(JUBJUB, signed_points).reshape(
            _DIGITS, 2, 1 << WINDOW, 2, -1
        )  # fmt: skip
        low, high = (
            np.broadcast_to(window_points, (_DIGITS, 1 << WINDOW, 1 << WINDOW, *points.shape[3:]))
            for window_points in (points[:, 0, None], points[:, 1, :, None])
        )
        flat_shape = (-1, *points.shape[3:])
        sums = add(device, JUBJUB, low.reshape(flat_shape), high.reshape(flat_shape))
        p = JUBJUB.fq.value
        numbers: list[int] = []
        for x, y in to_edwards_points(JUBJUB, sums):
            numbers += (y - x) % p, (y + x) % p, 2 * JUBJUB.d * x * y % p
        _tables_of_generators[generators] = from_integers(JUBJUB.fq, numbers)
    return _tables_of_generators[generators]

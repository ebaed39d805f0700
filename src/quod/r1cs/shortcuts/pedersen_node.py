"""A node of Sapling's tree in a kernel: the Pedersen hash of two nodes."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from quod.curve.edwards.point import EdwardsArithmetic, EdwardsPoint
from quod.curve.named.jubjub import JUBJUB
from quod.field.array import from_integers
from quod.hash.sapling_pedersen import WINDOW, sapling_windows
from quod.kernel import U32, U64, Builder, Pointer, kernel
from quod.kernel.ir import types
from quod.kernel.ir.value import Value
from quod.r1cs.lanes import Copies, Lane, Lanes

_BITS = JUBJUB.fq.bits
_WINDOWS = 2 * _BITS // WINDOW
_PREFIX_WINDOWS = 2
_POINTS = 4
_RADIX = JUBJUB.fq.montgomery_radix


@kernel
def call_pedersen_node(
    k: Builder,
    lanes: Lanes,
    copies: Copies,
    arguments: Pointer[U32],
    results: Pointer[U32],
    points: Pointer[U64],
    witness: Pointer[U64],
    *,
    scale: int,
) -> None:
    """Store u of the Pedersen hash of two nodes, one in each instance.

    The arguments are the point of the personalisation in Montgomery form, x and y, and the nodes.
    points: `node_table`.
    scale: the factor of u = scale * x / y.
    """
    jubjub = EdwardsArithmetic(k, JUBJUB)
    f, position = jubjub.field, lanes.first + k.global_id()
    lane = Lane(k, lanes, copies, k.minimum(position, lanes.last - 1))

    def index_of(argument: int) -> Value:
        (code,) = k.load(arguments, k.constant(argument, types.u32))
        return lane.index_of(code >> 1)

    x, y = (
        f.bounded(f.load(witness, index_of(argument)) * f.constant(_RADIX)) for argument in (0, 1)
    )
    u_numerator, v_numerator = f.bounded(x * f.constant(scale)), f.bounded(x - f.one())
    v_denominator = f.bounded(x + f.one())
    start = EdwardsPoint(
        u_numerator * v_denominator, v_numerator * y, y * v_denominator, u_numerator * v_numerator
    )
    words = JUBJUB.fq.words // 2
    left, right = (index_of(argument).cast(types.u64) * words for argument in (2, 3))

    def bit(number: Value) -> Value:
        is_right = number >= _BITS
        place = k.select(is_right, number - _BITS, number)
        (word,) = k.load(witness, k.select(is_right, right, left) + (place >> 6).cast(types.u64))
        return (word >> (place & 63).cast(types.u64)).cast(types.u32) & 1

    with k.range(0, _WINDOWS, carry=jubjub.bounded(start)) as loop:
        low, high, sign = (bit(loop.index * WINDOW + offset) for offset in range(WINDOW))
        point = jubjub.load(points, loop.index * _POINTS + low + high * 2)
        is_negated = sign != 0
        signed = EdwardsPoint(
            f.select(is_negated, -point.x, point.x), point.y, point.z,
            f.select(is_negated, -point.t, point.t),
        )  # fmt: skip
        loop.next(jubjub.bounded(jubjub.add(loop.carried, jubjub.bounded(signed))))
    node: Any = loop.results
    u = node.x * f.inverse(f.bounded(node.z))
    (column,) = k.load(results, k.constant(0, types.u32))
    with k.if_(position < lanes.last):
        inverse = f.constant(pow(_RADIX, -1, JUBJUB.fq.value))
        f.store(witness, lane.index_of(column), f.bounded(u) * inverse)


def node_table(generators: int) -> NDArray[Any]:
    """Return the points of all windows after the personalisation's two, in Montgomery form.

    generators: the personalisation of their group hashes, 8 bytes, as a big-endian number.
    """
    rows = sapling_windows(generators.to_bytes(8, "big"), _PREFIX_WINDOWS + _WINDOWS)
    coordinates = [
        coordinate for row in rows[_PREFIX_WINDOWS:] for point in row for coordinate in point
    ]
    return from_integers(JUBJUB.fq, coordinates)

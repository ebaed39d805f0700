"""A node of Sapling's or MASP's tree in a kernel: the Pedersen hash of two nodes.

The 510 bits of two nodes are 170 windows of three bits. Some windows are a digit, which selects a
point of a table: one window for the few nodes of witnesses, two for many nodes, which repay the
larger tables.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from numpy.typing import NDArray

from quod.curve.edwards.affine import EdwardsPair, edwards_group
from quod.curve.edwards.point import EdwardsArithmetic, EdwardsPoint, added_base
from quod.curve.named.jubjub import JUBJUB
from quod.field.array import from_integers
from quod.hash.sapling_pedersen import WINDOW, sapling_windows
from quod.kernel import U32, U64, Builder, Pointer, kernel
from quod.kernel.ir import types
from quod.kernel.ir.value import Value
from quod.r1cs.lanes import Copies, Lane, Lanes

_NODE_WINDOWS = JUBJUB.fq.bits // WINDOW
_PREFIX_WINDOWS = 2
_RADIX = JUBJUB.fq.montgomery_radix
_WORDS = JUBJUB.fq.words // 2


@kernel
def call_pedersen_node(
    k: Builder,
    lanes: Lanes,
    copies: Copies,
    arguments: Pointer[U32],
    results: Pointer[U32],
    tables: Pointer[U64],
    witness: Pointer[U64],
    *,
    scale: int,
    windows: int,
) -> None:
    """Store u of the Pedersen hash of two nodes, one in each instance.

    The arguments are the point of the personalisation in Montgomery form, x and y, and the nodes.
    tables: `node_tables`.
    scale: the factor of u = scale * x / y.
    windows: the number of windows in a digit, 1 or 2.
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
    left, right = (index_of(argument).cast(types.u64) * _WORDS for argument in (2, 3))

    def bits_of(window: Value) -> Value:
        """Return the three bits of a window, which may be of two words."""
        is_right = window >= _NODE_WINDOWS
        offset = k.select(is_right, window - _NODE_WINDOWS, window) * WINDOW
        first, shift = offset >> 6, (offset & 63).cast(types.u64)
        # Shifted by at least 3 bits unless the window has bits of the second word.
        second = k.minimum(first + 1, _WORDS - 1)
        node = k.select(is_right, right, left)
        (low,), (high,) = (k.load(witness, node + word.cast(types.u64)) for word in (first, second))
        return ((low >> shift | high << 1 << 63 - shift) & (1 << WINDOW) - 1).cast(types.u32)

    digits = 2 * _NODE_WINDOWS // windows
    with k.range(0, digits, carry=jubjub.bounded(start)) as loop:
        digit, first_window = k.constant(0, types.u32), loop.index * windows
        for part in range(windows):
            digit = digit | bits_of(first_window + part) << WINDOW * part
        entry = ((loop.index << WINDOW * windows) + digit).cast(types.u64) * 3
        minus, plus, product = (f.load(tables, entry + part) for part in range(3))
        total = added_base(f, loop.carried, minus, plus, product)
        loop.next(jubjub.bounded(EdwardsPoint(*total)))
    node: Any = loop.results
    u = node.x * f.inverse(f.bounded(node.z))
    (column,) = k.load(results, k.constant(0, types.u32))
    with k.if_(position < lanes.last):
        inverse = f.constant(pow(_RADIX, -1, JUBJUB.fq.value))
        f.store(witness, lane.index_of(column), f.bounded(u) * inverse)


@cache
def node_tables(generators: bytes, windows: int) -> NDArray[Any]:
    """Return y - x, y + x and 2*d*x*y of the points of all digits, in Montgomery form.

    The points of a digit are sums of a point of each of its windows, the first window's changing
    fastest. The windows follow the personalisation's two.

    generators: the personalisation of the generators' group hashes, 8 bytes.
    windows: the number of windows in a digit, 1 or 2.
    """
    negate = edwards_group(JUBJUB).negate
    all_windows = sapling_windows(generators, _PREFIX_WINDOWS + 2 * _NODE_WINDOWS)
    # The third bit of a window is the sign.
    signed = [[*points, *map(negate, points)] for points in all_windows[_PREFIX_WINDOWS:]]
    points = [point for window in signed for point in window]
    if windows == 2:
        points = _sums(
            [
                (low, high)
                for lows, highs in zip(signed[::2], signed[1::2], strict=True)
                for high in highs
                for low in lows
            ]
        )
    p = JUBJUB.fq.value
    numbers: list[int] = []
    for x, y in points:
        numbers += (y - x) % p, (y + x) % p, 2 * JUBJUB.d * x * y % p
    table = from_integers(JUBJUB.fq, numbers)
    table.flags.writeable = False
    return table


def _sums(pairs: list[tuple[EdwardsPair, EdwardsPair]]) -> list[EdwardsPair]:
    """Return the sums of pairs of points, with one inversion for all."""
    p, products, total = JUBJUB.fq.value, [], 1
    numerators: list[int] = []
    denominators: list[int] = []
    for (x1, y1), (x2, y2) in pairs:
        xy, yx = x1 * y2 % p, y1 * x2 % p
        product = JUBJUB.d * xy * yx % p
        numerators += xy + yx, y1 * y2 + x1 * x2
        denominators += 1 + product, 1 - product
    for denominator in denominators:
        products.append(total)
        total = total * denominator % p
    inverse, quotients = pow(total, -1, p), [0] * len(denominators)
    for index in reversed(range(len(denominators))):
        quotients[index] = numerators[index] * products[index] * inverse % p
        inverse = inverse * denominators[index] % p
    return list(zip(quotients[::2], quotients[1::2], strict=True))

"""Points in memory form without their y: half the bytes, which a kernel completes.

A point is its x in Montgomery form, as in memory, with two flags in the top bits of the last word:
the parity of y, and whether the point is infinity. The parity is that of the first coefficient of y
that is not 0, in Montgomery form; it differs between y and -y, as q is odd. The kernel computes no
check: an x without a point on the curve gives an undefined y.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from quod.curve.encoding.roots import square_root
from quod.curve.group import Group
from quod.curve.weierstrass.point import PointArithmetic
from quod.device.memory.buffer import Buffer
from quod.device.protocol import AnyDevice
from quod.errors import InputError
from quod.field.array import Words
from quod.kernel import U32, U64, Builder, Pointer, kernel
from quod.kernel.ir import types
from quod.kernel.ir.value import Value

MAX_POINTS = 1 << 14
"""The most points of one launch: drivers of browsers abort launches that run for seconds."""

_PARITY, _INFINITY = 1 << 31, 1 << 30


def is_compressible(group: Group) -> bool:
    """Return whether the kernel supports a group: q is 3 modulo 4, and leaves two bits free.

    Over Fq2 the square of the generator must be -1, as it is for every such curve here.
    """
    q = group.coordinates
    return q.value % 4 == 3 and 8 * q.bytes - q.bits >= 2 and group.parameters.a in (0, (0, 0))


def compressed_words(group: Group, points: Words) -> Words:
    """Return points without their y.

    points: affine, in Montgomery form, uint32 of shape (n, *group.shape); zeros are infinity.
    Returns uint32 of shape (n, 32-bit words of a coordinate). Raises InputError for a group that is
    not `is_compressible`.
    """
    if not is_compressible(group):
        raise InputError(f"points of {group.name} are not compressed")
    coordinates = np.asarray(points).reshape(len(points), 2, group.degree, -1)
    x = coordinates[:, 0].reshape(len(points), -1).copy()
    y = coordinates[:, 1]
    parity = y[:, 0, 0] & 1
    if group.degree == 2:
        parity = np.where(y[:, 0].any(axis=1), parity, y[:, 1, 0] & 1)
    x[:, -1] |= parity << np.uint32(31)
    x[~coordinates.reshape(len(points), -1).any(axis=1), -1] |= np.uint32(_INFINITY)
    return x


def decompress_words(device: AnyDevice, group: Group, words: Words, points: Buffer) -> None:
    """Upload points without their y, and compute the points in a buffer of the device."""
    compiled = device.compile(curve_decompress, group=group)
    encodings = device.upload(np.ascontiguousarray(words))
    size, point_bytes = words[0].nbytes, 8 * group.point_words
    for start in range(0, len(words), MAX_POINTS):
        stop = min(start + MAX_POINTS, len(words))
        device.launch(
            compiled, -(-(stop - start) // device.lanes), stop - start,
            encodings.slice(size * start, size * stop),
            points.slice(point_bytes * start, point_bytes * stop),
        )  # fmt: skip


@kernel
def curve_decompress(
    k: Builder, count: U32, encodings: Pointer[U64], points: Pointer[U64], *, group: Group
) -> None:
    """points[i] = the point of encodings[i], in the form of `compressed_words`."""
    curve, i = PointArithmetic(k, group), k.global_id()
    f, size = curve.field, group.coordinate_words
    with k.if_(i < count):
        index = i.cast(types.u64)
        *low, last = f.load_words_at(encodings, index * size)
        flags = (last >> (last.type.bits - 32)).cast(types.u32)
        x_words = [*low, last & ((1 << (last.type.bits - 2)) - 1)]
        x = f.from_words(x_words)
        y = square_root(curve, f.bounded(f.square(x) * x + f.constant(group.parameters.b)))
        has_parity = _parity(k, group, f.to_words(y)) == (flags >> 31)
        y = f.select(has_parity, y, f.bounded(f.negate(y)))
        zero = k.constant(0, last.type)
        is_infinity = (flags & _INFINITY) != 0
        for half, words in enumerate((x_words, f.to_words(y))):
            stored = [k.select(is_infinity, zero, word) for word in words]
            f.store_words_at(points, index * group.point_words + half * size, stored)


def _parity(k: Builder, group: Group, words: Sequence[Value]) -> Value:
    """Return the lowest bit of the first coefficient that is not 0."""
    size = len(words) // group.degree
    parity = words[0].cast(types.u32) & 1
    if group.degree == 1:
        return parity
    bits = words[0]
    for word in words[1:size]:
        bits = bits | word
    return k.select(bits != 0, parity, words[size].cast(types.u32) & 1)

"""The bytes of arrays of points that transcripts hash and responses have: big-endian, canonical.

Uncompressed, x and y, of an element of Fq2 the coefficient of u first, infinity all zero;
compressed, x with two flags in the top bits of its first byte: y is the larger one of both,
infinity. This is what snarkjs writes for every curve.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from quod.curve.array import Point, from_points
from quod.curve.group import Group
from quod.curve.weierstrass.operations import is_on_curve, negate
from quod.curve.weierstrass.point import PointArithmetic
from quod.device.protocol import AnyDevice
from quod.device.runtime.sentinel import check_written, unwritten
from quod.errors import InputError
from quod.field.array import Words, below, canonical, from_montgomery, to_montgomery
from quod.kernel import U32, U64, Builder, Pointer, kernel
from quod.kernel.ir import types

Bytes = NDArray[np.uint8]

LARGER, INFINITY = 0x80, 0x40


def uncompressed(device: AnyDevice, group: Group, points: Words) -> Bytes:
    """uint8 of shape (n, bytes of a point)."""
    return _big_endian(group, _canonical(device, group, points))


def compressed(device: AnyDevice, group: Group, points: Words) -> Bytes:
    """uint8 of shape (n, bytes of a coordinate)."""
    plain = _canonical(device, group, points)
    count = len(plain)
    encoded = _big_endian(group, plain[:, :1]).copy()
    encoded[:, 0] |= np.where(_larger(group, plain), np.uint8(LARGER), np.uint8(0))
    encoded[~plain.reshape(count, -1).any(axis=1), 0] |= np.uint8(INFINITY)
    return encoded


def from_uncompressed(device: AnyDevice, group: Group, data: Any) -> Words | None:
    """The points of bytes as `uncompressed` makes them; None if a coordinate is not below q."""
    size = group.coordinates.bytes * group.degree
    raw = np.frombuffer(data, np.uint8).reshape(-1, 2, size)
    plain = np.ascontiguousarray(raw[:, :, ::-1]).view("<u4").astype(np.uint32)
    plain = plain.reshape(-1, *group.shape)
    if not canonical(group.coordinates, plain).all():
        return None
    points: Words = to_montgomery(device, group.coordinates, plain)
    return points


def decompressed(
    device: AnyDevice, group: Group, data: Any
) -> tuple[Words, tuple[int, str] | None]:
    """The points of bytes as `compressed` makes them, and the first that has none, with why.

    Points are on the curve, and may be outside the subgroup. Raises InputError for a curve whose q
    is not 3 modulo 4.
    """
    if group.coordinates.value % 4 != 3 or group.parameters.a not in (0, (0, 0)):
        raise InputError(
            f"compressed points of {group.name} are not supported; use uncompressed ones"
        )
    degree = group.degree
    raw = np.frombuffer(data, np.uint8).reshape(-1, group.coordinates.bytes * degree).copy()
    count, flags = len(raw), raw[:, 0] & (LARGER | INFINITY)
    raw[:, 0] &= np.uint8(~(LARGER | INFINITY) & 0xFF)
    plain = np.ascontiguousarray(raw[:, ::-1]).view("<u4").astype(np.uint32)
    bad = flags & INFINITY != 0
    bad |= ~canonical(group.coordinates, plain).reshape(count, degree).all(axis=1)
    x = to_montgomery(device, group.coordinates, np.where(bad[:, None], np.uint32(0), plain))
    points = unwritten(count, *group.shape)
    points[:, 0] = x.reshape(points[:, 0].shape)
    device.launch(
        device.compile(curve_ordinates, group=group), -(-count // device.lanes), count, points
    )
    check_written(device, "roots of points", points)
    off = ~is_on_curve(device, group, points)
    if (bad | off).any():
        place = int(np.argmax(bad | off))
        return points, (place, "is infinity or not below the modulus" if bad[place]
                        else "has an x-coordinate without a point on the curve")  # fmt: skip
    turned = _larger(group, _canonical(device, group, points)) != (flags & LARGER != 0)
    points[turned] = negate(device, group, points[turned])
    return points, None


@kernel
def curve_ordinates(k: Builder, count: U32, points: Pointer[U64], *, group: Group) -> None:
    """The y of points[i] becomes a square root of x**3 + b, or something else if there is none.

    q is 3 modulo 4. Over Fq2 as Adj and Rodriguez-Henriquez have it, "Square root computation over
    even extension fields", IEEE Trans. Computers 63 (2014), algorithm 9, for u**2 = -1.
    """
    curve, i = PointArithmetic(k, group), k.global_id()
    f, q = curve.field, group.coordinates.value

    with k.if_(i < count):
        place = i.cast(types.u64) * group.point_words
        x = f.from_words(f.load_words_at(points, place))
        a = f.carried(f.square(x) * x + f.constant(group.parameters.b))
        if group.degree == 1:
            root = f.power(a, (q + 1) // 4)
        else:
            part = f.carried(f.power(a, (q - 3) // 4))
            first = f.carried(part * a)
            sign = f.carried(part * first)
            one = f.carried(f.one())
            usual = f.carried(f.power(one + sign, (q - 1) // 2) * first)
            turned = f.carried(first * f.constant((0, 1)))
            root = f.select(f.is_zero(sign + one), turned, usual)
        f.store_words_at(points, place + group.coordinate_words, f.to_words(root))


def uncompressed_points(device: AnyDevice, group: Group, points: list[Point]) -> bytes:
    """The bytes of plain points, one after the other."""
    return uncompressed(device, group, from_points(group, points)).tobytes()


def _larger(group: Group, plain: Words) -> NDArray[np.bool_]:
    """Return a mask of canonical points, true where y is larger than -y."""
    count, words = len(plain), group.coordinates.words
    y = plain[:, 1].reshape(count, group.degree, words)
    half = (group.coordinates.value + 1) // 2
    larger = ~below(words, y, half).reshape(count, group.degree)
    # In Fq2 the second coefficient decides, unless it is 0.
    by_last = larger[:, -1]
    return np.where(y[:, -1].any(axis=1), by_last, larger[:, 0])


def _canonical(device: AnyDevice, group: Group, points: Words) -> Words:
    plain: Words = from_montgomery(device, group.coordinates, points)
    return plain.reshape(len(points), *group.shape)


def _big_endian(group: Group, plain: Words) -> Bytes:
    """Coordinates of canonical words, uint32 of shape (n, coordinates, ...), as bytes."""
    flat: NDArray[Any] = np.ascontiguousarray(plain, "<u4").view(np.uint8)
    # Both the bytes of a coefficient and the coefficients of a coordinate turn round.
    size = group.coordinates.bytes * group.degree
    return np.ascontiguousarray(flat.reshape(len(plain), -1, size)[:, :, ::-1]).reshape(
        len(plain), -1
    )

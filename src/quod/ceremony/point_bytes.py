"""The encodings of arrays of points in transcripts and responses: canonical, big-endian.

An uncompressed point is x and y; infinity is all zeros. An element of Fq2 has the coefficient of u
first. A compressed point is x with two flags in the top bits of its first byte: y is larger than
-y, and the point is infinity. snarkjs uses these encodings for every curve.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from quod.curve.array import Point, from_points
from quod.curve.encoding.roots import square_root
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
    """Encode affine points; return uint8 of shape (n, bytes of a point)."""
    return _big_endian(group, _canonical(device, group, points))


def compressed(device: AnyDevice, group: Group, points: Words) -> Bytes:
    """Encode affine points, compressed; return uint8 of shape (n, bytes of a coordinate)."""
    coordinates = _canonical(device, group, points)
    count = len(coordinates)
    encoded = _big_endian(group, coordinates[:, :1]).copy()
    encoded[:, 0] |= np.where(_larger(group, coordinates), np.uint8(LARGER), np.uint8(0))
    encoded[~coordinates.reshape(count, -1).any(axis=1), 0] |= np.uint8(INFINITY)
    return encoded


def from_uncompressed(device: AnyDevice, group: Group, data: Any) -> Words | None:
    """Decode the bytes of `uncompressed`; return None if a coordinate is not below q."""
    size = group.coordinates.bytes * group.degree
    encoded = np.frombuffer(data, np.uint8).reshape(-1, 2, size)
    coordinates = np.ascontiguousarray(encoded[:, :, ::-1]).view("<u4").astype(np.uint32)
    coordinates = coordinates.reshape(-1, *group.shape)
    if not canonical(group.coordinates, coordinates).all():
        return None
    points: Words = to_montgomery(device, group.coordinates, coordinates)
    return points


def decompressed(
    device: AnyDevice, group: Group, data: Any
) -> tuple[Words, tuple[int, str] | None]:
    """Decode the bytes of `compressed`; return points, and the first malformed one with its fault.

    Points are on the curve, but may be outside the subgroup. The second result is None if all are
    valid. Raises InputError for a curve whose q is not 3 modulo 4.
    """
    if group.coordinates.value % 4 != 3 or group.parameters.a not in (0, (0, 0)):
        raise InputError(
            f"compressed points of {group.name} are not supported; use uncompressed ones"
        )
    degree = group.degree
    encoded = np.frombuffer(data, np.uint8).reshape(-1, group.coordinates.bytes * degree).copy()
    count, flags = len(encoded), encoded[:, 0] & (LARGER | INFINITY)
    encoded[:, 0] &= np.uint8(~(LARGER | INFINITY) & 0xFF)
    coordinates = np.ascontiguousarray(encoded[:, ::-1]).view("<u4").astype(np.uint32)
    malformed = flags & INFINITY != 0
    malformed |= ~canonical(group.coordinates, coordinates).reshape(count, degree).all(axis=1)
    x = to_montgomery(
        device, group.coordinates, np.where(malformed[:, None], np.uint32(0), coordinates)
    )
    points = unwritten(count, *group.shape)
    points[:, 0] = x.reshape(points[:, 0].shape)
    device.launch(
        device.compile(curve_ordinates, group=group), -(-count // device.lanes), count, points
    )
    check_written(device, "roots of points", points)
    off_curve = ~is_on_curve(device, group, points)
    if (malformed | off_curve).any():
        index = int(np.argmax(malformed | off_curve))
        return points, (index, "is infinity or not below the modulus" if malformed[index]
                        else "has an x-coordinate without a point on the curve")  # fmt: skip
    has_other_sign = _larger(group, _canonical(device, group, points)) != (flags & LARGER != 0)
    points[has_other_sign] = negate(device, group, points[has_other_sign])
    return points, None


@kernel
def curve_ordinates(k: Builder, count: U32, points: Pointer[U64], *, group: Group) -> None:
    """Set the y of points[i] to a square root of x**3 + b; it is undefined if there is none.

    q must be 3 modulo 4.
    """
    curve, i = PointArithmetic(k, group), k.global_id()
    f = curve.field

    with k.if_(i < count):
        offset = i.cast(types.u64) * group.point_words
        x = f.from_words(f.load_words_at(points, offset))
        a = f.bounded(f.square(x) * x + f.constant(group.parameters.b))
        root = square_root(curve, a)
        f.store_words_at(points, offset + group.coordinate_words, f.to_words(root))


def uncompressed_points(device: AnyDevice, group: Group, points: list[Point]) -> bytes:
    """Return the uncompressed bytes of points of integers, concatenated."""
    return uncompressed(device, group, from_points(group, points)).tobytes()


def _larger(group: Group, coordinates: Words) -> NDArray[np.bool_]:
    """Return a mask of canonical points, true where y is larger than -y."""
    count, words = len(coordinates), group.coordinates.words
    y = coordinates[:, 1].reshape(count, group.degree, words)
    half = (group.coordinates.value + 1) // 2
    larger = ~below(words, y, half).reshape(count, group.degree)
    # Elements of Fq2 are compared by the second coefficient, or by the first if that is 0.
    highest_is_larger = larger[:, -1]
    return np.where(y[:, -1].any(axis=1), highest_is_larger, larger[:, 0])


def _canonical(device: AnyDevice, group: Group, points: Words) -> Words:
    """Convert points from Montgomery form to canonical words."""
    coordinates: Words = from_montgomery(device, group.coordinates, points)
    return coordinates.reshape(len(points), *group.shape)


def _big_endian(group: Group, coordinates: Words) -> Bytes:
    """Return the bytes of canonical coordinates, uint32 of shape (n, coordinates, ...)."""
    little_endian: NDArray[Any] = np.ascontiguousarray(coordinates, "<u4").view(np.uint8)
    # This reverses the bytes of a coefficient and the coefficients of a coordinate.
    size = group.coordinates.bytes * group.degree
    return np.ascontiguousarray(
        little_endian.reshape(len(coordinates), -1, size)[:, :, ::-1]
    ).reshape(len(coordinates), -1)

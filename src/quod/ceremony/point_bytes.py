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
from quod.device.protocol import AnyDevice
from quod.field.array import Words, below, from_montgomery

Bytes = NDArray[np.uint8]

LARGER, INFINITY = 0x80, 0x40


def uncompressed(device: AnyDevice, group: Group, points: Words) -> Bytes:
    """uint8 of shape (n, bytes of a point)."""
    return _big_endian(group, _canonical(device, group, points))


def compressed(device: AnyDevice, group: Group, points: Words) -> Bytes:
    """uint8 of shape (n, bytes of a coordinate)."""
    plain = _canonical(device, group, points)
    count, words = len(plain), group.coordinates.words
    y = plain[:, 1].reshape(count, group.degree, words)
    half = (group.coordinates.value + 1) // 2
    larger = ~below(words, y, half).reshape(count, group.degree)
    if group.degree == 2:
        # The second coefficient tells, unless it is 0.
        larger = np.where(y[:, 1].any(axis=1), larger[:, 1], larger[:, 0])[:, None]
    found = _big_endian(group, plain[:, :1]).copy()
    found[:, 0] |= np.where(larger[:, 0], np.uint8(LARGER), np.uint8(0))
    found[~plain.reshape(count, -1).any(axis=1), 0] |= np.uint8(INFINITY)
    return found


def uncompressed_points(device: AnyDevice, group: Group, points: list[Point]) -> bytes:
    """The bytes of plain points, one after the other."""
    return uncompressed(device, group, from_points(group, points)).tobytes()


def _canonical(device: AnyDevice, group: Group, points: Words) -> Words:
    found: Words = from_montgomery(device, group.coordinates, points)
    return found.reshape(len(points), *group.shape)


def _big_endian(group: Group, plain: Words) -> Bytes:
    """Coordinates of canonical words, uint32 of shape (n, coordinates, ...), as bytes."""
    flat: NDArray[Any] = np.ascontiguousarray(plain, "<u4").view(np.uint8)
    # Both the bytes of a coefficient and the coefficients of a coordinate turn round.
    size = group.coordinates.bytes * group.degree
    return np.ascontiguousarray(flat.reshape(len(plain), -1, size)[:, :, ::-1]).reshape(
        len(plain), -1
    )

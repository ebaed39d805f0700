"""Points of curves as the bytes of messages (`quod.curve.encoding.points.encode_point`)."""

from __future__ import annotations

from collections.abc import Sequence

from quod.curve.array import Point
from quod.curve.encoding import points as encoding
from quod.curve.group import Group
from quod.errors import InputError
from quod.validation import shown_kind

_MANY = 16
"""The smallest number of compressed points that are decoded together, by kernels."""


def point_bytes(group: Group, *, compressed: bool = True) -> int:
    """Return the number of bytes of a point in a message."""
    return encoding.point_bytes(group, compressed=compressed)


def encode_points(group: Group, points: Sequence[Point], *, compressed: bool = True) -> bytes:
    """Encode points one after the other; raise InputError for an invalid point."""
    untyped: object = points
    if not isinstance(untyped, (list, tuple)):
        raise InputError(f"points are a list of points, not {shown_kind(untyped)}")
    return b"".join(encoding.encode_point(group, point, compressed=compressed) for point in points)


def decode_points(
    group: Group, data: bytes, *, compressed: bool = True, offset: int = 0
) -> list[Point]:
    """Decode points; `offset` is the position of the bytes in their file, for errors.

    Raises InputError for bytes that `encode_points` does not write, and for a point outside the
    group.
    """
    size = point_bytes(group, compressed=compressed)
    if compressed and len(data) >= _MANY * size:
        # Import the kernels only for many points.
        from quod.curve.encoding.ordinates import decode_compressed

        decoded = decode_compressed(group, data)
        if decoded is not None:
            return decoded
    points = []
    for start in range(0, len(data), size):
        try:
            points.append(
                encoding.decode_point(group, data[start : start + size], compressed=compressed)
            )
        except InputError as error:
            raise InputError(
                f"point {start // size} is invalid: {error}", offset=offset + start
            ) from None
    return points

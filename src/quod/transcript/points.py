"""Points of curves as the bytes of messages (`quod.curve.encoding.points.encode_point`)."""

from __future__ import annotations

from collections.abc import Sequence

from quod.curve.array import Point
from quod.curve.encoding import points as encoding
from quod.curve.group import Group
from quod.errors import InputError
from quod.validation import shown_kind

_MANY = 16
"""Points that are decoded together."""


def point_bytes(group: Group, *, compressed: bool = True) -> int:
    """Bytes of a point in a message."""
    return encoding.point_bytes(group, compressed=compressed)


def encode_points(group: Group, points: Sequence[Point], *, compressed: bool = True) -> bytes:
    """Points as bytes, one after the other; InputError for what is no point."""
    argument: object = points
    if not isinstance(argument, (list, tuple)):
        raise InputError(f"points are a list of points, not {shown_kind(argument)}")
    return b"".join(encoding.encode_point(group, each, compressed=compressed) for each in points)


def decode_points(
    group: Group, data: bytes, *, compressed: bool = True, offset: int = 0
) -> list[Point]:
    """The points that bytes are, which begin at an offset of their file.

    InputError for bytes that `encode_points` does not write, and for a point that is not of the
    group.
    """
    size = point_bytes(group, compressed=compressed)
    if compressed and len(data) >= _MANY * size:
        # Kernels are loaded where they are worth it.
        from quod.curve.encoding.ordinates import decode_compressed

        decoded = decode_compressed(group, data)
        if decoded is not None:
            return decoded
    points = []
    for at in range(0, len(data), size):
        try:
            points.append(encoding.decode_point(group, data[at : at + size], compressed=compressed))
        except InputError as error:
            raise InputError(f"point {at // size} is none: {error}", offset=offset + at) from None
    return points

"""Arrays of affine points on the host.

An array of n points of a group is uint32 of shape (n, *group.shape): x and y in Montgomery form,
little-endian words (see `quod.field.moduli`); all zero stands for infinity.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from quod.curve.affine_law import plain_point
from quod.curve.group import Group
from quod.errors import InputError
from quod.field import array as elements
from quod.field.array import Words
from quod.validation import plain_array, shown_kind

Point = tuple[Any, Any] | None
"""An affine point of plain integers (of pairs of them over Fq2), None for infinity."""


def from_points(group: Group, points: Iterable[Point]) -> Words:
    """Return the array of affine points whose coordinates are plain integers in [0, q).

    Does not check that the points are on the curve. Raises InputError for an item that is not a
    point (see `quod.curve.affine_law.plain_point`), for a coordinate outside [0, q), and for
    (0, 0), which is on none of the curves and stands for infinity in arrays.
    """
    if not isinstance(points, Iterable):
        raise InputError(f"points must be a list of points, not {shown_kind(points)}")
    modulus = group.coordinates

    def coordinates() -> Iterator[int]:
        for position, value in enumerate(points):
            point = plain_point(value, group.degree, "point", position)
            if point is None:
                yield from [0] * (2 * group.degree)
                continue
            flat = point if group.degree == 1 else (*point[0], *point[1])
            if not all(0 <= coordinate < modulus.value for coordinate in flat):
                raise InputError(
                    f"a coordinate of point {position} is negative or not below the modulus of "
                    f"{modulus.name}; reduce it"
                )
            if not any(flat):
                raise InputError(f"point {position} is (0, 0), which is not on {group.name}")
            yield from flat

    return elements.from_integers(modulus, coordinates()).reshape(-1, *group.shape)


def to_points(group: Group, array: Words) -> list[Point]:
    """Return the points of an array as plain integers, None for infinity."""
    check_points_array(group, array)
    flat = elements.to_integers(group.coordinates, array)
    points: list[Point] = []
    for start in range(0, len(flat), 2 * group.degree):
        flat_point = flat[start : start + 2 * group.degree]
        if not any(flat_point):
            points.append(None)
        elif group.degree == 1:
            points.append((flat_point[0], flat_point[1]))
        else:
            points.append(((flat_point[0], flat_point[1]), (flat_point[2], flat_point[3])))
    return points


def check_points_array(group: Group, array: Words, what: str = "points") -> None:
    """Raise InputError unless an array has the type and shape of points of the group.

    Does not check that coordinates are below q or that points are on the curve.
    what: how the message names the array.
    """
    array = plain_array(what, array)
    if array.dtype != np.uint32 or array.shape[1:] != group.shape:
        shape = ", ".join(map(str, group.shape))
        raise InputError(
            f"{what} of {group.name} are uint32 words of shape (n, {shape}), "
            f"not {array.dtype} of {array.shape}"
        )


def check_scalars_array(group: Group, scalars: Words, count: int | None = None) -> None:
    """Raise InputError unless scalars are uint32 of shape (n, words), each below the order.

    Scalars are canonical integers of `group.scalars.words` words, not in Montgomery form.
    count: the number of scalars that is required; None for any.
    """
    words = group.scalars.words
    scalars = plain_array("scalars", scalars)
    if scalars.dtype != np.uint32 or scalars.shape[1:] != (words,):
        raise InputError(
            f"scalars are uint32 words of shape (n, {words}), "
            f"not {scalars.dtype} of {scalars.shape}"
        )
    if count is not None and len(scalars) != count:
        raise InputError(f"{count} points need as many scalars, not {len(scalars)}")
    elements.check_canonical(group.scalars, scalars)


def widened_scalars(scalars: Words, count: int) -> Words:
    """Return one scalar for each of `count` points, zero-padded to whole 64-bit words.

    scalars: uint32 of shape (count, words), integers of any size; or (1, words) for one scalar that
    all points share. The result has shape (count, 2 * ceil(words / 2)).
    Raises InputError for another type, shape or number of scalars.
    """
    scalars = plain_array("scalars", scalars)
    if scalars.dtype != np.uint32 or scalars.ndim != 2 or scalars.shape[1] == 0:
        raise InputError(
            f"scalars are uint32 words of shape (n, words), not {scalars.dtype} of {scalars.shape}"
        )
    if len(scalars) not in (1, count):
        raise InputError(f"{count} points need as many scalars, not {len(scalars)}")
    widened = np.zeros((count, scalars.shape[1] + scalars.shape[1] % 2), np.uint32)
    widened[:, : scalars.shape[1]] = scalars
    return widened

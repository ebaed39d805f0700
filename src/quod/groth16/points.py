"""Multiples of a few points, and their sums, for proofs, keys and verification."""

from __future__ import annotations

import functools
from collections.abc import Sequence

from quod.curve.array import Point, from_points, to_points
from quod.curve.group import Group
from quod.curve.weierstrass import operations
from quod.curve.weierstrass.affine import affine_group
from quod.device.protocol import AnyDevice
from quod.field.array import integers_to_words
from quod.msm import msm

# Up to this many points, one multiple per instance is faster than an MSM.
_MSM_THRESHOLD = 24


def multiples(
    device: AnyDevice, group: Group, points: Sequence[Point], scalars: Sequence[int]
) -> list[Point]:
    """Return scalars[i] * points[i] for a few affine points and scalars below the order."""
    words = integers_to_words(group.scalars, scalars)
    return to_points(group, operations.multiply(device, group, from_points(group, points), words))


def sum_of_multiples(
    device: AnyDevice, group: Group, points: Sequence[Point], scalars: Sequence[int]
) -> Point:
    """Return the sum of scalars[i] * points[i] for affine points and scalars below the order."""
    return sums_of_multiples(device, group, [(points, scalars)])[0]


def sums_of_multiples(
    device: AnyDevice, group: Group, sums: Sequence[tuple[Sequence[Point], Sequence[int]]]
) -> list[Point]:
    """Return `sum_of_multiples` of each pair (points, scalars).

    One launch computes the multiples of all sums of at most _MSM_THRESHOLD points.
    """
    law = affine_group(group)
    short_sums = [pair for pair in sums if len(pair[0]) <= _MSM_THRESHOLD]
    points = [point for summands, _ in short_sums for point in summands]
    scalars = [scalar for _, factors in short_sums for scalar in factors]
    products = iter(multiples(device, group, points, scalars) if points else ())

    def total(points: Sequence[Point], scalars: Sequence[int]) -> Point:
        if len(points) <= _MSM_THRESHOLD:
            return functools.reduce(law.add, (next(products) for _ in points), None)
        words = integers_to_words(group.scalars, scalars)
        return msm(device, group, from_points(group, points), words)

    return [total(*pair) for pair in sums]

"""Multiples of a few points, and their sums, for proofs, keys and verification."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from quod.curve.array import Point, from_points, to_points
from quod.curve.group import Group
from quod.curve.multiples.subgroup_multiples import multiply_in_subgroup, subgroup_multiples
from quod.curve.weierstrass import operations
from quod.curve.weierstrass.affine import affine_group
from quod.curve.weierstrass.point_kernels import curve_multiply, curve_normalise
from quod.device.protocol import AnyDevice, has_ifma, lanes_for
from quod.field.array import Words, integers_to_words
from quod.kernel.definition import KernelDefinition
from quod.msm import msm

# Up to this many points, one multiple per instance is faster than an MSM.
_MSM_THRESHOLD = 24


def multiples(
    device: AnyDevice, group: Group, points: Sequence[Point], scalars: Sequence[int]
) -> list[Point]:
    """Return scalars[i] * points[i] for a few affine points and scalars below the order."""
    words = integers_to_words(group.scalars, scalars)
    return to_points(group, multiply(device, group, from_points(group, points), words))


def multiply(device: AnyDevice, group: Group, points: Words, scalars: Words) -> Words:
    """Return scalars[i] * points[i], for a few points of prime order and scalars below the order.

    Multiples of other points may be any points of the curve.
    """
    if has_ifma(device):
        return multiply_in_subgroup(device, group, points, scalars)
    return operations.multiply(device, group, points, scalars)


def multiply_kernels(
    device: AnyDevice, group: Group, count: int
) -> list[tuple[KernelDefinition, int, dict[str, Any]]]:
    """Return the kernels of `multiply` for `count` points, with lanes and static arguments."""
    if has_ifma(device):
        return [(subgroup_multiples, device.lanes, {"group": group})]
    lanes, scalar_words = lanes_for(device, count), group.scalars.bytes // 8
    return [
        (curve_multiply, lanes, {"group": group, "scalar_words": scalar_words}),
        (curve_normalise, lanes, {"group": group}),
    ]


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

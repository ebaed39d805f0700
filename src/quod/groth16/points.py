"""What proofs, keys and verifications need of points beside MSMs."""

from __future__ import annotations

import functools
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quod.curve import operations
from quod.curve.affine import AffineGroup, g1_group, g2_group
from quod.curve.array import Point, from_points, to_points
from quod.curve.groups import Group
from quod.device.cpu import CpuDevice
from quod.field.array import Words, integers_to_words
from quod.kernel import U32, U64, Builder, Pointer, kernel, types
from quod.msm import msm

# Points from which on an MSM is faster than a multiple an instance.
_FEW = 24


@kernel
def find_finite(
    k: Builder, count: U32, points: Pointer[U64], finite: Pointer[U32], *, group: Group
) -> None:
    """finite[i] = 0 for the point at infinity, all zero, and something else for any other."""
    i = k.global_id()
    with k.if_(i < count):
        words = k.load(points, i.cast(types.u64) * group.point_words, group.point_words)
        combined = functools.reduce(operator.or_, words)
        finite[i] = (combined | combined >> 32).cast(types.u32)


def finite_points(device: CpuDevice, group: Group, points: Words) -> NDArray[np.bool_]:
    """Which of the points, (n, *group.shape), are not infinity."""
    found = np.empty(len(points), dtype=np.uint32)
    compiled = device.compile(find_finite, group=group)
    device.launch(compiled, -(-len(points) // device.lanes), len(points), points, found)
    finite: NDArray[np.bool_] = found != 0
    return finite


def aligned(array: Words) -> Words:
    """The array itself, or a copy where it begins at an odd place of a file."""
    array = np.ascontiguousarray(array)
    return array.copy() if array.ctypes.data % array.itemsize else array


def multiples(
    device: CpuDevice, group: Group, points: Sequence[Point], scalars: Sequence[int]
) -> list[Point]:
    """scalars[i] * points[i] for a few plain points and scalars below the order."""
    words = integers_to_words(group.scalars, scalars)
    return to_points(group, operations.multiply(device, group, from_points(group, points), words))


def sum_of_multiples(
    device: CpuDevice, group: Group, points: Sequence[Point], scalars: Sequence[int]
) -> Point:
    """The sum of scalars[i] * points[i] for plain points and scalars below the order."""
    if len(points) > _FEW:
        words = integers_to_words(group.scalars, scalars)
        return msm(device, group, from_points(group, points), words)
    law = affine_group(group)
    return functools.reduce(law.add, multiples(device, group, points, scalars), None)


def affine_group(group: Group) -> AffineGroup[Any]:
    """The group law on plain points."""
    return g1_group(group.curve) if group.degree == 1 else g2_group(group.curve)

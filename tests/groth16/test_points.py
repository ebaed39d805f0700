"""Multiples of points and membership tests on the device against single points on the host."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from quod.curve.affine import AffineGroup
from quod.curve.array import from_points
from quod.curve.groups import GROUPS, Group
from quod.device.cpu import CpuDevice
from quod.errors import InputError
from quod.groth16.points import (
    affine_group,
    aligned,
    finite_points,
    multiples,
    sum_of_multiples,
)

ALL_GROUPS = pytest.mark.parametrize("group", GROUPS.values(), ids=repr)


def hostile_scalars(group: Group) -> list[int]:
    r = group.scalars.value
    rng = random.Random(group.name)
    return [0, 1, 2, 3, 255, 256, 1 << 64, r - 1, r - 2, r // 2, (r + 1) // 2, rng.randrange(r)]


def point_outside_the_subgroup(law: AffineGroup[Any]) -> Any:
    """A point of the curve that has not the order r."""
    for x in range(1, 100):
        for candidate in ((x, 0), (0, x), (x, 1)) if "g2" in law.name else (x,):
            point = with_x(law, candidate)
            if point is not None and law.multiply(law.order, point) is not None:
                return point
    raise AssertionError("every point tried is in the subgroup")


def with_x(law: AffineGroup[Any], x: Any) -> Any:
    root = law.field.square_root(law.right_side(x))
    return None if root is None else (x, root)


@ALL_GROUPS
def test_multiples(device: CpuDevice, group: Group) -> None:
    law, generator = affine_group(group), group.parameters.generator
    scalars = hostile_scalars(group)
    bases: list[Any] = [law.multiply(index + 1, generator) for index in range(len(scalars))]
    bases[4] = None
    expected = [law.multiply(scalar, base) for scalar, base in zip(scalars, bases)]
    assert multiples(device, group, bases, scalars) == expected


def test_a_scalar_that_is_not_reduced_is_refused(device: CpuDevice) -> None:
    group = GROUPS["bn254.g1"]
    with pytest.raises(InputError, match="integer 0"):
        multiples(device, group, [(1, 2)], [group.scalars.value])


@ALL_GROUPS
@pytest.mark.parametrize("count", [0, 1, 7, 40])
def test_sums_of_multiples(device: CpuDevice, group: Group, count: int) -> None:
    law, generator = affine_group(group), group.parameters.generator
    scalars = [hostile_scalars(group)[index % 12] for index in range(count)]
    bases = [law.multiply(index + 1, generator) for index in range(count)]
    weight = sum((index + 1) * scalar for index, scalar in enumerate(scalars))
    expected = law.multiply(weight % law.order, generator)
    assert sum_of_multiples(device, group, bases, scalars) == expected


@ALL_GROUPS
def test_which_points_are_finite(device: CpuDevice, group: Group) -> None:
    array = from_points(group, [group.parameters.generator, None] * 9)
    # One bit anywhere is enough, and the last point is infinity.
    flat = array.reshape(18, -1)
    flat[1, 0], flat[3, -1], flat[5, flat.shape[1] // 2] = 1, 1 << 31, 4
    expected = [True] * 7 + [False, True] * 5 + [False]
    assert finite_points(device, group, array).tolist() == expected
    assert finite_points(device, group, array[:0]).tolist() == []


def test_aligned() -> None:
    array = np.arange(12, dtype=np.uint32)
    assert aligned(array) is array
    moved = np.frombuffer(b"\0" + array.tobytes(), dtype=np.uint32, offset=1)
    found = aligned(moved)
    assert found.ctypes.data % 4 == 0
    assert (found == array).all()
    assert (aligned(array[::2]) == array[::2]).all()

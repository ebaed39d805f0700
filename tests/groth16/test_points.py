"""Multiples of points and membership tests on the device against single points on the host."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from quod.curve.affine import AffineGroup
from quod.curve.array import from_points, to_points
from quod.curve.groups import GROUPS, Group
from quod.device.cpu import CpuDevice
from quod.errors import InputError
from quod.field.array import integers_to_words
from quod.groth16 import points
from quod.groth16.points import (
    GeneratorTable,
    affine_group,
    first_bad_point,
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
@pytest.mark.parametrize("window_bits", [4, 8])
def test_multiples_of_the_generator(
    device: CpuDevice, group: Group, window_bits: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    if window_bits == 8 and group.name not in ("bn254.g1", "bls12_381.g2"):
        pytest.skip("the wide table takes long to make; two groups show it")
    monkeypatch.setattr(points, "_WINDOWS", ((0, window_bits),))
    law, generator = affine_group(group), group.parameters.generator
    # More than one instance's share, not a multiple of it, with infinity among them.
    scalars = [*hostile_scalars(group), *range(60), 0]
    table = GeneratorTable(device, group, len(scalars))
    found = table.multiply(integers_to_words(group.scalars, scalars))
    assert to_points(group, found) == [law.multiply(scalar, generator) for scalar in scalars]


def test_no_multiples_of_the_generator(device: CpuDevice) -> None:
    group = GROUPS["bn254.g1"]
    found = GeneratorTable(device, group, 0).multiply(np.zeros((0, 8), dtype=np.uint32))
    assert found.shape == (0, *group.shape)


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
def test_good_points_pass(device: CpuDevice, group: Group) -> None:
    law, generator = affine_group(group), group.parameters.generator
    good = [law.multiply(scalar, generator) for scalar in hostile_scalars(group)]
    array = from_points(group, good)
    assert first_bad_point(device, group, array, subgroup=True) is None
    assert first_bad_point(device, group, array[:0], subgroup=True) is None


@ALL_GROUPS
def test_a_point_off_the_curve_is_found(device: CpuDevice, group: Group) -> None:
    array = from_points(group, [group.parameters.generator] * 11)
    array[9].reshape(-1)[0] ^= 1
    array[10].reshape(-1)[-1] ^= 1
    for subgroup in (False, True):
        found = first_bad_point(device, group, array, subgroup=subgroup)
        assert found == (9, "is not on the curve")


@ALL_GROUPS
def test_half_a_zero_is_no_infinity(device: CpuDevice, group: Group) -> None:
    array = from_points(group, [group.parameters.generator] * 2)
    array[0, 0] = 0
    assert first_bad_point(device, group, array, subgroup=False) == (0, "is not on the curve")


@ALL_GROUPS
def test_a_point_outside_the_subgroup_is_found(device: CpuDevice, group: Group) -> None:
    if group.parameters.cofactor == 1:
        pytest.skip("every point of this curve is in the group")
    law = affine_group(group)
    bad = point_outside_the_subgroup(law)
    # Its multiple by r has an order that divides the cofactor: low order, no component in G.
    low = law.multiply(law.order, bad)
    for point in (bad, low, law.add(low, group.parameters.generator)):
        array = from_points(group, [group.parameters.generator, point])
        assert first_bad_point(device, group, array, subgroup=False) is None
        found = first_bad_point(device, group, array, subgroup=True)
        assert found == (1, "is not in the subgroup of prime order")

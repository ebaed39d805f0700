"""Multiples of points and membership tests on the device against single points on the host."""

from __future__ import annotations

import random
from typing import Any

import pytest

from quod.curve.group import Group
from quod.curve.groups import GROUPS
from quod.curve.weierstrass.affine import affine_group
from quod.device.protocol import AnyDevice
from quod.errors import InputError
from quod.groth16.points import multiples, sum_of_multiples

SOME = pytest.mark.parametrize("group", [GROUPS["bn254.g1"], GROUPS["bls12_381.g2"]], ids=repr)


def hostile_scalars(group: Group) -> list[int]:
    r = group.scalars.value
    rng = random.Random(group.name)
    return [0, 1, 2, 3, 255, 256, 1 << 64, r - 1, r - 2, r // 2, (r + 1) // 2, rng.randrange(r)]


@SOME
def test_base_multiples(device: AnyDevice, group: Group) -> None:
    law, generator = affine_group(group), group.parameters.generator
    scalars = hostile_scalars(group)
    bases: list[Any] = [law.multiply(index + 1, generator) for index in range(len(scalars))]
    bases[4] = None
    expected = [law.multiply(scalar, base) for scalar, base in zip(scalars, bases)]
    assert multiples(device, group, bases, scalars) == expected


def test_a_scalar_that_is_not_reduced_is_refused(device: AnyDevice) -> None:
    group = GROUPS["bn254.g1"]
    with pytest.raises(InputError, match="integer 0"):
        multiples(device, group, [(1, 2)], [group.scalars.value])


@SOME
def test_sums_of_multiples(device: AnyDevice, group: Group) -> None:
    law, generator = affine_group(group), group.parameters.generator
    for count in (0, 1, 7, 40):
        scalars = [hostile_scalars(group)[index % 12] for index in range(count)]
        bases = [law.multiply(index + 1, generator) for index in range(count)]
        weight = sum((index + 1) * scalar for index, scalar in enumerate(scalars))
        expected = law.multiply(weight % law.order, generator)
        assert sum_of_multiples(device, group, bases, scalars) == expected, count

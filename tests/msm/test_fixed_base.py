"""Multiples of one point by many scalars."""

from __future__ import annotations

import random

import numpy as np
import pytest

from quod.curve.array import from_points, to_points
from quod.curve.group import Group
from quod.curve.groups import GROUPS
from quod.device.cpu.device import CpuDevice
from quod.errors import InputError
from quod.field.array import integers_to_words
from quod.msm.fixed_base import FixedBase, _shape_for, multiply_generator
from tests.msm.inputs import points, reference
from tests.support.thorough import one_and_others


def hostile_scalars(group: Group) -> list[int]:
    """Each digit the smallest, the largest, with and without carry, for every width."""
    r = group.scalars.value
    scalars = [0, 1, 2, 3, r - 1, r - 2, r // 2, r // 2 + 1]
    for bits in range(3, 14):
        half = 1 << (bits - 1)
        for digit in (half - 1, half, half + 1):
            scalars.append(sum(digit << shift for shift in range(0, 256, bits)) % r)
    rng = random.Random(group.name)
    return scalars + [rng.randrange(r) for _ in range(20)]


@pytest.mark.parametrize("name", one_and_others(["bn254.g1", "bls12_381.g2"]))
def test_base_multiples_of_the_generator(device: CpuDevice, name: str) -> None:
    group = GROUPS[name]
    scalars = hostile_scalars(group)
    law, generator = reference(group), group.parameters.generator
    multiples = multiply_generator(device, group, integers_to_words(group.scalars, scalars))
    assert to_points(group, multiples) == [law.mul(scalar, generator) for scalar in scalars]


@pytest.mark.parametrize("count", one_and_others([10**3, 1, 10**7]))
def test_every_size_of_table(device: CpuDevice, count: int) -> None:
    group = GROUPS["bn254.g1"]
    scalars = hostile_scalars(group)
    law, (point,) = reference(group), points(group, 1)
    table = FixedBase(device, group, point, count)
    multiples = table.multiply(integers_to_words(group.scalars, scalars))
    assert to_points(group, multiples) == [law.mul(scalar, point) for scalar in scalars]


def test_base_multiples_of_infinity(device: CpuDevice) -> None:
    group = GROUPS["bn254.g1"]
    scalars = integers_to_words(group.scalars, [0, 1, 5, group.scalars.value - 1])
    assert not FixedBase(device, group, None, 4).multiply(scalars).any()


def test_window_width_grows_with_the_scalar_count() -> None:
    group = GROUPS["bls12_381.g1"]
    widths = [_shape_for(group, 10**power).window_bits for power in range(8)]
    assert widths == sorted(widths)
    assert widths[0] <= 4
    assert widths[-1] == 13


def test_many_scalars_in_chunks(device: CpuDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("quod.msm.fixed_base._CHUNK", 64)
    group = GROUPS["bn254.g1"]
    count = 200
    first, step = 0x1234567, 0x89ABCDEF0123
    scalars = [(first + step * i) % group.scalars.value for i in range(count)]
    scalars[64:128] = [0] * 64  # a chunk of zeros only
    law, generator = reference(group), group.parameters.generator
    multiples = multiply_generator(device, group, integers_to_words(group.scalars, scalars))
    difference = law.mul(step, generator)
    expected = [law.mul(first, generator)]
    for _ in range(count - 1):
        expected.append(law.add(expected[-1], difference))
    expected[64:128] = [None] * 64
    assert np.array_equal(multiples, from_points(group, expected))


def test_empty_scalars(device: CpuDevice) -> None:
    group = GROUPS["bn254.g2"]
    multiples = multiply_generator(device, group, integers_to_words(group.scalars, []))
    assert multiples.shape == (0, *group.shape)


def test_refused_scalars(device: CpuDevice) -> None:
    group = GROUPS["bn254.g1"]
    table = FixedBase(device, group, group.parameters.generator, 1)
    good = integers_to_words(group.scalars, [1, 2, 3])
    bad = good.copy()
    order = group.scalars.value.to_bytes(32, "little")
    bad[1] = np.frombuffer(order, "<u4")
    with pytest.raises(InputError, match=r"element 1 is not below the modulus of bn254\.fr"):
        table.multiply(bad)
    with pytest.raises(InputError, match=r"shape \(n, 8\), not uint64 of \(3, 8\)"):
        table.multiply(good.astype(np.uint64))

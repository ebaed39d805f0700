"""Transforms of points: Lagrange polynomials at a tau that the test knows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from quod.curve.array import from_points, to_points
from quod.curve.group import Group
from quod.curve.groups import GROUPS
from quod.curve.multiples.scalar_parts import scalar_decomposition
from quod.curve.weierstrass.affine import affine_group
from quod.device.discovery import open_device
from quod.device.protocol import AnyDevice
from quod.errors import DeviceError
from quod.field.array import Words
from quod.field.roots import root_of_unity
from quod.ntt.points import LagrangeLevels, bit_reversed
from tests.support.thorough import one_and_others

TAU = 0x1234567890ABCDEF1234567890ABCDEF


def _powers(group: Group, count: int) -> Words:
    law, r = affine_group(group), group.scalars.value
    return from_points(group, [law.multiply(pow(TAU, i, r), law.generator) for i in range(count)])


def _lagrange(group: Group, level: int) -> Words:
    """L_i(TAU) times the generator: (TAU**n - 1) / n * x_i / (TAU - x_i)."""
    law, r, n = affine_group(group), group.scalars.value, 1 << level
    root = root_of_unity(group.scalars, "snarkjs", level)
    points = [pow(root, i, r) for i in range(n)]
    outer = (pow(TAU, n, r) - 1) * pow(n, -1, r)
    values = [outer * x * pow(TAU - x, -1, r) % r for x in points]
    return from_points(group, [law.multiply(value, law.generator) for value in values])


@pytest.mark.parametrize("name", one_and_others(["bn254.g1", "bn254.g2", "bls12_381.g2"]))
def test_levels_are_lagrange_polynomials(name: str, device: AnyDevice) -> None:
    group, top = GROUPS[name], 5
    levels = LagrangeLevels(device, group, top)
    level_points = dict(levels.run(_powers(group, 1 << top)))
    assert sorted(level_points) == list(range(top + 1))
    for level, points in level_points.items():
        assert np.array_equal(points, _lagrange(group, level)), level


@pytest.mark.thorough
def test_levels_on_gpus(gpu_device: AnyDevice) -> None:
    group = GROUPS["bn254.g1"]
    for level, points in LagrangeLevels(gpu_device, group, 2).run(_powers(group, 4)):
        assert np.array_equal(points, _lagrange(group, level)), level


def test_missing_points_are_infinity() -> None:
    group, device = GROUPS["bn254.g1"], open_device("cpu")
    law = affine_group(group)
    points = _powers(group, 3)
    coefficients = dict(LagrangeLevels(device, group, 2).run(points))[2]
    padded = np.concatenate([points, np.zeros((1, *group.shape), np.uint32)])
    assert np.array_equal(coefficients, dict(LagrangeLevels(device, group, 2).run(padded))[2])
    # All points are multiples of the same: the sum over the domain is the constant coefficient.
    total = None
    for point in to_points(group, coefficients):
        total = law.add(total, point)
    assert total == law.generator


def test_equal_and_opposite_points() -> None:
    group, device = GROUPS["bn254.g1"], open_device("cpu")
    generator = _powers(group, 1)
    law = affine_group(group)
    minus = from_points(group, [law.negate(law.generator)])
    transform = dict(
        LagrangeLevels(device, group, 2).run(np.concatenate([generator, minus, generator, minus]))
    )
    # The transform of 1, -1, 1, -1 is 1 at the root -1, by 4/4, and infinity elsewhere.
    assert not transform[2][[0, 1, 3]].any()
    assert np.array_equal(transform[2][2:3], generator)


def test_the_order_of_results() -> None:
    assert bit_reversed(3).tolist() == [0, 4, 2, 6, 1, 5, 3, 7]
    assert bit_reversed(0).tolist() == [0]


def test_memory_shortage_is_reported_in_advance() -> None:
    with open_device("cpu", memory_budget=1 << 20) as device:
        LagrangeLevels.check_memory(device, GROUPS["bn254.g1"], 4)
        with pytest.raises(DeviceError, match=r"2\*\*28 points of bn254\.g2"):
            LagrangeLevels.check_memory(device, GROUPS["bn254.g2"], 28)


@pytest.mark.parametrize("name", one_and_others(["bn254.g1", "bls12_381.g2"]))
def test_memory_use_stays_within_the_estimate(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory held at the end: the device's, and the results as they come and in their order.

    The points that are given, the factors as elements and one row of digits are not held any more.
    """
    group, top, held = GROUPS[name], 6, [0]
    said: list[int] = []
    with open_device("cpu") as device:
        monkeypatch.setattr(
            type(device), "check_budget", lambda self, what, needed, **options: said.append(needed)
        )
        LagrangeLevels.check_memory(device, group, top)
        for method in ("allocate", "upload"):
            method_of_type = getattr(type(device), method)

            def counted(
                self: Any, *arguments: Any, method_of_type: Any = method_of_type, **options: Any
            ) -> Any:
                buffer = method_of_type(self, *arguments, **options)
                held[0] += buffer.nbytes
                return buffer

            monkeypatch.setattr(type(device), method, counted)
        levels = LagrangeLevels(device, group, top)
        base_points = _powers(group, 1 << top)
        ((_, transform),) = levels.run(base_points, wanted={top})
    row = 4 * scalar_decomposition(group).words([1]).size
    # Two more of which the powers are made.
    factors = group.scalars.bytes * ((1 << top) // 2 + 2)
    taken = held[0] - base_points.nbytes - factors + 2 * transform.nbytes
    assert taken - row <= said[0] <= 1.1 * taken

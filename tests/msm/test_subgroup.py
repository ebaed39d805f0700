"""Subgroup checks by sums of random subsets, against the check of each point."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from quod.curve.array import from_points
from quod.curve.group import Group
from quod.curve.groups import GROUPS
from quod.curve.weierstrass import operations
from quod.curve.weierstrass.affine import g1_group, g2_group
from quod.device.discovery import resolve_device
from quod.device.emulated.device import EmulatedDevice
from quod.device.protocol import AnyDevice
from quod.field.array import Words
from quod.msm import subgroup
from quod.msm.fixed_base import multiply_generator
from quod.msm.subgroup import first_bad_point
from tests.support.thorough import one_and_others

COUNT = 300
NAMES = one_and_others(["bls12_381.g1", "bls12_381.g2", "bls12_377.g1", "bn254.g2"])


@pytest.fixture
def by_sums(monkeypatch: pytest.MonkeyPatch) -> None:
    """Check few points by sums, too, in several chunks."""
    monkeypatch.setattr(subgroup, "_MANY_POINTS", 1)
    monkeypatch.setattr(subgroup, "_CHUNK", 130)
    monkeypatch.setattr(subgroup, "_bucket_bits", lambda _: 4)


def valid_points(group: Group) -> Words:
    """Return multiples of the generator: equal ones, opposite ones, and infinity."""
    scalars = np.zeros((COUNT, group.scalars.words), np.uint32)
    scalars[:, 0] = np.arange(COUNT) // 2
    points = multiply_generator(resolve_device("cpu"), group, scalars)
    points[100:200:2] = operations.negate(resolve_device("cpu"), group, points[101:201:2])
    return points


def points_outside(name: str, group: Any) -> Words:
    """Return points of the curve outside the subgroup, with their opposites."""
    law: Any = (g1_group if group.degree == 1 else g2_group)(group.curve)
    points = [*points_of_small_order(name, group)]
    x = 0
    while len(points) < 6:
        candidate = x if group.degree == 1 else (x, 1)
        root = law.field.square_root(law.right_side(candidate))
        if root is not None and law.multiply(law.order, (candidate, root)) is not None:
            points += [(candidate, root), law.negate((candidate, root))]
        x += 1
    return from_points(group, points)


def points_of_small_order(name: str, group: Any) -> Iterator[Any]:
    """Yield the point of order two of BLS12-377."""
    if name == "bls12_377.g1":
        yield group.coordinates.value - 1, 0


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.usefixtures("by_sums")
def test_verdicts(name: str, cpu_device: AnyDevice) -> None:
    group = GROUPS[name]
    points, options = valid_points(group), {"subgroup": True, "infinity": True}
    assert first_bad_point(cpu_device, group, points, **options) is None
    assert first_bad_point(cpu_device, group, points, subgroup=True, infinity=False) == (
        0,
        "is the point at infinity",
    )
    for index, outside in enumerate(points_outside(name, group)):
        changed = points.copy()
        changed[17 * index + 3] = outside
        expected = (17 * index + 3, "is not in the subgroup of prime order")
        assert first_bad_point(cpu_device, group, changed, **options) == expected
        assert first_bad_point(cpu_device, group, changed, subgroup=False, infinity=True) is None
    changed[250, 0] = changed[250, 1]
    assert first_bad_point(cpu_device, group, changed, **options) == expected
    assert first_bad_point(cpu_device, group, changed[:200], **options) == expected
    assert first_bad_point(cpu_device, group, changed[200:], **options) == (
        50,
        "is not on the curve",
    )


@pytest.mark.usefixtures("by_sums")
def test_points_that_cancel(cpu_device: AnyDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two opposite points outside pass a round only in one bucket; further rounds find them."""
    name = "bls12_381.g1"
    group: Any = GROUPS[name]
    points = valid_points(group)
    points[[5, 90]] = points_outside(name, group)[:2]
    options = {"subgroup": True, "infinity": True}
    expected = (5, "is not in the subgroup of prime order")
    assert first_bad_point(cpu_device, group, points, **options) == expected
    rounds: list[int] = []

    def drawn(size: int) -> bytes:
        """Draw the same bucket for all points, and others in the last round."""
        rounds.append(size)
        first_chunk = len(rounds) <= -(-subgroup.ERROR_BITS // 4)
        last_of_chunk = len(rounds) == -(-subgroup.ERROR_BITS // 4)
        return bytes(2 * 90) + bytes([last_of_chunk, 0]) + bytes(size - 182) if first_chunk else b""

    monkeypatch.setattr("quod.msm.subgroup.os.urandom", drawn)
    assert first_bad_point(cpu_device, group, points, **options) == expected
    assert rounds == [2 * 130] * 25


def test_many_points_take_few_additions() -> None:
    """The numbers of buckets with which a point takes least."""
    assert [subgroup._bucket_bits(1 << log2) for log2 in (14, 18, 22)] == [5, 8, 12]
    assert subgroup.ERROR_BITS == 100


def test_points_that_are_checked_one_by_one(
    cpu_device: AnyDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On GPUs, if they are few, and in groups without other points."""
    checked: list[bool] = []

    def check(*_: object, subgroup: bool, infinity: bool) -> None:
        assert infinity
        checked.append(subgroup)

    monkeypatch.delattr(subgroup, "_are_in_subgroup")
    monkeypatch.setattr(operations, "first_bad_point", check)
    many: Any = range(subgroup._MANY_POINTS)
    g1 = GROUPS["bls12_381.g1"]
    for device, group, points in (
        (EmulatedDevice(), g1, many), (cpu_device, g1, many[1:]),
        (cpu_device, GROUPS["bn254.g1"], many),
    ):  # fmt: skip
        assert first_bad_point(device, group, points, subgroup=True, infinity=True) is None
    assert checked == [True] * 3

"""Arrays of points of every group without a pairing, against plain integers."""

from __future__ import annotations

import numpy as np

from quod.curve.array import from_points, to_points
from quod.curve.edwards import operations as edwards_operations
from quod.curve.edwards.operations import from_edwards_points, to_edwards_points
from quod.curve.edwards.weierstrass_model import WeierstrassModel
from quod.curve.group import Group
from quod.curve.weierstrass import operations
from quod.device.protocol import AnyDevice
from tests.curve.every import GROUPS, cases, hostile, law_of
from tests.msm.inputs import scalar_words
from tests.reference.curve import edwards_of

EVERY = cases(GROUPS)


@EVERY
def test_operations(device: AnyDevice, group: Group) -> None:
    """Sums of every pair, and multiples by scalars of any size."""
    law, r = law_of(group), group.scalars.value
    points = hostile(group)
    pairs = [(p, q) for p in points for q in points]
    left, right = (from_points(group, side) for side in zip(*pairs, strict=True))
    sums = operations.add(device, group, left, right)
    assert to_points(group, sums) == [law.add(p, q) for p, q in pairs]
    array = from_points(group, points)
    opposite = operations.negate(device, group, array)
    assert np.array_equal(opposite, from_points(group, [law.neg(p) for p in points]))
    scalars = [0, 1, 2, r - 1, r, r + 1, (1 << 256) - 1, 1 << 255, *range(3, 20)][: len(points)]
    multiples = operations.multiply(device, group, array[: len(scalars)], scalar_words(scalars))
    wanted = [law.mul(k, p) for k, p in zip(scalars, points, strict=False)]
    assert to_points(group, multiples) == wanted


@EVERY
def test_membership(device: AnyDevice, group: Group) -> None:
    law, r = law_of(group), group.scalars.value
    points = hostile(group)
    assert operations.is_on_curve(device, group, from_points(group, points)).all()
    inside = operations.is_in_subgroup(device, group, from_points(group, points))
    assert list(inside) == [law.mul(r, p) is None for p in points]
    off = from_points(group, [(1, 1), (2, 3)])
    assert list(operations.is_on_curve(device, group, off)) == [
        law.contains((1, 1)), law.contains((2, 3)),
    ]  # fmt: skip


@cases([group for group in GROUPS if isinstance(group, WeierstrassModel)])
def test_the_edwards_law(device: AnyDevice, group: WeierstrassModel) -> None:
    """Every pair, points of low order among them, in the curve's own coordinates."""
    curve = group.edwards
    law = edwards_of(curve)
    points = [group.to_edwards(point) for point in hostile(group)]
    assert all(law.contains(point) for point in points)
    pairs = [(p, q) for p in points for q in points]
    left, right = (from_edwards_points(curve, side) for side in zip(*pairs, strict=True))
    sums = edwards_operations.add(device, curve, left, right)
    assert to_edwards_points(curve, sums) == [law.add(p, q) for p, q in pairs]
    array = from_edwards_points(curve, points)
    doubled = edwards_operations.double(device, curve, array)
    assert to_edwards_points(curve, doubled) == [law.add(p, p) for p in points]
    assert edwards_operations.is_on_curve(device, curve, array).all()
    assert not edwards_operations.is_on_curve(
        device, curve, from_edwards_points(curve, [(1, 1), (2, 3)])
    ).any()

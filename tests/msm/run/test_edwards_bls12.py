"""MSMs over Edwards BLS12 on GPUs: its Weierstrass model has a coefficient a, and cofactor 4."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from quod.curve.edwards.operations import from_edwards_points
from quod.device.protocol import AnyDevice
from quod.msm.edwards import edwards_bases, edwards_msm
from tests.msm.inputs import scalar_words
from tests.msm.test_edwards import CURVE, LAW, Q, R, points
from tests.reference.msm import msm_edwards


def low_and_equal_points() -> list[tuple[int, int]]:
    """Points of order 1, 2 and 4, doubles, opposites, and sums with those."""
    root = LAW.field.sqrt(Q - 1)
    assert root is not None
    p = points(1)[0]
    return [
        (0, 1), (0, Q - 1), (root, 0), (Q - root, 0), p, p, LAW.neg(p), LAW.neg(p), (root, 0),
        (root, 0), LAW.add(p, (0, Q - 1)), (0, Q - 1), (0, Q - 1), p, LAW.add(p, (root, 0)),
    ]  # fmt: skip


@pytest.mark.thorough
def test_low_orders_doubles_and_opposites(gpu_device: AnyDevice) -> None:
    """All of them in one bucket, and once more with other scalars."""
    base_points = low_and_equal_points()
    scalars = [1] * len(base_points) + [
        (3, 0, 1, R - 1, R - 2)[i % 5] for i in range(len(base_points))
    ]
    edwards_words = edwards_bases(gpu_device, CURVE, from_edwards_points(CURVE, base_points * 2))
    expected = msm_edwards(LAW, scalars, base_points * 2)
    assert edwards_msm(gpu_device, CURVE, edwards_words, scalar_words(scalars)) == expected


@pytest.mark.thorough
def test_the_published_msm(gpu_device: AnyDevice, shared_fixtures: Path) -> None:
    """128 points of ZPrize 2023."""
    published = json.loads((shared_fixtures / "msm" / "edwards_128.json").read_text())
    base_points = [(int(x, 16), int(y, 16)) for x, y in published["points"]]
    scalars = [int(scalar, 16) for scalar in published["scalars"]]
    x, y = published["expected"]
    result = edwards_msm(
        gpu_device, CURVE, from_edwards_points(CURVE, base_points), scalar_words(scalars)
    )
    assert result == (int(x, 16), int(y, 16))

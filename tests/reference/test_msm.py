"""The reference MSMs agree with each other and with the published results."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from quod.curve.named.bls12_377 import BLS12_377
from quod.curve.named.bn254 import BN254
from quod.curve.named.edwards_bls12 import EDWARDS_BLS12
from tests.reference.curve import edwards_of, g1_of, g2_of
from tests.reference.msm import msm, msm_edwards, msm_naive


def published(path: Path) -> tuple[list[int], list[tuple[int, int]], tuple[int, int]]:
    """Scalars, points and the expected sum of a file in fixtures/msm."""
    value: dict[str, Any] = json.loads(path.read_text())
    points = [(int(x, 16), int(y, 16)) for x, y in value["points"]]
    x, y = value["expected"]
    return [int(s, 16) for s in value["scalars"]], points, (int(x, 16), int(y, 16))


@pytest.mark.fixtures
def test_published_sum_on_bls12_377(shared_fixtures: Path) -> None:
    scalars, points, expected = published(shared_fixtures / "msm/bls12_377_128.json")
    group = g1_of(BLS12_377)
    assert len(points) == 128
    assert all(group.contains(point) for point in points)
    assert msm(group, scalars, points) == expected


@pytest.mark.thorough
@pytest.mark.fixtures
def test_published_sum_on_edwards_bls12(shared_fixtures: Path) -> None:
    scalars, points, expected = published(shared_fixtures / "msm/edwards_128.json")
    group = edwards_of(EDWARDS_BLS12)
    assert all(group.contains(point) for point in points)
    assert msm_edwards(group, scalars, points) == expected


@pytest.mark.parametrize("size", [0, 1, 2, 9])
def test_buckets_agree_with_the_definition(size: int) -> None:
    rng = random.Random(size)
    group, generator = g1_of(BN254), BN254.g1.generator
    points = [group.mul(rng.randrange(1, 999), generator) for _ in range(size)]
    scalars = [rng.choice([0, 1, BN254.fr.value - 1, rng.randrange(1 << 254)]) for _ in points]
    if size > 2:
        points[0], points[1], points[2] = None, points[2], group.neg(points[2])
    expected = msm_naive(group, scalars, points)
    assert msm(group, scalars, points) == expected
    assert (expected is None) == (size == 0)


def test_buckets_in_g2() -> None:
    group, generator = g2_of(BN254), BN254.g2.generator
    points = [generator, group.neg(generator), group.mul(3, generator)]
    assert msm(group, [300, 7, 2], points) == group.mul(299, generator)


def test_lengths_must_match() -> None:
    for function in (msm, msm_naive):
        with pytest.raises(ValueError, match="argument 2"):
            function(g1_of(BN254), [1, 2], [BN254.g1.generator])

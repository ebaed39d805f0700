"""MSMs over Edwards BLS12 against plain integers and a published result."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import pytest

from quod.curve.edwards.operations import from_edwards_points
from quod.curve.groups import GROUPS
from quod.curve.named.edwards_bls12 import EDWARDS_BLS12
from quod.device.cpu.device import CpuDevice
from quod.errors import InputError
from quod.msm import MsmBases, MsmOptions
from quod.msm.edwards import edwards_bases, edwards_msm
from tests.msm.inputs import bases, scalar_words
from tests.reference.curve import edwards_of
from tests.reference.msm import msm_edwards
from tests.support.thorough import one_and_others

CURVE = EDWARDS_BLS12
LAW = edwards_of(CURVE)
Q, R = CURVE.fq.value, CURVE.fr.value


@cache
def points(count: int) -> tuple[tuple[int, int], ...]:
    """Distinct points; every fifth has a component of order four, and so is not in the subgroup."""
    root = LAW.field.sqrt(Q - 1)
    assert root is not None
    points_so_far = [LAW.mul(0x1F2E3D4C5B6A, CURVE.generator)]
    for i in range(1, count):
        points_so_far.append(
            LAW.add(points_so_far[-1], (root, 0) if i % 5 == 0 else CURVE.generator)
        )
    return tuple(points_so_far)


def test_the_published_msm(device: CpuDevice, shared_fixtures: Path) -> None:
    """128 points of ZPrize 2023."""
    published = json.loads((shared_fixtures / "msm" / "edwards_128.json").read_text())
    base_points = [(int(x, 16), int(y, 16)) for x, y in published["points"]]
    scalars = [int(scalar, 16) for scalar in published["scalars"]]
    x, y = published["expected"]
    result = edwards_msm(
        device, CURVE, from_edwards_points(CURVE, base_points), scalar_words(scalars)
    )
    assert result == (int(x, 16), int(y, 16))


@pytest.mark.parametrize(
    ("count", "window_bits"),
    one_and_others(
        [(0, None), (1, None), (2, None), (17, None), (40, 2), (40, 16)],
        always=[(0, None), (1, None), (17, None), (40, 2)],
    ),
)
def test_points_in_and_outside_the_subgroup(
    device: CpuDevice, count: int, window_bits: int | None
) -> None:
    scalars = [(R - 1) // (i + 1) for i in range(count)]
    base_words = from_edwards_points(CURVE, points(count or 1)[:count])
    expected = msm_edwards(LAW, scalars, points(count or 1)[:count])
    options = MsmOptions(window_bits=window_bits)
    assert edwards_msm(device, CURVE, base_words, scalar_words(scalars), options) == expected


@pytest.mark.parametrize("scalar", one_and_others([R - 1, 1, 2]))
def test_low_order_equal_and_opposite_points(device: CpuDevice, scalar: int) -> None:
    root = LAW.field.sqrt(Q - 1)
    assert root is not None
    p = points(1)[0]
    low = [(0, 1), (0, Q - 1), (root, 0), (Q - root, 0)]
    base_points = [
        *low, p, p, LAW.neg(p), LAW.neg(p), (0, 1), p, (root, 0), (root, 0), (root, 0),
        LAW.add(p, (0, Q - 1)), (0, Q - 1), (0, Q - 1), p, p, p, p, LAW.add(p, (root, 0)),
    ]  # fmt: skip
    for length in range(1, len(base_points) + 1):
        scalars = [scalar] * length
        expected = msm_edwards(LAW, scalars, base_points[:length])
        base_words = from_edwards_points(CURVE, base_points[:length])
        assert edwards_msm(device, CURVE, base_words, scalar_words(scalars)) == expected, length


def test_resident_bases_with_multiples(device: CpuDevice) -> None:
    base_points = points(30)
    resident = edwards_bases(
        device, CURVE, from_edwards_points(CURVE, base_points), MsmOptions(precompute_factor=4)
    )
    for count in (30, 12):
        scalars = [(R - 1) // (3 * i + 1) for i in range(count)]
        expected = msm_edwards(LAW, scalars, base_points[:count])
        assert edwards_msm(device, CURVE, resident, scalar_words(scalars)) == expected


def test_invalid_arguments_are_rejected(device: CpuDevice) -> None:
    base_words = from_edwards_points(CURVE, points(2))
    with pytest.raises(
        InputError, match=r"scalar 1 is not below the order of edwards_bls12\.weierstrass"
    ):
        edwards_msm(device, CURVE, base_words, scalar_words([1, R]))
    group = GROUPS["bn254.g1"]
    other = MsmBases(device, group, bases(group, 2))
    with pytest.raises(InputError, match=r"the bases are of bn254\.g1, not of edwards_bls12"):
        edwards_msm(device, CURVE, other, scalar_words([1, 2]))
    with pytest.raises(InputError, match="points of edwards_bls12 are uint32 words"):
        edwards_msm(device, CURVE, bases(group, 2)[:, :, :4], scalar_words([1, 2]))

"""The vectors of EIP-2537 through the kernels: additions, MSMs, pairings and membership."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from quod.curve.array import from_points, to_points
from quod.curve.group import Group
from quod.curve.groups import GROUPS
from quod.curve.named.bls12_381 import BLS12_381
from quod.curve.pairing.products import pairing_product_is_one
from quod.curve.parameters import G1Point, G2Point
from quod.curve.weierstrass import operations
from quod.device.cpu.device import CpuDevice
from quod.msm import MsmOptions, msm
from tests.msm.inputs import scalar_words
from tests.reference.eip2537 import FAILURES, SUCCESSES, check_vectors, load_vectors

G1, G2 = GROUPS["bls12_381.g1"], GROUPS["bls12_381.g2"]


class DeviceGroups:
    """The groups by kernels; nothing is computed on the host."""

    def __init__(self, device: CpuDevice) -> None:
        self.device = device

    def _add(self, group: Group, left: Any, right: Any) -> Any:
        a, b = from_points(group, [left]), from_points(group, [right])
        return to_points(group, operations.add(self.device, group, a, b))[0]

    def _msm(self, group: Group, scalars: Sequence[int], points: Sequence[Any]) -> Any:
        # Any scalars below 2^256: those not below the order are reduced, as they may be in G1, G2.
        words = scalar_words([scalar % group.scalars.value for scalar in scalars])
        array = from_points(group, points)
        product_sum = msm(self.device, group, array, words)
        assert product_sum == msm(self.device, group, array, words, MsmOptions(window_bits=8))
        if len(points) > 1:
            return product_sum
        # The same by an elementwise product, which takes any scalar.
        product = operations.multiply(self.device, group, array, scalar_words(scalars))
        assert to_points(group, product) == [product_sum]
        return product_sum

    def add_g1(self, left: G1Point, right: G1Point) -> G1Point:
        return self._add(G1, left, right)

    def add_g2(self, left: G2Point, right: G2Point) -> G2Point:
        return self._add(G2, left, right)

    def msm_g1(self, scalars: Sequence[int], points: Sequence[G1Point]) -> G1Point:
        return self._msm(G1, scalars, points)

    def msm_g2(self, scalars: Sequence[int], points: Sequence[G2Point]) -> G2Point:
        return self._msm(G2, scalars, points)

    def pairing_check(self, pairs: Sequence[tuple[G1Point, G2Point]]) -> bool:
        return pairing_product_is_one(self.device, BLS12_381, pairs)


@pytest.mark.fixtures
@pytest.mark.parametrize(
    "file",
    [
        # The longest compilation of the curve's kernels.
        pytest.param(file, marks=pytest.mark.thorough) if file == "mul_G2_bls" else file
        for file in (*SUCCESSES, *FAILURES)
    ],
)
def test_the_published_vectors(device: CpuDevice, shared_fixtures: Path, file: str) -> None:
    if device.kind == "webgpu" and "pairing" in file:
        pytest.skip("there are no pairings through WebGPU (test_pairing)")
    vectors = load_vectors(shared_fixtures / "eip2537", file)
    assert vectors
    check_vectors(DeviceGroups(device), vectors)


def points_of(group: Group, data: bytes) -> list[Any]:
    """The points of an input of the multiplication precompile, not checked."""
    size = 128 * group.degree
    points: list[Any] = []
    for at in range(0, len(data), size + 32):
        flat = [
            int.from_bytes(data[start : start + 64], "big") for start in range(at, at + size, 64)
        ]
        if not any(flat):
            points.append(None)
        elif group.degree == 1:
            points.append((flat[0], flat[1]))
        else:
            points.append(((flat[0], flat[1]), (flat[2], flat[3])))
    return points


@pytest.mark.fixtures
def test_membership_of_the_published_points(device: CpuDevice, shared_fixtures: Path) -> None:
    folder = shared_fixtures / "eip2537"
    for group, file in ((G1, "mul_G1_bls"), (G2, "mul_G2_bls")):
        data = b"".join(vector.data for vector in load_vectors(folder, file))
        array = from_points(group, points_of(group, data))
        assert len(array) > 5
        assert (
            operations.first_bad_point(device, group, array, subgroup=True, infinity=True) is None
        )
    reasons = {
        "invalid point: not on curve": (0, "is not on the curve"),
        "g1 point is not in the correct subgroup": (0, "is not in the subgroup of prime order"),
    }
    met = set()
    for vector in load_vectors(folder, "fail-mul_G1_bls"):
        if vector.error in reasons:
            array = from_points(G1, points_of(G1, vector.data))
            bad_point = operations.first_bad_point(device, G1, array, subgroup=True, infinity=True)
            assert bad_point == reasons[vector.error], vector.name
            met.add(vector.error)
    assert met == set(reasons)

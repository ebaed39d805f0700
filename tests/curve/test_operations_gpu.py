"""Operations on arrays of points by a device with memory of its own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from quod.curve.array import from_points, to_points
from quod.curve.edwards import operations as edwards_operations
from quod.curve.groups import GROUPS
from quod.curve.named.edwards_bls12 import EDWARDS_BLS12
from quod.curve.weierstrass import operations
from quod.device.protocol import AnyDevice
from quod.field.array import from_integers, from_montgomery, to_integers, to_montgomery
from tests.curve.test_edwards_operations import samples as edwards_samples
from tests.curve.test_operations import law_of, samples, words
from tests.reference.curve import edwards_of
from tests.support.thorough import one_and_others

SOME = pytest.mark.parametrize("name", one_and_others(["bn254.g2", "bls12_377.g1"]))


@SOME
def test_points(gpu_device: AnyDevice, name: str) -> None:
    group, law = GROUPS[name], law_of(GROUPS[name])
    pairs = [(p, q) for p in samples(group) for q in samples(group)]
    left, right = (from_points(group, side) for side in zip(*pairs))
    sums = operations.add(gpu_device, group, left, right)
    assert to_points(group, sums) == [law.add(p, q) for p, q in pairs]
    array = from_points(group, samples(group))
    assert to_points(group, operations.negate(gpu_device, group, array)) == [
        law.neg(p) for p in samples(group)
    ]
    finite = operations.is_finite(gpu_device, group, array)
    assert finite.tolist() == [p is not None for p in samples(group)]
    assert operations.is_on_curve(gpu_device, group, array).all()
    array[-1, 0, 0] ^= 1
    assert operations.first_bad_point(gpu_device, group, array, subgroup=False, infinity=True) == (
        len(array) - 1, "is not on the curve",
    )  # fmt: skip


@pytest.mark.thorough
@pytest.mark.parametrize("name", one_and_others(["bn254.g1", "bls12_377.g1", "bn254.g2"]))
def test_base_multiples_and_sums(gpu_device: AnyDevice, name: str) -> None:
    """Seventy points take three rounds of sums."""
    group, law = GROUPS[name], law_of(GROUPS[name])
    scalars = [0, 1, 2, 3, 0xFFFF, 0x8000, 12345, 7]
    chosen = (samples(group) * 8)[1 : len(scalars) + 1]
    products = operations.multiply(gpu_device, group, from_points(group, chosen), words(scalars, 1))
    assert to_points(group, products) == [law.mul(k, p) for k, p in zip(scalars, chosen)]
    many = (samples(group) * 10)[:70]
    total: Any = None
    for point in many:
        total = law.add(total, point)
    products = operations.sum_points(gpu_device, group, from_points(group, many))
    assert to_points(group, products[None]) == [total]


@pytest.mark.thorough
def test_membership(gpu_device: AnyDevice) -> None:
    group = GROUPS["bls12_377.g1"]
    law = law_of(group)
    inside = operations.is_in_subgroup(gpu_device, group, from_points(group, samples(group)))
    assert inside.tolist() == [law.mul(group.scalars.value, p) is None for p in samples(group)]
    assert set(inside.tolist()) == {True, False}


@pytest.mark.thorough
def test_edwards(gpu_device: AnyDevice) -> None:
    curve, law = EDWARDS_BLS12, edwards_of(EDWARDS_BLS12)
    points = list(edwards_samples())[:6]
    array = edwards_operations.from_edwards_points(curve, points)
    scalars = [0, 1, 2, 3, 0xFFFFFFFF, 12345]
    products = edwards_operations.multiply(gpu_device, curve, array, words(scalars, 1))
    assert edwards_operations.to_edwards_points(curve, products) == [
        law.mul(k, p) for k, p in zip(scalars, points)
    ]


def test_montgomery_form(gpu_device: AnyDevice) -> None:
    modulus = GROUPS["bls12_381.g1"].coordinates
    numbers = [0, 1, modulus.value - 1, 12345]
    plain = np.frombuffer(b"".join(n.to_bytes(48, "little") for n in numbers), "<u4")
    plain_words = plain.astype(np.uint32).reshape(-1, 12)
    inside = to_montgomery(gpu_device, modulus, plain_words)
    assert np.array_equal(inside, from_integers(modulus, numbers))
    assert to_integers(modulus, inside) == numbers
    assert np.array_equal(from_montgomery(gpu_device, modulus, inside), plain_words)

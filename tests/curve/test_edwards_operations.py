"""Operations on arrays of points of Edwards BLS12, and its Weierstrass model."""

from __future__ import annotations

import random
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quod.curve.array import to_points
from quod.curve.edwards import operations as operations
from quod.curve.edwards.curve import EdwardsCurve
from quod.curve.edwards.point import EdwardsArithmetic
from quod.curve.edwards.weierstrass_model import model_of
from quod.curve.named.edwards_bls12 import EDWARDS_BLS12
from quod.device.cpu.device import CpuDevice
from quod.errors import InputError
from quod.kernel import TraceError
from quod.kernel.builder.builder import Builder
from tests.kernel.machines import EIGHT
from tests.reference.curve import ShortWeierstrass, edwards_of
from tests.reference.field import PrimeField

CURVE = EDWARDS_BLS12
LAW = edwards_of(CURVE)
MODEL = model_of(CURVE)
Q, R = CURVE.fq.value, CURVE.fr.value
WEIERSTRASS = ShortWeierstrass(PrimeField(Q), MODEL.parameters.a, MODEL.parameters.b)


@cache
def four_torsion() -> tuple[tuple[int, int], ...]:
    """The points of orders 1, 2 and 4: x^2 = -1 where y = 0."""
    root = LAW.field.sqrt(Q - 1)
    assert root is not None
    return (0, 1), (0, Q - 1), (root, 0), (Q - root, 0)


@cache
def samples() -> tuple[tuple[int, int], ...]:
    p = LAW.mul(0x1D5A9F7C3B2E4861, CURVE.generator)
    inside = [CURVE.generator, p, LAW.neg(p), LAW.add(p, p)]
    return (*four_torsion(), *inside, *(LAW.add(p, low) for low in four_torsion()[1:]))


def arrays(points: Any) -> Any:
    return operations.from_edwards_points(CURVE, points)


def test_samples() -> None:
    assert all(LAW.contains(point) for point in samples())
    assert len(set(samples())) == len(samples())


def test_addition_of_every_pair(device: CpuDevice) -> None:
    pairs = [(p, q) for p in samples() for q in samples()]
    left, right = (arrays(side) for side in zip(*pairs))
    sums = operations.add(device, CURVE, left, right)
    assert operations.to_edwards_points(CURVE, sums) == [LAW.add(p, q) for p, q in pairs]


def test_doubles_and_opposites(device: CpuDevice) -> None:
    doubled = operations.double(device, CURVE, arrays(samples()))
    assert np.array_equal(doubled, arrays([LAW.add(p, p) for p in samples()]))
    opposite = operations.negate(device, CURVE, arrays(samples()))
    assert np.array_equal(opposite, arrays([LAW.neg(p) for p in samples()]))


def test_base_multiples(device: CpuDevice) -> None:
    rng = random.Random(1)
    scalars = [0, 1, 2, 3, 4, 15, 16, R - 1, R, R + 1, (1 << 256) - 1, rng.randrange(R)]
    pairs = [(scalar, point) for scalar in scalars for point in samples()]
    words = np.array(
        [[scalar >> 32 * i & 0xFFFFFFFF for i in range(8)] for scalar, _ in pairs], np.uint32
    )
    products = operations.multiply(device, CURVE, arrays([p for _, p in pairs]), words)
    assert np.array_equal(products, arrays([LAW.mul(scalar, p) for scalar, p in pairs]))
    # One scalar for all, of another width.
    products = operations.multiply(device, CURVE, arrays(samples()), words[:1, :3] + np.uint32(5))
    factor = 5 + (5 << 32) + (5 << 64)
    assert np.array_equal(products, arrays([LAW.mul(factor, p) for p in samples()]))


def test_sums(device: CpuDevice) -> None:
    for count in (0, 1, 2, 3, 50):
        chosen = [samples()[(i * i + 3 * i) % len(samples())] for i in range(count)]
        total = LAW.neutral
        for point in chosen:
            total = LAW.add(total, point)
        sums = operations.sum_points(device, CURVE, arrays(chosen))
        assert np.array_equal(sums, arrays([total])[0]), count


def test_membership(device: CpuDevice) -> None:
    given_points = arrays(samples())
    assert operations.is_on_curve(device, CURVE, given_points).all()
    inside = [LAW.mul(R, point) == LAW.neutral for point in samples()]
    assert operations.is_in_subgroup(device, CURVE, given_points).tolist() == inside
    assert inside == [True, *[False] * 3, *[True] * 4, *[False] * 3]
    off = [(0, 0), (1, 1), (samples()[5][0], samples()[5][1] + 1)]
    assert not operations.is_on_curve(device, CURVE, arrays(off)).any()
    assert not operations.is_in_subgroup(device, CURVE, arrays(off)).any()
    # The neutral element with q added to a word: not canonical.
    raised = arrays([(0, 1)] * 2)
    raised[1, 0] = np.frombuffer(Q.to_bytes(32, "little"), "<u4")
    assert operations.is_on_curve(device, CURVE, raised).tolist() == [True, False]


def test_empty_arrays(device: CpuDevice) -> None:
    empty = arrays([])
    for operation in (operations.double, operations.negate):
        assert operation(device, CURVE, empty).shape == empty.shape
    assert operations.add(device, CURVE, empty, empty).shape == empty.shape
    assert operations.sum_points(device, CURVE, empty).tolist() == arrays([(0, 1)])[0].tolist()
    for test in (operations.is_on_curve, operations.is_in_subgroup):
        assert test(device, CURVE, empty).shape == (0,)


def test_invalid_arguments_are_rejected(device: CpuDevice) -> None:
    good = arrays(samples()[:2])
    for bad in (good.astype(np.uint64), good.reshape(2, -1), good[0]):
        with pytest.raises(InputError, match="points of edwards_bls12 are uint32 words of shape"):
            operations.double(device, CURVE, bad)
    with pytest.raises(InputError, match="2 points cannot be added to 1"):
        operations.add(device, CURVE, good, good[:1])
    with pytest.raises(InputError, match="2 points need as many scalars, not 3"):
        operations.multiply(device, CURVE, good, np.ones((3, 8), np.uint32))
    with pytest.raises(InputError, match=r"scalars are uint32 words of shape \(n, words\)"):
        operations.multiply(device, CURVE, good, np.ones((2, 8), np.uint64))


def test_incomplete_formulas_are_rejected() -> None:
    square = EdwardsCurve.unchecked(
        "square_d", CURVE.fq, CURVE.fr, -1, 4, CURVE.generator, CURVE.cofactor
    )
    with pytest.raises(TraceError, match="square_d"):
        EdwardsArithmetic(Builder(EIGHT), square)


# --- the Weierstrass model


def test_the_model_is_isomorphic_on_every_pair() -> None:
    images = {point: MODEL.from_edwards(point) for point in samples()}
    for point, image in images.items():
        assert WEIERSTRASS.contains(image)
        assert MODEL.to_edwards(image) == point
    for p, image in images.items():
        for q, other in images.items():
            assert MODEL.from_edwards(LAW.add(p, q)) == WEIERSTRASS.add(image, other)
    assert images[(0, 1)] is None
    assert images[CURVE.generator] == MODEL.parameters.generator


@given(st.integers(0, R - 1), st.integers(0, 3))
def test_the_model_of_any_point(scalar: int, torsion: int) -> None:
    point = LAW.add(LAW.mul(scalar, CURVE.generator), four_torsion()[torsion])
    image = MODEL.from_edwards(point)
    assert WEIERSTRASS.contains(image)
    assert MODEL.to_edwards(image) == point


def test_arrays_in_the_model(device: CpuDevice) -> None:
    """Special points at every index of the batch inversion."""
    images = {point: MODEL.from_edwards(point) for point in samples()}
    for count in (0, 1, 7, 2500):
        chosen = [samples()[i * 7 % len(samples())] for i in range(count)]
        images_of = operations.to_model(device, MODEL, arrays(chosen))
        assert to_points(MODEL, images_of) == [images[point] for point in chosen], count

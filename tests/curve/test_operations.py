"""Operations on arrays of points against plain integers."""

from __future__ import annotations

import random
from functools import cache
from typing import Any

import numpy as np
import py_arkworks_bls12381 as arkworks
import pytest

from quod.curve.array import Point, from_points, to_points
from quod.curve.groups import GROUPS, PairingGroup
from quod.curve.infinity import infinite_points
from quod.curve.weierstrass import operations
from quod.curve.weierstrass.affine import g1_group, g2_group, phi, psi
from quod.device.cpu.device import CpuDevice
from quod.errors import InputError
from quod.field.array import Words
from tests.reference.curve import ShortWeierstrass, g1_of, g2_of
from tests.support.thorough import one_and_others

IN_EVERY_RUN = [GROUPS[name] for name in ("bn254.g1", "bls12_381.g2")]
ALL = pytest.mark.parametrize("group", one_and_others(GROUPS.values(), IN_EVERY_RUN), ids=repr)
SOME = pytest.mark.parametrize(
    "group", one_and_others([*IN_EVERY_RUN, GROUPS["bls12_377.g1"]], IN_EVERY_RUN), ids=repr
)
"""Both numbers of words, both degrees of coordinates, and points of orders two and three."""


def law_of(group: PairingGroup) -> ShortWeierstrass[Any]:
    return g1_of(group.curve) if group.degree == 1 else g2_of(group.curve)


@cache
def lifted(group: PairingGroup, count: int) -> tuple[Point, ...]:
    """Points of the curve with small x; most are outside the subgroup where it is not all."""
    law = law_of(group)
    points: list[Point] = []
    x = 0
    while len(points) < count:
        point = law.lift_x(x if group.degree == 1 else (x, x // 3))
        if point is not None:
            points.append(point)
        x += 1
    return tuple(points)


@cache
def samples(group: PairingGroup) -> tuple[Point, ...]:
    """Infinity, points in and outside the subgroup, of orders two and three, and images under the
    endomorphism, which share coordinates up to sign."""
    law = law_of(group)
    generator = group.parameters.generator
    p = law.mul(0x123456789ABCDEF, generator)
    points = [None, generator, p, law.neg(p), law.add(p, p), *lifted(group, 3)]
    if group.degree == 1:
        image = phi(group.curve, p)
        points += [image, law.neg(image)]
    else:
        points += [psi(group.curve, p)]
    if group.name == "bls12_377.g1":
        points += [(group.coordinates.value - 1, 0), (0, 1), (0, group.coordinates.value - 1)]
    assert all(law.contains(point) for point in points)
    return tuple(points)


@ALL
def test_addition_of_every_pair(device: CpuDevice, group: PairingGroup) -> None:
    law = law_of(group)
    pairs = [(p, q) for p in samples(group) for q in samples(group)]
    left, right = (from_points(group, side) for side in zip(*pairs))
    sums = operations.add(device, group, left, right)
    assert to_points(group, sums) == [law.add(p, q) for p, q in pairs]


@SOME
def test_doubles_and_opposites(device: CpuDevice, group: PairingGroup) -> None:
    law = law_of(group)
    array = from_points(group, samples(group))
    doubled = operations.double(device, group, array)
    assert to_points(group, doubled) == [law.add(p, p) for p in samples(group)]
    opposite = operations.negate(device, group, array)
    assert to_points(group, opposite) == [law.neg(p) for p in samples(group)]
    assert not operations.add(device, group, array, opposite).any()
    # Canonical: the words are those of the integers below the modulus.
    assert np.array_equal(opposite, from_points(group, [law.neg(p) for p in samples(group)]))


def test_a_few_points_and_more(device: CpuDevice) -> None:
    """On both sides of the count up to which kernels have one lane."""
    group = GROUPS["bn254.g1"]
    law, few = law_of(group), 4 * device.multiprocessors
    for count in (few, few + 1):
        points = (samples(group) * -(-count // len(samples(group))))[:count]
        doubled = operations.double(device, group, from_points(group, points))
        assert to_points(group, doubled) == [law.add(p, p) for p in points]


def hostile_scalars(group: PairingGroup) -> list[int]:
    r = group.scalars.value
    rng = random.Random(group.name)
    return [0, 1, 2, 3, 15, 16, 17, 1 << 64, r - 1, r, r + 1, (1 << 256) - 1, rng.randrange(r)]


def words(scalars: list[int], count: int) -> np.ndarray[Any, Any]:
    data = b"".join(scalar.to_bytes(4 * count, "little") for scalar in scalars)
    return np.frombuffer(data, "<u4").reshape(-1, count)


@SOME
def test_base_multiples(device: CpuDevice, group: PairingGroup) -> None:
    """Each scalar with another point, the scalars not reduced."""
    law = law_of(group)
    scalars = hostile_scalars(group)
    chosen = (samples(group) * 2)[1 : len(scalars) + 1]
    products = operations.multiply(device, group, from_points(group, chosen), words(scalars, 8))
    assert to_points(group, products) == [law.mul(k, p) for k, p in zip(scalars, chosen)]


def test_scalars_of_any_width(device: CpuDevice) -> None:
    """The cofactor of BLS12-381 G2, of 508 bits, brings every point into the subgroup."""
    group = GROUPS["bls12_381.g2"]
    chosen = lifted(group, 9)
    cofactor = group.parameters.cofactor
    products = operations.multiply(device, group, from_points(group, chosen), words([cofactor], 17))
    assert to_points(group, products) == [law_of(group).mul(cofactor, p) for p in chosen]
    assert operations.is_in_subgroup(device, group, products).all()
    assert not operations.is_in_subgroup(device, group, from_points(group, chosen)).any()


@SOME
def test_sums(device: CpuDevice, group: PairingGroup) -> None:
    law = law_of(group)
    for count in (0, 1, 2, 9, 200):
        chosen = [samples(group)[(i * i + i) % len(samples(group))] for i in range(count)]
        expected = None
        for point in chosen:
            expected = law.add(expected, point)
        total = operations.sum_points(device, group, from_points(group, chosen))
        assert total.shape == group.shape
        assert to_points(group, total[None]) == [expected], count


@SOME
def test_many_points_use_batch_inversion(device: CpuDevice, group: PairingGroup) -> None:
    """More points than threads, with infinity at every index."""
    chosen = samples(group)
    law = law_of(group)
    table = [law.add(p, p) for p in chosen]
    count = 3001
    for stride in (1, 7):
        places = [i * stride % len(chosen) for i in range(count)]
        array = from_points(group, chosen)[places]
        doubled = operations.double(device, group, array)
        assert np.array_equal(doubled, from_points(group, table)[places])


def test_arkworks_agrees(device: CpuDevice) -> None:
    for name, theirs in (("bls12_381.g1", arkworks.G1Point), ("bls12_381.g2", arkworks.G2Point)):
        group = GROUPS[name]
        rng = random.Random(name)
        scalars = [rng.randrange(group.scalars.value) for _ in range(20)]
        generator = from_points(group, [group.parameters.generator])
        products = operations.multiply(
            device, group, np.repeat(generator, len(scalars), axis=0), words(scalars, 8)
        )
        size = 48 * group.degree
        for scalar, point in zip(scalars, to_points(group, products)):
            product = theirs() * arkworks.Scalar.from_le_bytes(scalar.to_bytes(32, "little"))
            raw = bytes(product.to_xy_bytes_be())
            flat = [int.from_bytes(raw[at : at + 48], "big") for at in range(0, 2 * size, 48)]
            if group.degree == 2:
                assert point == ((flat[0], flat[1]), (flat[2], flat[3]))
            else:
                assert point == (flat[0], flat[1])


# --- membership


@ALL
def test_membership(device: CpuDevice, group: PairingGroup) -> None:
    law = law_of(group)
    host = g1_group(group.curve) if group.degree == 1 else g2_group(group.curve)
    points = [*samples(group), *lifted(group, 12)]
    array = from_points(group, points)
    inside = [law.mul(group.scalars.value, point) is None for point in points]
    assert [host.in_subgroup(point) for point in points] == inside
    assert operations.is_on_curve(device, group, array).all()
    assert operations.is_in_subgroup(device, group, array).tolist() == inside
    whole_curve = group.parameters.cofactor == 1
    assert all(inside) == whole_curve
    assert inside[:5] == [True] * 5


@SOME
def test_points_off_the_curve(device: CpuDevice, group: PairingGroup) -> None:
    good = from_points(group, [group.parameters.generator] * 9)
    assert operations.first_bad_point(device, group, good, subgroup=True, infinity=True) is None
    flat = good.reshape(9, -1)
    assert flat.base is good or flat.base is good.base
    p = group.coordinates.value
    flat[3, 0] ^= 1  # x
    flat[5, -group.coordinates.words] ^= 2  # y
    flat[7] = 0
    flat[7, 0] = 1
    assert operations.is_on_curve(device, group, good).tolist() == [
        i not in (3, 5, 7) for i in range(9)
    ]  # fmt: skip
    expected = (3, "is not on the curve")
    assert operations.first_bad_point(device, group, good, subgroup=True, infinity=True) == expected
    # The same point with p added to a coordinate: not canonical.
    again = from_points(group, [group.parameters.generator] * 3)
    spare = (1 << 32 * group.coordinates.words) // p
    if spare > 1:
        data = again.reshape(3, -1, group.coordinates.words)
        raised = int.from_bytes(data[1, 0].tobytes(), "little") + p
        data[1, 0] = np.frombuffer(raised.to_bytes(group.coordinates.bytes, "little"), "<u4")
        assert operations.is_on_curve(device, group, again).tolist() == [True, False, True]
        assert not operations.is_in_subgroup(device, group, again)[1]


@SOME
@pytest.mark.parametrize("few", [0, 18])
def test_infinity(
    device: CpuDevice, group: PairingGroup, few: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(operations, "_FEW_POINTS", few)
    array = from_points(group, [group.parameters.generator, None] * 9)
    # One bit anywhere is enough, and the last point is infinity.
    flat = array.reshape(18, -1)
    flat[1, 0], flat[3, -1], flat[5, flat.shape[1] // 2] = 1, 1 << 31, 4
    expected = [True] * 7 + [False, True] * 5 + [False]
    assert operations.is_finite(device, group, array).tolist() == expected
    moved = np.frombuffer(b"\0" + array.tobytes(), np.uint32, offset=1).reshape(array.shape)
    assert operations.is_finite(device, group, moved).tolist() == expected
    assert operations.is_finite(device, group, array[:0]).tolist() == []


def test_infinity_is_rejected_unless_allowed(device: CpuDevice) -> None:
    group = GROUPS["bn254.g1"]
    generator = group.parameters.generator
    array = from_points(group, [generator, generator, None, generator, None])
    # A first word of 0 makes no point infinite.
    array.reshape(5, -1)[1, 0] = 0

    def bad(points: Words, *, infinity: bool) -> tuple[int, str] | None:
        return operations.first_bad_point(device, group, points, subgroup=False, infinity=infinity)

    assert infinite_points(array).tolist() == [2, 4]
    assert infinite_points(array[:0]).tolist() == []
    assert bad(array, infinity=False) == (1, "is not on the curve")
    assert bad(array[2:], infinity=True) is None
    assert bad(array[2:], infinity=False) == (0, "is the point at infinity")
    assert bad(array[3:], infinity=False) == (1, "is the point at infinity")


def test_a_point_outside_the_subgroup_is_named(device: CpuDevice) -> None:
    group = GROUPS["bls12_381.g1"]
    array = from_points(group, [group.parameters.generator, None, lifted(group, 1)[0]])
    bad_point = operations.first_bad_point(device, group, array, subgroup=True, infinity=True)
    assert bad_point == (2, "is not in the subgroup of prime order")
    assert operations.first_bad_point(device, group, array, subgroup=False, infinity=True) is None


# --- what is refused


def test_arrays_of_wrong_dtype_or_shape_are_rejected(device: CpuDevice) -> None:
    group = GROUPS["bn254.g1"]
    good = from_points(group, [group.parameters.generator] * 2)
    for bad in (good.astype(np.uint64), good.reshape(2, -1), good[0]):
        message = "points of bn254.g1 are uint32 words of shape"
        with pytest.raises(InputError, match=message):
            operations.double(device, group, bad)
        with pytest.raises(InputError, match=message):
            operations.add(device, group, good, bad)
        with pytest.raises(InputError, match=message):
            operations.is_on_curve(device, group, bad)
    with pytest.raises(InputError, match="2 points cannot be added to 1"):
        operations.add(device, group, good, good[:1])
    with pytest.raises(InputError, match="2 points need as many scalars, not 3"):
        operations.multiply(device, group, good, words([1, 2, 3], 8))
    with pytest.raises(InputError, match=r"scalars are uint32 words of shape \(n, words\)"):
        operations.multiply(device, group, good, words([1, 2], 8).astype(np.int64))


def test_empty_arrays(device: CpuDevice) -> None:
    for group in (GROUPS["bn254.g1"], GROUPS["bls12_381.g2"]):
        none = from_points(group, [])
        assert none.shape == (0, *group.shape)
        assert to_points(group, none) == []
        for empty in (
            operations.add(device, group, none, none),
            operations.double(device, group, none),
            operations.negate(device, group, none),
            operations.multiply(device, group, none, words([1], 8)),
        ):
            assert empty.shape == (0, *group.shape)
        assert operations.is_on_curve(device, group, none).shape == (0,)
        assert operations.first_bad_point(device, group, none, subgroup=True, infinity=True) is None


# --- conversions


@SOME
def test_conversions(group: PairingGroup) -> None:
    assert to_points(group, from_points(group, samples(group))) == list(samples(group))
    q = group.coordinates.value
    x, y = group.parameters.generator
    for shift in (q, -q):
        shifted = (x + shift, y) if group.degree == 1 else (x, (y[0], y[1] + shift))
        with pytest.raises(InputError, match="a coordinate of point 1 is negative or not below"):
            from_points(group, [(x, y), shifted])
    zero = (0, 0) if group.degree == 1 else ((0, 0), (0, 0))
    with pytest.raises(InputError, match=r"point 1 is \(0, 0\), which is not on"):
        from_points(group, [(x, y), zero])

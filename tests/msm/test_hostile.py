"""Scalars and bases that break incomplete addition formulas and careless bucket code."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from quod.curve.array import Point, from_points
from quod.curve.group import Group
from quod.curve.groups import GROUPS
from quod.curve.weierstrass.affine import phi
from quod.device.cpu.device import CpuDevice
from quod.errors import InputError
from quod.msm import MsmBases, MsmOptions, msm, msm_words
from tests.msm.inputs import (
    OTHER_GROUPS,
    bases,
    by_logarithms,
    logarithms,
    points,
    reference,
    scalar_words,
    uniform,
)
from tests.reference.msm import msm as msm_by_buckets

COUNT = 300

SCALARS: dict[str, Callable[[int], Sequence[int]]] = {
    "zero": lambda r: [0] * COUNT,
    "one": lambda r: [1] * COUNT,
    "the greatest": lambda r: [r - 1] * COUNT,
    "one that is not zero": lambda r: [0] * (COUNT - 1) + [r - 1],
    "all equal": lambda r: [r // 3] * COUNT,
    "zero and one": lambda r: [i * i % 7 % 2 for i in range(COUNT)],
    "bits and a few others": lambda r: [i % 2 if i % 50 else r // (i + 3) for i in range(COUNT)],
    "one giant bucket": lambda r: [5 if i % 20 else r - 5 - i for i in range(COUNT)],
    "opposite digits": lambda r: [5 if i % 2 else r - 5 for i in range(COUNT)],
    "powers of two": lambda r: [(1 << i % 256) % r for i in range(COUNT)],
}


def check_scalars(device: CpuDevice, group: Group, scalars: Sequence[int]) -> None:
    expected = by_logarithms(group, scalars, logarithms(COUNT))
    assert msm(device, group, bases(group, COUNT), scalar_words(scalars)) == expected


@pytest.mark.parametrize("kind", SCALARS)
def test_hostile_scalars(device: CpuDevice, kind: str) -> None:
    group = GROUPS["bn254.g1"]
    check_scalars(device, group, SCALARS[kind](group.scalars.value))


@pytest.mark.parametrize("name", OTHER_GROUPS)
def test_a_slice_of_every_kind_of_scalars(device: CpuDevice, name: str) -> None:
    group = GROUPS[name]
    size = COUNT // len(SCALARS)
    scalars: list[int] = []
    for kind in SCALARS.values():
        scalars += kind(group.scalars.value)[-size:]
    check_scalars(device, group, scalars)


def signs_and_logarithms(group: Group, kind: str) -> tuple[list[Point], list[int]]:
    """Bases of one kind, with their logarithms."""
    law = reference(group)
    base_points, logs = list(points(group, COUNT)), logarithms(COUNT)
    infinities: dict[str, Callable[[int], bool]] = {
        "infinity among them": lambda i: i % 4 == 1,
        "infinity first": lambda i: i < 20,
        "all infinity": lambda i: True,
    }
    for i in range(COUNT):
        if kind == "all equal":
            base_points[i], logs[i] = base_points[0], logs[0]
        elif kind == "pairs of opposites" and i % 2:
            base_points[i], logs[i] = law.neg(base_points[i - 1]), -logs[i - 1]
        elif kind == "two opposites" and i:
            sign = 1 if i % 3 == 0 else -1
            base_points[i], logs[i] = (
                (base_points[0] if sign == 1 else law.neg(base_points[0])),
                sign * logs[0],
            )
        elif infinities.get(kind, lambda _: False)(i):
            base_points[i], logs[i] = None, 0
    if kind == "multiples that meet":
        # P, 2P, -3P, 3P, ...: the sums of a bucket meet the points that are added to them.
        small = [sign * k for k in range(1, COUNT // 2 + 1) for sign in (1, -1)]
        multiples = [law.mul(1, group.parameters.generator)]
        while len(multiples) < COUNT // 2:
            multiples.append(law.add(multiples[-1], group.parameters.generator))
        small.sort(key=lambda k: (k * k + 7 * k) % 31)
        base_points = [
            multiples[abs(k) - 1] if k > 0 else law.neg(multiples[abs(k) - 1]) for k in small
        ]
        logs = small
    return base_points, logs


BASES = (
    "all equal", "pairs of opposites", "two opposites", "infinity among them", "infinity first",
    "all infinity", "multiples that meet",
)  # fmt: skip


def check_bases(
    device: CpuDevice, group: Group, base_points: Sequence[Point], logs: list[int]
) -> None:
    """Sum bases times equal scalars, and times uniform ones."""
    words = from_points(group, base_points)
    for scalars in (
        [group.scalars.value // 5] * len(base_points),
        uniform(group, len(base_points)),
    ):
        expected = by_logarithms(group, scalars, logs)
        assert msm(device, group, words, scalar_words(scalars)) == expected


@pytest.mark.parametrize("kind", BASES)
def test_hostile_bases(device: CpuDevice, kind: str) -> None:
    group = GROUPS["bn254.g1"]
    check_bases(device, group, *signs_and_logarithms(group, kind))


@pytest.mark.parametrize("name", OTHER_GROUPS)
def test_a_slice_of_every_kind_of_bases(device: CpuDevice, name: str) -> None:
    group = GROUPS[name]
    base_points: list[Point] = []
    logs: list[int] = []
    for kind in BASES:
        points_of_kind, logarithms_of_kind = signs_and_logarithms(group, kind)
        base_points += points_of_kind[:40]
        logs += logarithms_of_kind[:40]
    check_bases(device, group, base_points, logs)


def test_sums_that_pass_through_infinity(device: CpuDevice) -> None:
    """Few buckets, in which sums become infinity, take up again, double and cancel again."""
    group = GROUPS["bls12_381.g1"]
    law = reference(group)
    p, q = points(group, 2)
    twice = law.add(p, p)
    run = [p, law.neg(p), q, p, p, law.neg(twice), law.neg(q), None, law.neg(q), q, p, p, twice]
    terms = run * 30
    for scalar in (1, 2, 3, group.scalars.value - 1):
        scalars = [scalar] * len(terms)
        for length in (2, 3, 6, 7, 9, 10, len(run), len(terms)):
            expected = None
            for point in terms[:length]:
                expected = law.add(expected, point)
            expected = law.mul(scalar, expected)
            result = msm(
                device, group, from_points(group, terms[:length]), scalar_words(scalars[:length]),
                MsmOptions(window_bits=4),
            )  # fmt: skip
            assert result == expected, (scalar, length)


def odd_ones() -> tuple[list[Any], list[int]]:
    """Points outside the subgroup of BLS12-377's G1, of order 2 and 3 among them, and others."""
    group = GROUPS["bls12_377.g1"]
    law, p = reference(group), group.coordinates.value
    base_points: list[Any] = []
    x = 0
    while len(base_points) < 12:
        # x = 0 is a point of order three.
        lifted = law.lift_x(x)
        if lifted is not None:
            base_points += [lifted, law.neg(lifted), law.add(lifted, lifted)]
        x += 1
    two = (p - 1, 0)
    assert law.contains(two)
    assert law.add(two, two) is None
    base_points += [two, two, two, law.add(two, base_points[0])]
    base_points += points(group, 4)
    base_points += base_points[::3]
    scalars = uniform(group, len(base_points))
    scalars[: len(base_points) // 2] = [scalars[0]] * (len(base_points) // 2)
    return base_points, scalars


def test_points_outside_the_subgroup(device: CpuDevice) -> None:
    group = GROUPS["bls12_377.g1"]
    base_points, scalars = odd_ones()
    expected = msm_by_buckets(reference(group), scalars, base_points)
    for window_bits in (None, 2, 3, 8):
        options = MsmOptions(window_bits=window_bits)
        result = msm(device, group, from_points(group, base_points), scalar_words(scalars), options)
        assert result == expected, window_bits


def test_points_and_their_images_under_the_endomorphism(device: CpuDevice) -> None:
    """P and -phi(P) have opposite y and different x, P and phi(P) the same y."""
    group = GROUPS["bn254.g1"]
    law, eigenvalue = reference(group), group.curve.phi.eigenvalue
    base_points: list[Any] = []
    logs: list[int] = []
    for point, log in zip(points(group, 40), logarithms(40)):
        image = phi(group.curve, point)  # type: ignore[arg-type]
        again = phi(group.curve, image)
        base_points += [point, law.neg(image), image, law.neg(again), again]
        once, twice = log * eigenvalue, log * eigenvalue**2
        logs += [log, -once, once, -twice, twice]
    for scalars in (
        [1] * len(base_points),
        [12345] * len(base_points),
        uniform(group, len(base_points)),
    ):
        expected = by_logarithms(group, scalars, logs)
        assert (
            msm(device, group, from_points(group, base_points), scalar_words(scalars)) == expected
        )


# --- what is refused


def refused(device: CpuDevice, scalars: Any, base_words: Any = None, **options: Any) -> str:
    group = GROUPS["bn254.g1"]
    passed_bases = bases(group, 4) if base_words is None else base_words
    with pytest.raises(InputError) as caught:
        msm(device, group, passed_bases, scalars, MsmOptions(**options))
    return str(caught.value)


def test_unreduced_scalar_is_rejected(device: CpuDevice) -> None:
    order = GROUPS["bn254.g1"].scalars.value
    # Each word in turn decides; the last is the greatest that is allowed.
    for scalar in (order, order + 1, order + (1 << 64), order + (1 << 128), order + (1 << 192)):
        for place in range(4):
            scalars = [1, 2, order - 1, 4]
            scalars[place] = scalar
            message = refused(device, scalar_words(scalars))
            assert message == f"scalar {place} is not below the order of bn254.g1"
    assert "scalar 0" in refused(device, scalar_words([(1 << 256) - 1]))


def test_unreduced_scalar_at_an_infinite_base_is_rejected(device: CpuDevice) -> None:
    group = GROUPS["bn254.g1"]
    base_words = from_points(group, [None] * 4)
    assert "scalar 2" in refused(device, scalar_words([1, 2, group.scalars.value]), base_words)


@pytest.mark.parametrize("scalar_bits", [1, 31, 63, 64, 65, 253])
def test_scalar_wider_than_scalar_bits_is_rejected(device: CpuDevice, scalar_bits: int) -> None:
    for scalar in (1 << scalar_bits, (1 << scalar_bits) + 1, (1 << 256) - 1):
        for window_bits in (None, 3, 16):
            message = refused(
                device, scalar_words([1, 0, 1, scalar]), scalar_bits=scalar_bits,
                window_bits=window_bits,
            )  # fmt: skip
            assert message == f"scalar 3 is not below the promised 2**{scalar_bits}"


def test_arrays_of_wrong_dtype_or_shape_are_rejected(device: CpuDevice) -> None:
    good = scalar_words([1, 2, 3, 4])
    assert refused(device, good.astype(np.int32)) == (
        "scalars of bn254.g1 are uint32 words of shape (n, 8), or (m, n, 8) for m vectors of them, "
        "not int32 of (4, 8)"
    )
    assert refused(device, good.ravel()) == (
        "scalars of bn254.g1 are uint32 words of shape (n, 8), or (m, n, 8) for m vectors of them, "
        "not uint32 of (32,)"
    )
    assert refused(device, scalar_words([1] * 5)) == "5 scalars have only 4 bases"
    base_words = bases(GROUPS["bn254.g1"], 4)
    assert refused(device, good, base_words.astype(np.uint64)) == (
        "bases of bn254.g1 are uint32 words of shape (n, 2, 8), not uint64 of (4, 2, 8)"
    )
    assert refused(device, good, bases(GROUPS["bn254.g2"], 4)) == (
        "bases of bn254.g1 are uint32 words of shape (n, 2, 8), not uint32 of (4, 2, 2, 8)"
    )
    assert refused(device, good, bases(GROUPS["bls12_381.g1"], 4)) == (
        "bases of bn254.g1 are uint32 words of shape (n, 2, 8), not uint32 of (4, 2, 12)"
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"window_bits": 1}, "window_bits must be a whole number from 2 to 24, not 1"),
        ({"window_bits": 25}, "window_bits must be a whole number from 2 to 24, not 25"),
        ({"scalar_bits": 0}, "scalar_bits must be a whole number from 1 to 256, not 0"),
        ({"scalar_bits": 257}, "scalar_bits must be a whole number from 1 to 256, not 257"),
        ({"precompute_factor": 0}, "precompute_factor must be a whole number from 1 on, not 0"),
        ({"batch_size": 0}, "batch_size must be a whole number from 1 on, not 0"),
    ],
)
def test_options_out_of_range(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        MsmOptions(**options)


def test_empty_msm(device: CpuDevice) -> None:
    for group in GROUPS.values():
        none = MsmBases(device, group, bases(group, 4)[:0])
        result = msm_words(none, scalar_words([]))
        assert result.tolist() == [0] * group.point_words
        assert msm(device, group, none, scalar_words([])) is None
        assert msm(device, group, bases(group, 4), scalar_words([])) is None

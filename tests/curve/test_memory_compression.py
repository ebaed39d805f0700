"""Points in memory form without y: compressed on the host, completed in a kernel."""

from __future__ import annotations

import random

import numpy as np
import pytest

from quod.curve.array import Point, from_points
from quod.curve.encoding.memory_compression import (
    MAX_POINTS,
    compressed_words,
    decompress_words,
    is_compressible,
)
from quod.curve.encoding.points import decode_zcash_g1, decode_zcash_g2
from quod.curve.group import Group
from quod.curve.groups import GROUPS
from quod.curve.weierstrass.affine import affine_group
from quod.device.protocol import AnyDevice
from quod.errors import InputError

COMPRESSIBLE = ["bls12_381.g1", "bls12_381.g2", "bn254.g1", "bn254.g2"]


def points_of(group: Group, count: int) -> list[Point]:
    """Infinity, and multiples of the generator with their negatives."""
    law, draw = affine_group(group), random.Random(group.name)
    generator = group.parameters.generator
    points: list[Point] = [None]
    for _ in range(count):
        point = law.multiply(draw.getrandbits(250), generator)
        points += [point, law.negate(point)]
    return points


def roundtrip(device: AnyDevice, group: Group, points: list[Point]) -> None:
    words = from_points(group, points)
    halves = compressed_words(group, words)
    assert halves.nbytes * 2 == words.nbytes
    memory = device.allocate(words.nbytes, zero=False)
    decompress_words(device, group, halves, memory)
    result = np.zeros_like(words)
    device.download(memory, result)
    assert np.array_equal(result, words)


@pytest.mark.parametrize("name", COMPRESSIBLE)
def test_points_are_restored(device: AnyDevice, name: str) -> None:
    roundtrip(device, GROUPS[name], points_of(GROUPS[name], 20))


def test_points_of_several_launches() -> None:
    from quod.device.cpu.device import CpuDevice

    group = GROUPS["bls12_381.g1"]
    points = points_of(group, 8)
    roundtrip(CpuDevice(), group, (points * (1 + MAX_POINTS // len(points)))[: MAX_POINTS + 3])


@pytest.mark.parametrize("name", ["bls12_381.g1", "bls12_381.g2"])
def test_coordinates_that_are_special(device: AnyDevice, name: str) -> None:
    """x = 0, and over Fq2 roots and squares with a coefficient of 0; no subgroup is needed."""
    group = GROUPS[name]
    law, q = affine_group(group), group.coordinates.value
    encodings = [bytes([0x80 | sign]) + bytes(48 * group.degree - 1) for sign in (0, 0x20)]
    for x in range(1, 80):
        encodings.append(bytes([0x80]) + bytes(48 * group.degree - 2) + bytes([x]))
    points: list[Point] = []
    decode = decode_zcash_g1 if group.degree == 1 else decode_zcash_g2
    for encoding in encodings:
        try:
            points.append(decode(encoding, check_subgroup=False))
        except InputError:
            continue
    assert len(points) > 20
    assert all(law.contains(point) for point in points)
    if group.degree == 2:
        # Of x in Fq, y squared is x**3 + 4 + 4u; of x = a + bu it may be in Fq.
        points += real_squares(group, q)
    roundtrip(device, group, points)


def real_squares(group: Group, q: int) -> list[Point]:
    """Points whose y squared is in Fq: y has one coefficient, of the one kind or the other."""
    law, points = affine_group(group), []
    for b in range(1, 60):
        # The imaginary part of (a + bu)**3 + 4 + 4u is 3*a*a*b - b**3 + 4.
        square = (b**3 - 4) * pow(3 * b, -1, q) % q
        a = pow(square, (q + 1) // 4, q)
        if a * a % q != square:
            continue
        real = (a**3 - 3 * a * b * b + 4) % q
        root = pow(real, (q + 1) // 4, q)
        y = (root, 0) if root * root % q == real else (0, pow(-real, (q + 1) // 4, q))
        point = ((a, b), y)
        assert law.contains(point)
        points += [point, law.negate(point)]
    assert {point[1][0] == 0 for point in points} == {True, False}
    return points


def test_groups_without_quick_roots_are_refused() -> None:
    group = GROUPS["bls12_377.g1"]
    assert not is_compressible(group)
    assert {name for name in GROUPS if is_compressible(GROUPS[name])} >= {*COMPRESSIBLE}
    with pytest.raises(InputError, match=r"bls12_377\.g1 are not compressed"):
        compressed_words(group, from_points(group, points_of(group, 1)))

"""Sums of few points, against plain integers."""

from __future__ import annotations

import random

import numpy as np
import pytest

from quod.curve.groups import GROUPS
from quod.curve.sums.entries import SIGN_BIT
from quod.device.discovery import resolve_device
from quod.device.protocol import AnyDevice
from quod.field.array import integers_to_words
from quod.msm.fixed_base import multiply_generator
from quod.msm.host.sparse_sums import Coefficients, segment_sums, sparse_sums

RANDOM = random.Random(5)


def _points(name: str, numbers: list[int]) -> np.ndarray:
    group = GROUPS[name]
    scalars = integers_to_words(group.scalars, [number % group.scalars.value for number in numbers])
    return multiply_generator(resolve_device("cpu"), group, scalars)


def test_sums(device: AnyDevice) -> None:
    name = "bn254.g1"
    group = GROUPS[name]
    r = group.scalars.value
    count, owners_count = 240, 40
    numbers = [RANDOM.randrange(r) for _ in range(count)]
    numbers[5], numbers[7], numbers[9] = 0, numbers[6], -numbers[8]
    kinds = (1, 1, 1, r - 1, 0, 2, r - 2, 8, r - 8, 9, r // 2, r // 2 + 1, 1 << 77, r - (1 << 200))
    values = [RANDOM.choice((*kinds, RANDOM.randrange(r))) for _ in range(count)]
    # One owner with many, some with none, in no order.
    owners = [0] * 100 + [RANDOM.randrange(owners_count - 5) for _ in range(count - 100)]
    points = _points(name, numbers)
    for scalars in (values, [1] * count, [RANDOM.choice((1, r - 1)) for _ in range(count)]):
        coefficients = Coefficients.of(group.scalars, integers_to_words(group.scalars, scalars))
        sums = sparse_sums(device, group, points, np.array(owners), coefficients, owners_count)
        expected = [0] * owners_count
        for owner, number, value in zip(owners, numbers, scalars, strict=True):
            expected[owner] += number * value
        assert (sums == _points(name, expected)).all()


def test_sums_on_gpus(gpu_device: AnyDevice) -> None:
    group = GROUPS["bn254.g1"]
    values = [1, group.scalars.value - 1, 3, 1 << 30]
    coefficients = Coefficients.of(group.scalars, integers_to_words(group.scalars, values))
    owners = np.array([0, 1, 1, 1])
    sums = sparse_sums(
        gpu_device, group, _points("bn254.g1", [9, 7, 5, 2]), owners, coefficients, 2
    )
    assert (sums == _points("bn254.g1", [9, 15 - 7 + (2 << 30)])).all()


@pytest.mark.thorough
def test_long_segment_in_chunks(gpu_device: AnyDevice) -> None:
    """Pieces of pieces; the opposite of a point is as good as the point."""
    group = GROUPS["bn254.g1"]
    points = _points("bn254.g1", [1, 10])
    signs = [RANDOM.random() < 0.5 for _ in range(1100)]
    entries = np.array(
        [n % 2 | (SIGN_BIT if sign else 0) for n, sign in enumerate(signs)], np.uint32
    )
    starts, lengths = np.array([0, 1050, 1090]), np.array([1050, 40, 1])
    sums = segment_sums(gpu_device, group, points, entries, starts, lengths)
    weights = [(1, 10)[n % 2] * (-1 if sign else 1) for n, sign in enumerate(signs)]
    expected = [sum(weights[a : a + n]) for a, n in zip(starts, lengths, strict=True)]
    assert (sums == _points("bn254.g1", expected)).all()


def test_coefficients() -> None:
    """Signs and magnitudes are those of plain integers, whatever is taken of them."""
    fr = GROUPS["bls12_381.g1"].scalars
    r = fr.value
    values = [0, 1, r - 1, 2, r - 2, r // 2, r // 2 + 1, 1 << 64, r - (1 << 64), (1 << 192) - 1]
    coefficients = Coefficients.of(fr, integers_to_words(fr, values))
    order = np.array([9, 1, 0, 5, 6, 6, 2])
    taken = coefficients.gathered(order)
    joined = Coefficients.joined([taken.part(0, 3), taken.part(3, 7), coefficients.part(2, 2)])
    for actual, expected in (
        (coefficients, values), (taken, [values[place] for place in order]),
        (joined, [values[place] for place in order]),
    ):  # fmt: skip
        magnitudes = [1] * len(expected)
        for place, words in zip(actual.hard, actual.magnitudes, strict=True):
            magnitudes[place] = int.from_bytes(words.astype("<u4").tobytes(), "little")
        assert max(magnitudes) <= r // 2
        signed = [-m if sign else m for m, sign in zip(magnitudes, actual.negative, strict=True)]
        assert [number % r for number in signed] == expected

"""Scalars in parts along endomorphisms, against plain integers."""

from __future__ import annotations

import random

import pytest

from quod.curve.groups import GROUPS
from quod.curve.named import WEIERSTRASS
from quod.curve.scalar_parts import DIGIT_BITS, parts_of

NAMES = [f"{curve}.g{degree}" for curve in ("bn254", "bls12_381", "bls12_377") for degree in (1, 2)]


@pytest.mark.parametrize("name", NAMES)
def test_parts_and_digits_are_the_scalar(name: str) -> None:
    group = GROUPS[name]
    parts, order = parts_of(group), group.scalars.value
    curve = group.curve
    step = curve.phi.eigenvalue if group.degree == 1 else curve.psi_eigenvalue

    def joined(values: tuple[int, ...]) -> int:
        return sum(value * pow(step, at, order) for at, value in enumerate(values)) % order

    assert all(joined(row) == 0 for row in parts.basis)
    source = random.Random(1)
    scalars = [0, 1, 2, order - 1, order // 2, *(source.randrange(order) for _ in range(200))]
    table = parts.words(scalars).reshape(len(scalars), parts.count, parts.part_words)
    for scalar, row in zip(scalars, table, strict=True):
        split = parts.split(scalar)
        assert joined(split) == scalar
        for value, words in zip(split, row, strict=True):
            stored = int.from_bytes(words.tobytes(), "little")
            digits = [(stored >> DIGIT_BITS * at & 15) - 8 for at in range(parts.digits)]
            assert sum(digit << DIGIT_BITS * at for at, digit in enumerate(digits)) == value
    assert parts.digits * parts.count * DIGIT_BITS < group.scalars.bits + 12 * parts.count + 16


def test_a_group_without_a_known_endomorphism_has_one_part() -> None:
    group = next(iter(WEIERSTRASS.values()))
    parts = parts_of(group)
    assert parts.count == 1
    assert parts.split(12345) == (12345,)

"""Scalars in parts along endomorphisms, against plain integers."""

from __future__ import annotations

import random

import numpy as np
import pytest

from quod.curve.groups import GROUPS
from quod.curve.multiples.scalar_parts import DIGIT_BITS, ScalarDecomposition, scalar_decomposition
from quod.curve.multiples.scalar_splitting import split_scalar
from quod.curve.named import WEIERSTRASS
from quod.device.discovery import open_device
from quod.field.array import integers_to_words
from quod.kernel import U32, Builder, Pointer, kernel
from quod.kernel.ir import types


@kernel
def split_scalars(
    k: Builder, count: U32, scalars: Pointer[U32], out: Pointer[U32], *, parts: ScalarDecomposition
) -> None:
    i, words = k.global_id().cast(types.u64), -(-parts.order.bit_length() // 32)
    with k.if_(k.global_id() < count):
        split = split_scalar(k, parts, k.load(scalars, i * words, words))
        row = parts.count * parts.part_words
        k.store(out, i * row, *(word for part in split for word in part))


NAMES = [f"{curve}.g{degree}" for curve in ("bn254", "bls12_381", "bls12_377") for degree in (1, 2)]


@pytest.mark.parametrize("name", NAMES)
def test_parts_and_digits_are_the_scalar(name: str) -> None:
    group = GROUPS[name]
    parts, order = scalar_decomposition(group), group.scalars.value
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
    parts = scalar_decomposition(group)
    assert parts.count == 1
    assert parts.split(12345) == (12345,)


@pytest.mark.parametrize("name", ["bn254.g1", "bls12_381.g2", next(iter(WEIERSTRASS))])
def test_kernels_split_as_the_host_does(name: str) -> None:
    group = GROUPS[name] if name in GROUPS else WEIERSTRASS[name]
    parts, order = scalar_decomposition(group), group.scalars.value
    source = random.Random(2)
    scalars = [0, 1, 2, 3, 8, 16, order - 1, order - 2, order // 2, order // 2 + 1]
    scalars += [1 << at for at in range(order.bit_length() - 1)]
    scalars += [source.randrange(order) for _ in range(200)]
    scalar_array = integers_to_words(group.scalars, scalars)
    out = np.zeros((len(scalars), parts.count * parts.part_words), np.uint32)
    with open_device("cpu") as device:
        compiled = device.compile(split_scalars, parts=parts)
        device.launch(compiled, -(-len(scalars) // device.lanes), len(scalars), scalar_array, out)
    step = 0
    if name in GROUPS:
        curve = GROUPS[name].curve
        step = curve.phi.eigenvalue if GROUPS[name].degree == 1 else curve.psi_eigenvalue
    rows = out.reshape(len(scalars), parts.count, parts.part_words)
    for scalar, row in zip(scalars, rows, strict=True):
        values = [int.from_bytes(words.tobytes(), "little") - parts.offset for words in row]
        assert (
            sum(value * pow(step, at, order) for at, value in enumerate(values)) % order == scalar
        )
        # Ties may be rounded either way, but no part is longer than its digits.
        largest = parts.offset * 7 // 8
        assert all(-largest - 1 <= value <= largest for value in values)
    assert (out == parts.words(scalars)).all(axis=1).mean() > 0.95

"""Vectors over Goldilocks and its extension, against plain integers."""

from __future__ import annotations

import random

import numpy as np
import pytest

from quod.field.plain_element import PlainElement
from quod.inference.transformer.proof import vectors as v
from quod.sumcheck.eq_reference import equalities

_RANDOM = random.Random(5)
_EDGES = [0, 1, 2, v.P - 1, v.P - 2, 2**32 - 1, 2**32, 2**32 + 1, 2**63, v.P - 2**32]
_NUMBERS = _EDGES + [_RANDOM.randrange(v.P) for _ in range(60)]


def _vector(count: int, seed: int) -> v.Vector:
    numbers = random.Random(seed)
    return np.array([[numbers.choice(_NUMBERS) for _ in range(2)] for _ in range(count)], np.uint64)


def test_the_prime_field_is_exact() -> None:
    pairs = [(a, b) for a in _NUMBERS for b in _NUMBERS]
    a, b = (np.array(column, np.uint64) for column in zip(*pairs, strict=True))
    assert v.base_product(a, b).tolist() == [x * y % v.P for x, y in pairs]
    assert v.base_sum(a, b).tolist() == [(x + y) % v.P for x, y in pairs]
    assert v.base_difference(a, b).tolist() == [(x - y) % v.P for x, y in pairs]


def test_the_extension_is_that_of_plain_elements() -> None:
    a, b = _vector(200, 1), _vector(200, 2)
    expected = [
        (PlainElement(v.FIELD, v.plain(x)) * PlainElement(v.FIELD, v.plain(y))).coefficients
        for x, y in zip(a, b, strict=True)
    ]
    assert [v.plain(x) for x in v.multiply(a, b)] == expected
    sums = [sum(int(x) for x in a[:, index]) % v.P for index in range(2)]
    assert list(v.plain(v.total(a))) == sums
    assert [v.plain(x) for x in v.cumulative(a)][-1] == tuple(sums)


@pytest.mark.parametrize(("bits", "columns"), [(3, 1), (15, 700), (31, 1000), (47, 5)])
def test_folds_of_integers_are_exact(bits: int, columns: int) -> None:
    numbers = np.random.default_rng(bits).integers(-(1 << bits), 1 << bits, (3, columns))
    weights = _vector(columns, bits)
    folded = v.fold_columns(numbers, weights)
    for row, values in zip(folded, numbers.tolist(), strict=True):
        assert v.plain(row) == tuple(
            sum(n * int(w) for n, w in zip(values, weights[:, index], strict=True)) % v.P
            for index in range(2)
        )
    assert np.array_equal(v.fold_rows(numbers.T.copy(), weights), folded)


def test_eq_tables_are_those_of_the_verifier() -> None:
    point = [v.plain(x) for x in _vector(5, 9)]
    expected = [weight.coefficients for weight in equalities(v.FIELD, point)]
    assert [v.plain(x) for x in v.eq_table(point)] == expected
    corner = [(0, 0), (1, 0), (1, 0), (0, 0), (1, 0)]
    assert v.plain(v.eq_at(point, corner)) == expected[0b01101]


def test_scattered_weights_add_up() -> None:
    weights, indices = _vector(50, 4), np.random.default_rng(1).integers(0, 7, 50)
    sums = v.scatter(weights, indices, 9)
    for index in range(9):
        assert v.plain(sums[index]) == v.plain(v.total(weights[indices == index]))

"""The tables of the integer program against decimals of 50 digits."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pytest

from quod.inference.transformer.tables import Rotations, activation, exponentials
from tests.reference import transformer as plain


def test_exponentials_are_nearest_integers() -> None:
    table = exponentials()
    assert len(table) == 16384
    steps = [*range(200), *range(200, 16384, 37), 16383]
    assert table[steps].tolist() == [plain.exponential(z) for z in steps]
    assert table[-1] == 0
    assert (np.diff(table) <= 0).all()


@pytest.mark.parametrize(
    ("name", "bits", "result_bits"),
    [("silu", 11, 12), ("silu", 0, 0), ("silu", 15, 15), ("gelu", 12, 17), ("gelu", 8, 3)],
)
def test_activations_are_rounded_twice_as_stated(name: str, bits: int, result_bits: int) -> None:
    table = activation(name, bits, result_bits)
    inputs = [*range(-32768, 32768, 211), *range(-40, 41), 32767]
    expected = [plain.activation(name, i, bits, result_bits) for i in inputs]
    assert table[np.array(inputs) + 32768].tolist() == expected


@pytest.mark.parametrize("base", [10000.0, 500000.0])
def test_rotations_are_nearest_integers(base: float) -> None:
    rotations = Rotations(base, 8)
    table = rotations.table(40)
    for position in (0, 1, 7, 39):
        for pair in range(4):
            angle = position * (-Decimal(base).ln() * 2 * pair / 8).exp()
            assert tuple(table[position, pair].tolist()) == plain.circle(angle)
    # Growing a table keeps its entries.
    assert np.array_equal(rotations.table(60)[:40], table)
    far = Rotations(base, 8).table(5000)[4999]
    angles = 4999 * base ** (-np.arange(4) / 4)
    assert np.abs(far[:, 0] - 32768 * np.cos(angles)).max() <= 0.5 + 1e-6


def test_factors_divide_angles() -> None:
    slow = Rotations(10000.0, 4, [2.0, 4.0]).table(9)
    fast = Rotations(10000.0, 4).table(9)
    assert np.array_equal(slow[8, 0], fast[4, 0])
    assert np.array_equal(slow[8, 1], fast[2, 1])

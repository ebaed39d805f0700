"""NF4: the published levels, blocks of bitsandbytes, and the nearest level of each value."""

from __future__ import annotations

from collections.abc import Callable
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest

from quod.errors import InputError
from quod.tensor.quantised import (
    NF4_LEVELS,
    QuantisedMatrix,
    dequantise,
    nf4_blocks,
    quantise,
)
from tests.tensor.quantised.blocks import bits

PUBLISHED = [
    -1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635,
    -0.18477343022823334, -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725,
    0.24611230194568634, 0.33791524171829224, 0.44070982933044434, 0.5626170039176941,
    0.7229568362236023, 1.0,
]  # fmt: skip
"""The paper's, appendix E."""
THRESHOLDS = [
    -0.8480964004993439, -0.6106329262256622, -0.4599952697753906, -0.33967943489551544,
    -0.23460740596055984, -0.13791173323988914, -0.045525018125772476, 0.03979014977812767,
    0.1202552504837513, 0.2035212516784668, 0.2920137718319893, 0.3893125355243683,
    0.5016634166240692, 0.6427869200706482, 0.8614784181118011,
]  # fmt: skip
"""Those of bitsandbytes: above one, the next level is taken."""


def test_levels_are_the_published_ones() -> None:
    assert np.array_equal(bits(NF4_LEVELS), bits(np.array(PUBLISHED, np.float32)))
    # Quantiles of the normal distribution, nine at and above its middle, eight below.
    offset = 0.9677083
    above = [NormalDist().inv_cdf(p) for p in np.linspace(offset, 0.5, 9)[:-1]]
    below = [-NormalDist().inv_cdf(p) for p in np.linspace(offset, 0.5, 8)[:-1]]
    quantiles = np.sort([*above, 0, *below])
    assert np.allclose(NF4_LEVELS, quantiles / quantiles.max(), atol=1e-6)


def test_values_map_to_the_nearest_level() -> None:
    """At a threshold the lower level, at the next number the upper one."""
    at = np.array(THRESHOLDS, np.float32)
    values = np.zeros((2, 64), np.float32)
    values[:, :15], values[:, 63] = (at, np.nextafter(at, np.float32(2))), -1
    levels = dequantise("NF4", quantise("NF4", values))
    assert np.array_equal(levels[0, :15], NF4_LEVELS[:15])
    assert np.array_equal(levels[1, :15], NF4_LEVELS[1:])


@pytest.mark.parametrize("size", [2.0**-149, 1e-42, 2.0**-128, 2.0**-127])
def test_numbers_without_a_finite_inverse(size: float) -> None:
    values = np.zeros((1, 64), np.float32)
    values[0, :3] = size, -size, 0
    assert np.array_equal(dequantise("NF4", quantise("NF4", values)), values)


def test_quantised_values_are_near() -> None:
    random = np.random.default_rng(1)
    values = random.standard_normal((300, 256)) * 10.0 ** random.integers(-30, 30, (300, 1))
    x = values.astype(np.float32)
    x[7] = 0
    blocks = quantise("NF4", x)
    assert blocks.shape == (300, 4 * 36)
    dequantised = dequantise("NF4", blocks).reshape(-1, 64)
    largest = np.abs(x).reshape(-1, 64).max(axis=1, keepdims=True)
    # Half of the widest gap between levels.
    assert (np.abs(dequantised - x.reshape(-1, 64)) <= largest * 0.152).all()
    at = np.abs(x).reshape(-1, 64).argmax(axis=1)
    assert np.array_equal(dequantised[np.arange(1200), at], x.reshape(-1, 64)[np.arange(1200), at])
    # What has been quantised stays as it is.
    assert np.array_equal(quantise("NF4", dequantised.reshape(300, 256)), blocks)
    assert not dequantised.reshape(300, 256)[7].any()


def test_blocks_of_bitsandbytes() -> None:
    random = np.random.default_rng(2)
    packed = random.integers(0, 256, (5, 96), np.uint8)
    largest = random.uniform(0.1, 3, (5, 3)).astype(np.float32)
    blocks = nf4_blocks(packed, largest)
    expected = np.empty((5, 192), np.float32)
    for row in range(5):
        for column in range(192):
            byte = int(packed[row, column // 2])
            level = np.float32(PUBLISHED[byte >> 4 if column % 2 == 0 else byte & 15])
            expected[row, column] = level * largest[row, column // 64]
    assert np.array_equal(bits(dequantise("NF4", blocks)), bits(expected))
    assert np.array_equal(bits(QuantisedMatrix("cpu", "NF4", blocks).dequantise()), bits(expected))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda p, s: nf4_blocks(p[:, :31], s), "packed must be uint8 of shape"),
        (lambda p, s: nf4_blocks(p[0], s), "packed must be uint8 of shape"),
        (lambda p, s: nf4_blocks(p.astype(int), s), "not int64"),
        (lambda p, s: nf4_blocks(p, s[:1]), r"largest must be float32 of shape \(2, 1\)"),
        (lambda p, s: nf4_blocks(p, s.astype(float)), "largest must be float32"),
        (lambda p, s: quantise("NF4", np.zeros(32, np.float32)), "whole blocks of 64"),
        (lambda p, s: quantise("NF4", np.full(64, np.inf, np.float32)), "must be finite"),
    ],
)
def test_bad_input(call: Callable[..., Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        call(np.zeros((2, 32), np.uint8), np.zeros((2, 1), np.float32))

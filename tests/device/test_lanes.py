"""The lanes of kernels for few instances, and for fields of one word."""

from __future__ import annotations

from unittest.mock import Mock

import pytest

from quod.device.protocol import lanes_for, word_lanes


@pytest.mark.parametrize(
    ("lanes", "bits", "expected"),
    [(4, 64, 4), (4, 33, 4), (4, 32, 8), (4, 31, 8), (8, 64, 8), (1, 64, 8)],
)
def test_words_of_64_bits_fill_one_vector(lanes: int, bits: int, expected: int) -> None:
    assert word_lanes(Mock(lanes=lanes), bits) == expected


@pytest.mark.parametrize(("count", "expected"), [(8, 1), (9, 4)])
def test_few_instances_take_one_lane_each(count: int, expected: int) -> None:
    assert lanes_for(Mock(host_memory=True, threads=2, lanes=4), count) == expected
    assert lanes_for(Mock(host_memory=False, threads=2, lanes=4), count) == 4

"""The reference Montgomery product for every word size that a kernel uses."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quod.field.moduli import MODULI, Modulus
from tests.reference.montgomery import (
    array_words,
    join,
    product,
    product_by_words,
    reduce,
    split,
    words_array,
)

each_modulus = pytest.mark.parametrize("modulus", MODULI.values(), ids=lambda m: m.name)


@pytest.mark.crossed("modulus", "word_bits")
@each_modulus
@pytest.mark.parametrize("word_bits", [13, 32, 52, 64])
@given(data=st.data())
def test_word_reduction(modulus: Modulus, word_bits: int, data: st.DataObject) -> None:
    p = modulus.value
    words = -(-modulus.bits // word_bits)
    number = st.integers(0, p - 1) | st.sampled_from([0, 1, p - 1, p // 2])
    a, b = data.draw(number), data.draw(number)
    radix_bits = word_bits * words
    lazy = product_by_words(a, b, p, word_bits, words)
    assert lazy < 2 * p
    assert lazy % p == product(a, b, p, radix_bits)
    assert product(a, b, p, radix_bits) * (1 << radix_bits) % p == a * b % p
    assert reduce(a << radix_bits, p, radix_bits) == a


@each_modulus
def test_montgomery_form_matches_the_modulus(modulus: Modulus) -> None:
    bits = 32 * modulus.words
    stored = modulus.to_montgomery(12345)
    assert reduce(stored, modulus.value, bits) == 12345 == modulus.from_montgomery(stored)
    square = product(stored, stored, modulus.value, bits)
    assert modulus.from_montgomery(square) == 12345**2


@given(st.integers(0, (1 << 96) - 1), st.sampled_from([13, 32, 48]))
def test_split_and_join(value: int, word_bits: int) -> None:
    words = -(-96 // word_bits)
    parts = split(value, word_bits, words)
    assert len(parts) == words
    assert all(0 <= part < 1 << word_bits for part in parts)
    assert join(parts, word_bits) == value


def test_split_rejects_out_of_range_values() -> None:
    for value in (1 << 64, -1):
        with pytest.raises(ValueError, match="does not fit"):
            split(value, 32, 2)


def test_arrays() -> None:
    values = [0, 1, (1 << 256) - 1, 0x0123456789ABCDEF]
    array = words_array(values, 8)
    assert array.shape == (4, 8)
    assert array.dtype == np.uint32
    assert list(array[3][:2]) == [0x89ABCDEF, 0x01234567]
    assert array_words(array) == values
    assert words_array([], 8).shape == (0, 8)

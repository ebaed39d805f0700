"""The widths of remainders: equality modulo p must be equality of integers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quod.errors import InputError
from quod.inference.transformer.proof.rounding import LIMB_BITS, rounding


@given(
    st.lists(st.tuples(st.integers(0, 62), st.integers(0, 61)), min_size=1, max_size=4),
    st.integers(2, 33), st.booleans(),
)  # fmt: skip
def test_both_sides_of_the_equation_stay_below_2_63(
    groups: list[tuple[int, int]], result_bits: int, allow_narrow: bool
) -> None:
    shifts, sum_bits = zip(*groups, strict=True)
    bounds = [1 << bits for bits in sum_bits]
    try:
        r = rounding("values", shifts, bounds, result_bits, allow_narrow=allow_narrow)
    except InputError:
        return
    bits_of_results = 16 if r.is_narrow else result_bits
    assert allow_narrow or not r.is_narrow
    for s, width, bound in zip(shifts, r.bits, bounds, strict=True):
        assert s <= width <= LIMB_BITS * r.limbs
        assert width > LIMB_BITS * (r.limbs - 1)
        largest = (bound << (width - s)) + (1 << (width - 1))
        smallest_difference = (1 << (bits_of_results - 1 + width)) + (1 << width)
        assert largest + smallest_difference < 1 << 63


def test_sums_that_are_too_large_are_refused() -> None:
    with pytest.raises(InputError, match="rounding of values by up to 46 bits"):
        rounding("values", [46], [3 << 61], 18, allow_narrow=True)
    assert rounding("values", [46], [1 << 61], 18, allow_narrow=True).is_narrow
    with pytest.raises(InputError, match="could reach 2\\^63"):
        rounding("values", [46], [1 << 61], 18)

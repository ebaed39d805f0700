"""The Edwards form of BLS12-377 G1 is the same group."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quod.curve.edwards.bls12_377_form import bls12_377_g1_edwards
from quod.curve.named.bls12_377 import BLS12_377
from quod.curve.weierstrass.affine import phi
from tests.reference.curve import edwards_of

FORM = bls12_377_g1_edwards()
GROUP = FORM.group
EDWARDS = edwards_of(FORM.curve)
R = BLS12_377.fr.value
scalars = st.integers(0, R - 1) | st.sampled_from([0, 1, 2, R - 1])


def test_the_constant_is_that_of_arkworks() -> None:
    assert FORM.curve.d == int(
        "1222682835986755594884863391586355290969818869148771395795341535820336767853"
        "85790730042363341236035746924960903179"
    )
    assert FORM.curve.a == -1


@settings(max_examples=30)
@given(j=scalars, k=scalars)
def test_the_map_is_an_isomorphism_on_g1(j: int, k: int) -> None:
    p, q = GROUP.multiply(j, GROUP.generator), GROUP.multiply(k, GROUP.generator)
    image = FORM.to_edwards(p)
    assert EDWARDS.contains(image)
    assert FORM.from_edwards(image) == p
    assert EDWARDS.add(image, FORM.to_edwards(q)) == FORM.to_edwards(GROUP.add(p, q))
    assert FORM.to_edwards(GROUP.negate(p)) == EDWARDS.neg(image)


def test_the_addition_law_holds_where_projective_weierstrass_formulas_break() -> None:
    """P + P, P - P, and P with -phi(P), whose y are opposite though their x differ."""
    p = GROUP.multiply(987654321, GROUP.generator)
    for q in (p, GROUP.negate(p), None, phi(BLS12_377, p), GROUP.negate(phi(BLS12_377, p))):
        total = EDWARDS.add(FORM.to_edwards(p), FORM.to_edwards(q))
        assert total == FORM.to_edwards(GROUP.add(p, q))


def test_the_generator() -> None:
    assert FORM.curve.generator == FORM.to_edwards(GROUP.generator)
    assert EDWARDS.mul(R, FORM.curve.generator) == EDWARDS.neutral


def test_points_of_even_order_have_no_image() -> None:
    with pytest.raises(ValueError, match="even order"):
        FORM.to_edwards((BLS12_377.fq.value - 1, 0))
    with pytest.raises(ValueError, match="order two"):
        FORM.from_edwards((0, BLS12_377.fq.value - 1))
    # The exceptions exist because d is a square.
    assert EDWARDS.field.is_square(EDWARDS.d)

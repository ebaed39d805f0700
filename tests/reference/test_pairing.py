"""The reference pairing: bilinear, not degenerate, and py_ecc's values."""

from __future__ import annotations

from typing import Any

import pytest
from py_ecc import bls12_381 as ecc_bls12_381
from py_ecc import bn128 as ecc_bn254

from quod.curve.named import CURVES
from quod.curve.named.bls12_381 import BLS12_381
from quod.curve.named.bn254 import BN254
from quod.curve.parameters import PairingCurve
from tests.reference.curve import g1_of, g2_of
from tests.reference.field import fields_of
from tests.reference.pairing import (
    final_exponentiation,
    miller_loop,
    pairing,
    pairing_check,
    pairing_product,
)
from tests.reference.test_field import to_py_ecc
from tests.support.thorough import one_and_others

each_curve = pytest.mark.parametrize("curve", CURVES.values(), ids=lambda curve: curve.name)


@each_curve
def test_bilinear_and_not_degenerate(curve: PairingCurve) -> None:
    g1, g2, fq12 = g1_of(curve), g2_of(curve), fields_of(curve).fq12
    p, q, r = curve.g1.generator, curve.g2.generator, curve.fr.value
    value = pairing(curve, p, q)
    assert value != fq12.one
    assert fq12.pow(value, r) == fq12.one
    j, k = r // 5, r - 12345
    assert pairing(curve, g1.mul(j, p), g2.mul(k, q)) == fq12.pow(value, j * k % r)
    assert pairing(curve, g1.neg(p), q) == fq12.inv(value) == pairing(curve, p, g2.neg(q))


@each_curve
def test_infinity_pairs_to_one(curve: PairingCurve) -> None:
    one = fields_of(curve).fq12.one
    assert pairing(curve, None, curve.g2.generator) == one
    assert pairing(curve, curve.g1.generator, None) == one
    assert pairing_check(curve, [])
    assert not pairing_check(curve, [(curve.g1.generator, curve.g2.generator)])


@each_curve
def test_products(curve: PairingCurve) -> None:
    g1, g2, fq12 = g1_of(curve), g2_of(curve), fields_of(curve).fq12
    p, q = curve.g1.generator, curve.g2.generator
    pairs = [(g1.mul(6, p), q), (g1.neg(p), g2.mul(2, q)), (g1.mul(-4, p), q)]
    assert pairing_check(curve, pairs)
    pairs[0] = (g1.mul(7, p), q)
    assert pairing_product(curve, pairs) == pairing(curve, p, q)
    assert not pairing_check(curve, pairs)
    assert pairing_product(curve, pairs[:1]) == fq12.pow(pairing(curve, p, q), 7)


@pytest.mark.thorough
@each_curve
def test_final_exponent(curve: PairingCurve) -> None:
    """The decomposed exponentiation is the power (q^12 - 1)/r."""
    fq12, q = fields_of(curve).fq12, curve.fq.value
    value = miller_loop(curve, curve.g1.generator, curve.g2.generator)
    assert final_exponentiation(curve, value) == fq12.pow(value, (q**12 - 1) // curve.fr.value)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("curve", "ecc"),
    one_and_others([(BN254, ecc_bn254), (BLS12_381, ecc_bls12_381)]),
    ids=["bn254", "bls12_381"],
)
def test_values_of_py_ecc(curve: PairingCurve, ecc: Any) -> None:
    """On BLS12-381 py_ecc leaves out the inversion that the negative x asks for."""
    expected = [int(c) for c in ecc.pairing(ecc.G2, ecc.G1).coeffs]
    value = pairing(curve, curve.g1.generator, curve.g2.generator)
    if curve.x < 0:
        value = fields_of(curve).fq12.inv(value)
    assert to_py_ecc(curve, value) == expected


def test_points_of_small_order_are_refused() -> None:
    """A Miller loop that meets infinity has no answer: 13 is the first half-byte of x."""
    group = g2_of(BLS12_381)
    point = next(p for i in range(1, 50) if (p := group.lift_x((i, 1))) is not None)
    small = group.mul(BLS12_381.g2.cofactor // 169 * BLS12_381.fr.value, point)
    assert small is not None
    assert group.mul(13, small) is None
    with pytest.raises(ValueError, match="not in G2"):
        miller_loop(BLS12_381, BLS12_381.g1.generator, small)

"""The reference groups: laws, all special cases, and agreement with py_ecc."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from py_ecc import bls12_381 as ecc_bls12_381
from py_ecc import bn128 as ecc_bn254

from quod.curve.named import CURVES
from quod.curve.named.bls12_381 import BLS12_381
from quod.curve.named.bn254 import BN254
from quod.curve.named.edwards_bls12 import EDWARDS_BLS12
from quod.curve.parameters import PairingCurve
from tests.reference.curve import ShortWeierstrass, edwards_of, g1_of, g2_of
from tests.reference.field import PrimeField

each_curve = pytest.mark.parametrize("curve", CURVES.values(), ids=lambda curve: curve.name)
each_group = pytest.mark.parametrize("which", ["g1", "g2"])


def group_and_generator(curve: PairingCurve, which: str) -> tuple[ShortWeierstrass[Any], Any]:
    if which == "g1":
        return g1_of(curve), curve.g1.generator
    return g2_of(curve), curve.g2.generator


def test_a_small_curve_completely() -> None:
    """y^2 = x^3 + 2x + 3 over F_97: closure, associativity and inverses over all points."""
    group = ShortWeierstrass(PrimeField(97), 2, 3)
    finite = [(x, y) for x in range(97) for y in range(97) if group.contains((x, y))]
    points: list[tuple[int, int] | None] = [None, *finite]
    assert len(points) == 100
    for p in points:
        assert group.add(p, group.neg(p)) is None
        assert group.add(p, None) == p == group.add(None, p)
        assert group.mul(100, p) is None
    for p in points[::7]:
        for q in points[::5]:
            assert group.contains(group.add(p, q))
            assert group.add(p, q) == group.add(q, p)
            for s in points[::11]:
                assert group.add(group.add(p, q), s) == group.add(p, group.add(q, s))


@each_curve
@each_group
@given(j=st.integers(-3, 40), k=st.integers(-3, 40))
def test_multiplication_is_a_homomorphism(curve: PairingCurve, which: str, j: int, k: int) -> None:
    group, generator = group_and_generator(curve, which)
    left, right = group.mul(j, generator), group.mul(k, generator)
    assert group.add(left, right) == group.mul(j + k, generator)
    assert group.contains(left)
    assert group.mul(-j, generator) == group.neg(left)
    assert group.mul(j, None) is None


@pytest.mark.parametrize(
    ("curve", "ecc"), [(BN254, ecc_bn254), (BLS12_381, ecc_bls12_381)], ids=["bn254", "bls12_381"]
)
def test_base_multiples_agree_with_py_ecc(curve: PairingCurve, ecc: Any) -> None:
    scalar = curve.fr.value // 3
    x, y = ecc.multiply(ecc.G1, scalar)
    assert g1_of(curve).mul(scalar, curve.g1.generator) == (int(x), int(y))
    x, y = ecc.multiply(ecc.G2, scalar)
    expected = (tuple(int(c) for c in x.coeffs), tuple(int(c) for c in y.coeffs))
    assert g2_of(curve).mul(scalar, curve.g2.generator) == expected


@each_curve
@each_group
def test_points_off_the_curve_are_not_contained(curve: PairingCurve, which: str) -> None:
    group, (x, y) = group_and_generator(curve, which)
    assert group.contains(None)
    assert group.contains((x, group.field.neg(y)))
    assert not group.contains((x, group.field.add(y, group.field.one)))
    assert not group.contains((group.field.add(x, group.field.one), y))


@given(j=st.integers(-20, 20), k=st.integers(-20, 20))
def test_edwards_multiplication_is_a_homomorphism(j: int, k: int) -> None:
    group, generator = edwards_of(EDWARDS_BLS12), EDWARDS_BLS12.generator
    left, right = group.mul(j, generator), group.mul(k, generator)
    assert group.add(left, right) == group.mul(j + k, generator)
    assert group.contains(left)
    assert group.add(left, group.neg(left)) == group.neutral


def test_edwards_points_of_small_order() -> None:
    group = edwards_of(EDWARDS_BLS12)
    p = group.field.p
    order_two = (0, p - 1)
    root = group.field.sqrt(group.field.neg(1))  # a*x^2 = 1, y = 0
    assert root is not None
    order_four = (root, 0)
    for point in (order_two, order_four):
        assert group.contains(point)
        assert group.mul(4, point) == group.neutral
    assert group.add(order_two, order_two) == group.neutral
    assert group.mul(2, order_four) == order_two
    shifted = group.add(EDWARDS_BLS12.generator, order_two)
    assert group.mul(EDWARDS_BLS12.fr.value, shifted) == order_two
    assert not group.contains((1, 1))

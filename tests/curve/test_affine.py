"""Single points and their coordinates against the reference models."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quod.curve.affine_law import AffineGroup
from quod.curve.coordinates import Coordinates, FqCoordinates, fq2_of, fq_of
from quod.curve.named import CURVES
from quod.curve.named.bls12_377 import BLS12_377
from quod.curve.named.bls12_381 import BLS12_381
from quod.curve.named.bn254 import BN254
from quod.curve.parameters import PairingCurve
from quod.curve.weierstrass.affine import g1_group, g2_group, phi, psi
from tests.reference import pairing as reference_pairing
from tests.reference.curve import ShortWeierstrass, g1_of, g2_of
from tests.reference.field import Field, fields_of
from tests.support.thorough import one_and_others

each_curve = pytest.mark.parametrize(
    "curve", one_and_others(CURVES.values(), [BN254]), ids=lambda curve: curve.name
)
each_degree = pytest.mark.parametrize("degree", [1, 2])


def models(
    curve: PairingCurve, degree: int
) -> tuple[AffineGroup[Any], ShortWeierstrass[Any], Coordinates[Any], Field[Any]]:
    """The group and its reference, the coordinates and theirs."""
    if degree == 1:
        return g1_group(curve), g1_of(curve), fq_of(curve), fields_of(curve).fq
    return g2_group(curve), g2_of(curve), fq2_of(curve), fields_of(curve).fq2


def elements(curve: PairingCurve, degree: int) -> st.SearchStrategy[Any]:
    p = curve.fq.value
    number = st.integers(0, p - 1) | st.sampled_from([0, 1, 2, p - 1, (p - 1) // 2, (p + 1) // 2])
    return number if degree == 1 else st.tuples(number, number)


@each_curve
@each_degree
@settings(max_examples=40)
@given(data=st.data())
def test_coordinates(curve: PairingCurve, degree: int, data: st.DataObject) -> None:
    _, _, ours, reference = models(curve, degree)
    a, b = data.draw(elements(curve, degree)), data.draw(elements(curve, degree))
    assert ours.degree == degree
    assert ours.add(a, b) == reference.add(a, b)
    assert ours.subtract(a, b) == reference.sub(a, b)
    assert ours.multiply(a, b) == reference.mul(a, b)
    assert ours.square(a) == reference.square(a)
    assert ours.negate(a) == reference.neg(a)
    assert ours.scale(a, 3) == reference.mul(a, reference.embed(3))
    assert ours.from_coefficients(ours.coefficients(a)) == a
    if a == reference.zero:
        with pytest.raises(ValueError):
            ours.invert(a)
    else:
        assert ours.invert(a) == reference.inv(a)
        assert ours.is_larger(a) != ours.is_larger(ours.negate(a))
        assert ours.is_odd(a) != ours.is_odd(ours.negate(a))
    for value in (a, ours.square(b)):
        root = ours.square_root(value)
        assert (root is not None) == reference.is_square(value)
        assert root is None or reference.square(root) == value


@each_curve
def test_square_roots_of_the_base_field(curve: PairingCurve) -> None:
    """Every element of Fq is a square in Fq2, 0 and -1 among them."""
    field = fq2_of(curve)
    for value in (0, 1, 2, 3, 5, curve.fq.value - 1, curve.fq.value - 5):
        root = field.square_root((value, 0))
        assert root is not None
        assert field.square(root) == (value, 0)


@pytest.mark.parametrize("p", [3, 5, 13, 17, 97, 257, 769, 65537, 2013265921, 2**64 - 2**32 + 1])
def test_square_roots_modulo_small_primes(p: int) -> None:
    """Powers of two from 2 to 2**32 in p - 1: digits of roots of unity in all numbers and sizes."""
    field = FqCoordinates(p)
    for value in (*range(min(p, 300)), *range(max(0, p - 300), p)):
        root = field.square_root(value)
        assert (root is not None) == field.is_square(value)
        assert root is None or root * root % p == value


def test_order_of_elements() -> None:
    fq, fq2 = fq_of(BLS12_381), fq2_of(BLS12_381)
    p = fq.p
    assert not fq.is_larger(0)
    assert not fq.is_larger((p - 1) // 2)
    assert fq.is_larger((p + 1) // 2)
    assert fq2.is_larger((1, p - 1))
    assert not fq2.is_larger((p - 1, 1))
    assert fq2.is_larger((p - 1, 0))
    assert not fq2.is_larger((0, 0))
    assert fq2.is_odd((0, 1))
    assert not fq2.is_odd((2, 1))
    assert fq2.is_odd((1, 0))
    assert not fq2.is_odd((0, 0))


@each_curve
@each_degree
@settings(max_examples=20)
@given(j=st.integers(-30, 30), k=st.integers(-30, 30))
def test_group_law(curve: PairingCurve, degree: int, j: int, k: int) -> None:
    ours, reference, _, _ = models(curve, degree)
    left, right = reference.mul(j, ours.generator), reference.mul(k, ours.generator)
    assert ours.multiply(j, ours.generator) == left
    assert ours.add(left, right) == reference.add(left, right)
    assert ours.negate(left) == reference.neg(left)
    assert ours.contains(left)
    assert ours.in_subgroup(left)


@each_curve
@each_degree
def test_base_multiples(curve: PairingCurve, degree: int) -> None:
    ours, reference, _, _ = models(curve, degree)
    for scalar in (0, 1, 2, 3, -1, 2**300 + 5):
        assert ours.multiply(scalar, ours.generator) == reference.mul(scalar, ours.generator)
        assert ours.multiply(scalar, None) is None
        assert ours.multiply(scalar * ours.order, ours.generator) is None
    assert ours.multiply(ours.order + 1, ours.generator) == ours.generator


def test_points_of_small_order() -> None:
    """Doubling and adding meet infinity and equal points on the way."""
    ours, reference = g1_group(BLS12_377), g1_of(BLS12_377)
    two = (BLS12_377.fq.value - 1, 0)
    three = (0, 1)
    six = ours.add(two, three)
    for point, order in ((two, 2), (three, 3), (six, 6)):
        for scalar in range(-3, 14):
            assert ours.multiply(scalar, point) == reference.mul(scalar, point)
            assert ours.add(point, ours.multiply(scalar, point)) == reference.mul(scalar + 1, point)
        assert ours.multiply(order, point) is None
        assert not ours.in_subgroup(point)
        shifted = ours.add(point, ours.generator)
        assert ours.contains(shifted)
        assert not ours.in_subgroup(shifted)


@pytest.mark.parametrize(
    ("curve", "degree"),
    one_and_others(
        [(curve, degree) for curve in CURVES.values() for degree in (1, 2)],
        [(BN254, 2), (BLS12_381, 1)],
    ),
    ids=lambda part: getattr(part, "name", part),
)
def test_membership(curve: PairingCurve, degree: int) -> None:
    """The endomorphism test says what multiplication by r says."""
    ours, reference, _, field = models(curve, degree)
    assert ours.in_subgroup(None)
    inside = []
    for i in range(1, 20):
        point = reference.lift_x(field.embed(i) if degree == 1 else (i, 1))
        for candidate in (point, reference.mul(ours.cofactor, point)):
            expected = reference.mul(ours.order, candidate) is None
            assert ours.in_subgroup(candidate) == expected
            inside.append(expected)
    assert any(inside)
    assert not all(inside) or ours.cofactor == 1


@each_curve
@each_degree
def test_points_off_the_curve_are_rejected(curve: PairingCurve, degree: int) -> None:
    ours, _, field, _ = models(curve, degree)
    x, y = ours.generator
    assert not ours.contains((x, field.add(y, field.one)))
    assert not ours.contains((field.zero, field.zero))


@each_curve
def test_endomorphisms(curve: PairingCurve) -> None:
    g1, g2 = g1_group(curve), g2_group(curve)
    assert phi(curve, None) is None
    assert psi(curve, None) is None
    p, q = g1.multiply(77, g1.generator), g2.multiply(77, g2.generator)
    assert phi(curve, p) == g1.multiply(curve.phi.eigenvalue, p)
    assert psi(curve, q) == g2.multiply(curve.psi_eigenvalue, q)
    assert psi(curve, q) == reference_pairing.psi(curve, q)

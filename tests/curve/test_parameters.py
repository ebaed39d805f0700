"""Every constant of the named curves follows from, or satisfies, what defines it."""

from __future__ import annotations

import math

import pytest
from py_ecc import bls12_381 as ecc_bls12_381
from py_ecc import bn128 as ecc_bn254

from quod.curve.named import CURVES
from quod.curve.named.bls12_377 import BLS12_377
from quod.curve.named.bls12_381 import BLS12_381
from quod.curve.named.bn254 import BN254
from quod.curve.named.edwards_bls12 import EDWARDS_BLS12
from quod.curve.parameters import Family, PairingCurve, Twist
from tests.reference.curve import edwards_of, g1_of, g2_of
from tests.reference.field import PrimeField, fields_of
from tests.reference.pairing import frobenius, psi
from tests.support.thorough import one_and_others

each_curve = pytest.mark.parametrize("curve", CURVES.values(), ids=lambda curve: curve.name)


@each_curve
def test_moduli_are_the_polynomials_of_the_family(curve: PairingCurve) -> None:
    x = curve.x
    if curve.family is Family.BN:
        assert curve.fq.value == 36 * x**4 + 36 * x**3 + 24 * x**2 + 6 * x + 1
        assert curve.fr.value == 36 * x**4 + 36 * x**3 + 18 * x**2 + 6 * x + 1
    else:
        assert curve.fr.value == x**4 - x**2 + 1
        assert 3 * (curve.fq.value - x) == (x - 1) ** 2 * curve.fr.value


@each_curve
def test_trace_and_cofactors_give_the_orders(curve: PairingCurve) -> None:
    q, r, t = curve.fq.value, curve.fr.value, curve.trace
    assert abs(t) <= 2 * math.isqrt(q) + 1
    assert q + 1 - t == curve.g1.cofactor * r
    # Hasse over Fq2, and a multiple of #E'(Fq2) that kills points outside the subgroup too.
    assert abs(q * q + 1 - curve.g2.cofactor * r) <= 2 * q
    group = g2_of(curve)
    fq2 = fields_of(curve).fq2
    points = [p for i in range(1, 12) if (p := group.lift_x((i, 1))) is not None]
    assert len(points) >= 2
    for point in points[:2]:
        assert group.mul(curve.g2.cofactor * r, point) is None
        assert group.mul(r, point) is not None
    assert all(fq2.square(y) == group.right_side(x) for x, y in points)


@each_curve
def test_generators_have_order_r(curve: PairingCurve) -> None:
    r = curve.fr.value
    g1, g2 = g1_of(curve), g2_of(curve)
    assert g1.contains(curve.g1.generator)
    assert g1.mul(r, curve.g1.generator) is None
    assert g2.contains(curve.g2.generator)
    assert g2.mul(r, curve.g2.generator) is None


def test_generators_match_py_ecc() -> None:
    for curve, other in ((BN254, ecc_bn254), (BLS12_381, ecc_bls12_381)):
        assert curve.g1.generator == tuple(int(c) for c in other.G1)
        assert curve.g2.generator == tuple(tuple(int(c) for c in x.coeffs) for x in other.G2)
        assert curve.fq.value == other.field_modulus
        assert curve.fr.value == other.curve_order
        assert curve.g1.b == int(other.b)
        assert curve.g2.b == tuple(int(c) for c in other.b2.coeffs)


@each_curve
def test_tower_is_a_tower_of_fields(curve: PairingCurve) -> None:
    fields = fields_of(curve)
    assert not fields.fq.is_square(fields.fq.embed(curve.tower.fq2_non_residue))
    xi = curve.tower.fq6_non_residue
    assert not fields.fq2.is_square(xi)
    assert fields.fq2.pow(xi, (fields.fq2.order - 1) // 3) != fields.fq2.one


@each_curve
def test_twist_kind_matches_its_name(curve: PairingCurve) -> None:
    fq2 = fields_of(curve).fq2
    b, xi = fq2.embed(curve.g1.b), curve.tower.fq6_non_residue
    expected = fq2.div(b, xi) if curve.twist is Twist.D else fq2.mul(b, xi)
    assert curve.g2.b == expected


@pytest.mark.parametrize("curve", one_and_others(CURVES.values()), ids=lambda curve: curve.name)
def test_frobenius_coefficients(curve: PairingCurve) -> None:
    fq12 = fields_of(curve).fq12
    a = fq12.from_powers_of_w([(3, 1), (4, 1), (5, 9), (2, 6), (5, 3), (5, 8)])
    image = a
    for power in range(14):
        assert frobenius(curve, a, power) == image
        image = fq12.pow(image, curve.fq.value)


@each_curve
def test_tower_arithmetic_agrees_with_the_reference(curve: PairingCurve) -> None:
    tower, fq2 = curve.tower, fields_of(curve).fq2
    a, b = (curve.fq.value - 2, 5), (7, curve.fq.value - 11)
    assert tower.multiply(a, b) == fq2.mul(a, b)
    assert tower.multiply(a, tower.invert(a)) == (1, 0)
    assert tower.power(a, 1000) == fq2.pow(a, 1000)
    assert tower.power(a, 0) == (1, 0)
    with pytest.raises(ValueError):
        tower.invert((0, 0))


@each_curve
def test_phi_multiplies_by_its_eigenvalue(curve: PairingCurve) -> None:
    q, r, phi = curve.fq.value, curve.fr.value, curve.phi
    assert phi.beta != 1
    assert pow(phi.beta, 3, q) == 1
    assert (phi.eigenvalue**2 + phi.eigenvalue + 1) % r == 0
    group = g1_of(curve)
    point = group.mul(0xFACADE, curve.g1.generator)
    assert point is not None
    assert group.mul(phi.eigenvalue, point) == (phi.beta * point[0] % q, point[1])


@each_curve
def test_phi_tests_membership_in_g1(curve: PairingCurve) -> None:
    """eigenvalue^2 + eigenvalue + 1 is a multiple of r that the cofactor does not share."""
    (multiple, remainder) = divmod(
        curve.phi.eigenvalue**2 + curve.phi.eigenvalue + 1, curve.fr.value
    )
    assert remainder == 0
    if curve.g1.cofactor == 1:
        return
    assert multiple == 1
    group = g1_of(curve)
    outside = next(
        p
        for i in range(1, 100)
        if (p := group.lift_x(i)) is not None and group.mul(curve.fr.value, p) is not None
    )
    image = (curve.phi.beta * outside[0] % curve.fq.value, outside[1])
    assert group.mul(curve.phi.eigenvalue, outside) != image


@each_curve
def test_lattice_basis_is_short(curve: PairingCurve) -> None:
    r, phi = curve.fr.value, curve.phi
    (a0, b0), (a1, b1) = phi.basis
    assert (a0 + b0 * phi.eigenvalue) % r == 0
    assert (a1 + b1 * phi.eigenvalue) % r == 0
    assert a0 * b1 - a1 * b0 == r
    assert max(map(abs, (a0, b0, a1, b1))).bit_length() <= (r.bit_length() + 1) // 2


@each_curve
def test_psi_multiplies_by_its_eigenvalue(curve: PairingCurve) -> None:
    assert (curve.psi_eigenvalue - curve.fq.value) % curve.fr.value == 0
    group = g2_of(curve)
    point = group.mul(0xFACADE, curve.g2.generator)
    assert psi(curve, point) == group.mul(curve.psi_eigenvalue, point)


@each_curve
def test_psi_tests_membership_in_g2(curve: PairingCurve) -> None:
    """psi^2 - t*psi + q = 0 and psi = t - 1 give (q + 1 - t)*P = 0, which with the order of the
    twist leaves r*P = 0 when the two cofactors are coprime."""
    assert math.gcd(curve.g1.cofactor, curve.g2.cofactor) == 1
    group = g2_of(curve)
    outside = next(p for i in range(1, 100) if (p := group.lift_x((i, 1))) is not None)
    assert group.mul(curve.fr.value, outside) is not None
    assert psi(curve, outside) != group.mul(curve.psi_eigenvalue, outside)


def test_edwards_bls12() -> None:
    curve = EDWARDS_BLS12
    field, group = PrimeField(curve.fq.value), edwards_of(curve)
    # The addition law is complete.
    assert field.is_square(field.embed(curve.a))
    assert not field.is_square(curve.d)
    assert group.contains(curve.generator)
    assert group.mul(curve.fr.value, curve.generator) == group.neutral
    order = curve.cofactor * curve.fr.value
    assert abs(curve.fq.value + 1 - order) <= 2 * math.isqrt(curve.fq.value)
    assert curve.fq is BLS12_377.fr


def test_names() -> None:
    assert list(CURVES) == ["bn254", "bls12_381", "bls12_377"]
    for name, curve in CURVES.items():
        assert curve.name == name
        assert curve.fq.name == f"{name}.fq"
        assert curve.fr.name == f"{name}.fr"

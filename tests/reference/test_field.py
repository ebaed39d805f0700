"""The reference fields satisfy the laws of a field and agree with py_ecc."""

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
from quod.curve.parameters import PairingCurve
from tests.reference.field import Field, Fq2, Fq12, PrimeField, QuadraticField, fields_of
from tests.support.thorough import one_and_others

each_curve = pytest.mark.parametrize("curve", CURVES.values(), ids=lambda curve: curve.name)
each_level = pytest.mark.parametrize("level", ["fq", "fr", "fq2", "fq6", "fq12"])


def elements(field: Field[Any], p: int) -> st.SearchStrategy[Any]:
    number = st.integers(0, p - 1) | st.sampled_from([0, 1, p - 1])
    shape: Any = field.zero

    def of(shape: Any) -> st.SearchStrategy[Any]:
        return number if isinstance(shape, int) else st.tuples(*(of(part) for part in shape))

    return of(shape)


@pytest.mark.parametrize("curve", one_and_others(CURVES.values()), ids=lambda curve: curve.name)
@each_level
@given(data=st.data())
def test_field_laws(curve: PairingCurve, level: str, data: st.DataObject) -> None:
    field: Field[Any] = getattr(fields_of(curve), level)
    p = curve.fr.value if level == "fr" else curve.fq.value
    a, b, c = (data.draw(elements(field, p)) for _ in range(3))
    assert field.add(a, b) == field.add(b, a)
    assert field.mul(a, b) == field.mul(b, a)
    assert field.mul(field.mul(a, b), c) == field.mul(a, field.mul(b, c))
    assert field.mul(a, field.add(b, c)) == field.add(field.mul(a, b), field.mul(a, c))
    assert field.add(a, field.neg(a)) == field.zero
    assert field.sub(a, b) == field.add(a, field.neg(b))
    assert field.square(a) == field.mul(a, a)
    assert field.mul(a, field.one) == a
    assert field.pow(a, 5) == field.mul(a, field.square(field.square(a)))
    if a == field.zero:
        with pytest.raises(ZeroDivisionError):
            field.inv(a)
    else:
        assert field.mul(a, field.inv(a)) == field.one
        assert field.div(field.mul(a, b), a) == b
        assert field.pow(a, -3) == field.inv(field.pow(a, 3))


@each_curve
@each_level
def test_generators_of_the_tower(curve: PairingCurve, level: str) -> None:
    """u^2, v^3 and w^2 are the elements that the tower names."""
    fields = fields_of(curve)
    fq2, fq6, fq12 = fields.fq2, fields.fq6, fields.fq12
    if level == "fq2":
        assert fq2.square((0, 1)) == fq2.embed(curve.tower.fq2_non_residue)
    elif level == "fq6":
        v = (fq2.zero, fq2.one, fq2.zero)
        assert fq6.pow(v, 3) == (curve.tower.fq6_non_residue, fq2.zero, fq2.zero)
        assert fq6.mul_by_v((fq2.one, (2, 3), (4, 5))) == fq6.mul((fq2.one, (2, 3), (4, 5)), v)
    elif level == "fq12":
        w = (fq6.zero, fq6.one)
        assert fq12.square(w) == ((fq2.zero, fq2.one, fq2.zero), fq6.zero)
    else:
        field: PrimeField = getattr(fields, level)
        assert field.pow(2, field.order - 1) == 1


@each_curve
@pytest.mark.parametrize("level", ["fq", "fr", "fq2"])
def test_square_roots(curve: PairingCurve, level: str) -> None:
    field: Field[Any] = getattr(fields_of(curve), level)
    roots_found = 0
    for i in range(12):
        a = i if level != "fq2" else (i, i * i + 1)
        root = field.sqrt(a)
        assert (root is not None) == field.is_square(a)
        if root is not None:
            assert field.square(root) == a
            roots_found += 1
        square = field.square(a)
        assert field.sqrt(square) in (a, field.neg(a))
    assert 0 < roots_found < 12


def test_square_root_of_a_higher_two_adicity() -> None:
    field = PrimeField(97)  # 96 = 2^5 * 3
    squares = {a * a % 97 for a in range(97)}
    for a in range(97):
        root = field.sqrt(a)
        assert (root is not None) == (a in squares)
        assert root is None or root * root % 97 == a


def to_py_ecc(curve: PairingCurve, a: Fq12) -> list[int]:
    """The coefficients of a in py_ecc's basis 1, w .. w^11, where u = w^6 - xi.c0."""
    p, shift = curve.fq.value, curve.tower.fq6_non_residue[0]
    powers = fields_of(curve).fq12.to_powers_of_w(a)
    low = [(c0 - shift * c1) % p for c0, c1 in powers]
    return low + [c1 for _, c1 in powers]


@pytest.mark.parametrize(
    ("curve", "ecc"), [(BN254, ecc_bn254), (BLS12_381, ecc_bls12_381)], ids=["bn254", "bls12_381"]
)
@given(data=st.data())
def test_products_agree_with_py_ecc(curve: PairingCurve, ecc: Any, data: st.DataObject) -> None:
    fields = fields_of(curve)
    a, b = (data.draw(elements(fields.fq12, curve.fq.value)) for _ in range(2))
    product = ecc.FQ12(to_py_ecc(curve, a)) * ecc.FQ12(to_py_ecc(curve, b))
    assert [int(c) for c in product.coeffs] == to_py_ecc(curve, fields.fq12.mul(a, b))
    x, y = a[0][0], b[0][0]
    small = ecc.FQ2(x) * ecc.FQ2(y)
    assert tuple(int(c) for c in small.coeffs) == fields.fq2.mul(x, y)


def test_conjugate_is_frobenius() -> None:
    field = QuadraticField(BN254.fq.value, -1)
    a: Fq2 = (123, 456)
    assert field.conjugate(a) == field.pow(a, BN254.fq.value)

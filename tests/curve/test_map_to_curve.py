"""The maps to BLS12-381 against py_ecc and py-arkworks; the vectors are in test_eip2537."""

from __future__ import annotations

from typing import Any

import py_arkworks_bls12381 as arkworks
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from py_ecc.bls.hash_to_curve import (
    clear_cofactor_G1,
    clear_cofactor_G2,
    map_to_curve_G1,
    map_to_curve_G2,
)
from py_ecc.fields import optimized_bls12_381_FQ as FQ
from py_ecc.fields import optimized_bls12_381_FQ2 as FQ2
from py_ecc.optimized_bls12_381.constants import H_EFF_G1, H_EFF_G2
from py_ecc.optimized_bls12_381.optimized_curve import normalize

from quod.curve.encoding.map_to_curve import (
    _G1_MAP,
    _G2_MAP,
    clear_g2_cofactor,
    map_fp2_to_g2,
    map_fp_to_g1,
)
from quod.curve.named.bls12_381 import BLS12_381
from quod.curve.parameters import G1Point
from quod.curve.weierstrass.affine import g1_group, g2_group
from tests.reference.curve import ShortWeierstrass
from tests.reference.field import fields_of

P = BLS12_381.fq.value
FIELDS = fields_of(BLS12_381)
element = st.integers(0, P - 1) | st.sampled_from([0, 1, P - 1])
# Z*u^2 = -1 makes the divisor of the map vanish, as u = 0 does.
EXCEPTIONAL = FIELDS.fq.sqrt(FIELDS.fq.div(P - 1, 11))


def arkworks_map(u: int) -> G1Point:
    data = bytes(arkworks.G1Point.map_from_fp_be(u.to_bytes(48, "big")).to_xy_bytes_be())
    return int.from_bytes(data[:48], "big"), int.from_bytes(data[48:], "big")


@settings(max_examples=40)
@given(u=element)
def test_map_to_g1_matches_arkworks(u: int) -> None:
    point = map_fp_to_g1(u)
    assert point == arkworks_map(u)
    assert g1_group(BLS12_381).contains(point)
    assert g1_group(BLS12_381).in_subgroup(point)


def test_exceptional_inputs_of_g1() -> None:
    assert EXCEPTIONAL is not None
    assert _G1_MAP.swu(0)[0] == _G1_MAP.swu(EXCEPTIONAL)[0]
    for u in (0, EXCEPTIONAL, P - EXCEPTIONAL):
        assert map_fp_to_g1(u) == arkworks_map(u)


@pytest.mark.parametrize("u", [0, 1, 2, P - 1, EXCEPTIONAL, 12345678901234567890])
def test_map_to_g1_matches_py_ecc(u: int) -> None:
    x, y = normalize(clear_cofactor_G1(map_to_curve_G1(FQ(u))))
    assert map_fp_to_g1(u) == (int(x), int(y))


@pytest.mark.parametrize("u", [(0, 0), (1, 0), (0, 1), (P - 1, 7), (3, P - 2), (9, 10**90)])
def test_map_to_g2_matches_py_ecc(u: tuple[int, int]) -> None:
    image: Any = normalize(clear_cofactor_G2(map_to_curve_G2(FQ2(u))))
    point = map_fp2_to_g2(u)
    assert point == tuple(tuple(int(c) for c in part.coeffs) for part in image)
    assert g2_group(BLS12_381).in_subgroup(point)


@settings(max_examples=20)
@given(u=element, v=element)
def test_isogenies_are_homomorphisms(u: int, v: int) -> None:
    curve1 = ShortWeierstrass(FIELDS.fq, _G1_MAP.a, _G1_MAP.b)
    g1 = g1_group(BLS12_381)
    p, q = _G1_MAP.swu(u), _G1_MAP.swu(v)
    assert curve1.contains(p)
    total = curve1.add(p, q)
    expected = None if total is None else _G1_MAP.isogeny(total)
    assert g1.add(_G1_MAP.isogeny(p), _G1_MAP.isogeny(q)) == expected
    curve2 = ShortWeierstrass(FIELDS.fq2, _G2_MAP.a, _G2_MAP.b)
    g2 = g2_group(BLS12_381)
    r, s = _G2_MAP.swu((u, v)), _G2_MAP.swu((v, u))
    assert curve2.contains(r)
    sum2 = curve2.add(r, s)
    expected2 = None if sum2 is None else _G2_MAP.isogeny(sum2)
    assert g2.add(_G2_MAP.isogeny(r), _G2_MAP.isogeny(s)) == expected2


def test_isogeny_kernel_maps_to_infinity() -> None:
    assert _G2_MAP.isogeny(((P - 6, 6), (1, 1))) is None


def test_cofactors() -> None:
    assert 1 - BLS12_381.x == H_EFF_G1
    group = g2_group(BLS12_381)
    for u in ((1, 2), (0, 0), (5, P - 5)):
        point = _G2_MAP.isogeny(_G2_MAP.swu(u))
        assert not group.in_subgroup(point)
        assert clear_g2_cofactor(point) == group.multiply(H_EFF_G2, point)
    assert clear_g2_cofactor(None) is None


def test_unreduced_elements_are_rejected() -> None:
    for u in (P, P + 1, -1):
        with pytest.raises(ValueError, match="not below the modulus"):
            map_fp_to_g1(u)
        with pytest.raises(ValueError, match="not below the modulus"):
            map_fp2_to_g2((0, u))
        with pytest.raises(ValueError, match="not below the modulus"):
            map_fp2_to_g2((u, 0))

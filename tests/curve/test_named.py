"""Curves without a pairing: named curves are consistent, and invalid curves are rejected."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from quod.curve import named
from quod.curve.edwards.curve import EdwardsCurve
from quod.curve.named import CURVES, EDWARDS, WEIERSTRASS
from quod.curve.weierstrass.affine import affine_group
from quod.curve.weierstrass.curve import Curve
from quod.errors import InputError
from quod.field.moduli import Modulus
from tests.curve.every import GROUPS, P256, law_of
from tests.reference.curve import edwards_of

G = affine_group(WEIERSTRASS["secp256k1"]).generator


def checked(modulus: Modulus) -> Modulus:
    """Return the same modulus, made as a user makes it: tested for primality."""
    return Modulus(modulus.name, modulus.value)


def test_each_file_has_a_curve_and_a_name() -> None:
    files = {path.stem for path in Path(named.__file__).parent.glob("*.py")} - {"__init__"}
    assert files == {*CURVES, *WEIERSTRASS, *EDWARDS}
    for table in (CURVES, WEIERSTRASS, EDWARDS):
        for name in table:
            assert table[name].name == name
    with pytest.raises(InputError):
        WEIERSTRASS["bn254"]


@pytest.mark.parametrize("curve", WEIERSTRASS.values(), ids=lambda curve: curve.name)
def test_weierstrass_parameters_are_consistent(curve: Curve) -> None:
    rebuilt = Curve(
        curve.name, checked(curve.fq), checked(curve.fr), curve.a, curve.b, curve.generator,
        curve.cofactor,
    )  # fmt: skip
    assert rebuilt == curve
    law = law_of(curve)
    assert law.contains(curve.generator)
    assert law.mul(curve.fr.value, curve.generator) is None


@pytest.mark.parametrize("curve", EDWARDS.values(), ids=lambda curve: curve.name)
def test_edwards_parameters_are_consistent(curve: EdwardsCurve) -> None:
    rebuilt = EdwardsCurve(
        curve.name, checked(curve.fq), checked(curve.fr), curve.a, curve.d, curve.generator,
        curve.cofactor,
    )  # fmt: skip
    assert rebuilt == curve
    law = edwards_of(curve)
    assert law.contains(curve.generator)
    assert law.mul(curve.fr.value, curve.generator) == law.neutral
    # In between: the map to the Montgomery form keeps sums, which (0, 1) and (0, -1) show too.
    q = curve.fq.value
    for point in ((0, 1), (0, q - 1), curve.generator, law.mul(77, curve.generator)):
        image = curve.to_montgomery(point)
        assert curve.montgomery.contains(image)
        assert curve.from_montgomery(image) == point
    assert curve.to_montgomery((0, q - 1)) == (0, 0)
    assert not curve.montgomery.contains((2, 3))


def test_cycles() -> None:
    pallas, vesta = WEIERSTRASS["pallas"], WEIERSTRASS["vesta"]
    assert (pallas.fq, pallas.fr) == (vesta.fr, vesta.fq)
    grumpkin, bn254 = WEIERSTRASS["grumpkin"], CURVES["bn254"]
    assert (grumpkin.fq, grumpkin.fr) == (bn254.fr, bn254.fq)
    assert grumpkin.b == bn254.fr.value - 17
    for curve in (pallas, vesta):
        assert curve.generator == (curve.fq.value - 1, 2)


@pytest.mark.parametrize(
    ("scalar", "point"),
    [
        (2, (0xC6047F9441ED7D6D3045406E95C07CD85C778E4B8CEF3CA7ABAC09B95C709EE5,
             0x1AE168FEA63DC339A3C58419466CEAEEF7F632653266D0E1236431A950CFE52A)),
        (3, (0xF9308A019258C31049344F85F89D5229B531C845836F99B08601F113BCE036F9,
             0x388F7B0F632DE8140FE337E62A37F3566500A99934C2231B6CB9FD7584B8E672)),
        (112233445566778899,
         (0xA90CC3D3F3E146DAADFC74CA1372207CB4B725AE708CEF713A98EDD73D99EF29,
          0x5A79D6B289610C68BC3B47F3D72F9788A26A06868B4D8E433E1E2AD76FB7DC76)),
        (-1, (G[0], 0xB7C52588D95C3B9AA25B0403F1EEF75702E84BB7597AABE663B82F6F04EF2777)),
    ],
    ids=["2", "3", "112233445566778899", "n - 1"],
)  # fmt: skip
def test_published_multiples_of_secp256k1(scalar: int, point: tuple[int, int]) -> None:
    curve = WEIERSTRASS["secp256k1"]
    assert affine_group(curve).multiply(scalar % curve.fr.value, curve.generator) == point
    assert law_of(curve).mul(scalar, curve.generator) == point


def test_a_published_multiple_of_p256() -> None:
    twice = (
        0x7CF27B188D034F7E8A52380304B51AC3C08969E277F21B35A60B48FC47669978,
        0x07775510DB8ED040293D9AC69F7430DBBA7DADE63CE982299E04B79D227873D1,
    )
    law = affine_group(P256)
    assert law.multiply(2, P256.generator) == law.add(P256.generator, P256.generator) == twice


def test_published_points_of_baby_jubjub() -> None:
    """EIP-2494: a sum, a double, and the base point as 8 times the generator of the whole curve."""
    curve = EDWARDS["baby_jubjub"]
    law = edwards_of(curve)
    p = (
        17777552123799933955779906779655732241715742912184938656739573121738514868268,
        2626589144620713026669568689430873010625803728049924121243784502389097019475,
    )
    q = (
        16540640123574156134436876038791482806971768689494387082833631921987005038935,
        20819045374670962167435360035096875258406992893633759881276124905556507972311,
    )
    assert law.add(p, q) == (
        7916061937171219682591368294088513039687205273691143098332585753343424131937,
        14035240266687799601661095864649209771790948434046947201833777492504781204499,
    )
    assert law.add(p, p) == (
        6890855772600357754907169075114257697580319025794532037257385534741338397365,
        4338620300185947561074059802482547481416142213883829469920100239455078257889,
    )
    generator = (
        995203441582195749578291179787384436505546430278305826713579947235728471134,
        5472060717959818805561601436314318772137091100104008585924551046643952123905,
    )
    assert law.mul(8, generator) == curve.generator


def test_the_published_generator_of_all_of_jubjub() -> None:
    """The point of Zcash's jubjub crate with v = 11 generates the whole curve, of 8r points."""
    curve = EDWARDS["jubjub"]
    law, r = edwards_of(curve), curve.fr.value
    generator = (0x62EDCBB8BF3787C88B0F03DDD60A8187CAF55D1B29BF81AFE4B3D35DF1A7ADFE, 11)
    assert law.contains(generator)
    assert law.mul(8 * r, generator) == law.neutral
    assert law.mul(4 * r, generator) != law.neutral


@pytest.mark.parametrize("group", GROUPS, ids=lambda group: group.name)
def test_the_law_on_the_host(group: Any) -> None:
    law, other = affine_group(group), law_of(group)
    p, r = law.multiply(987654321, law.generator), law.order
    for q in (None, p, law.negate(p), law.generator):
        assert law.add(p, q) == other.add(p, q)
    for k in (0, 1, 2, r - 1, r, r + 1, -5):
        assert law.multiply(k, p) == other.mul(k, p)
    assert law.contains(p)
    assert law.in_subgroup(p)
    assert not law.contains((1, 1)) or other.contains((1, 1))


FIELD, ORDER = Modulus("p256.fq", P256.fq.value), Modulus("p256.fr", P256.fr.value)


def made(**changes: Any) -> Curve:
    parameters: dict[str, Any] = {
        "name": "own", "fq": FIELD, "fr": ORDER, "a": -3, "b": P256.b, "generator": P256.generator,
    }  # fmt: skip
    return Curve(**(parameters | changes))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"generator": (1, 2)}, "the generator of own is not on the curve"),
        ({"fr": Modulus("r", 2**255 - 19)}, "the generator of own does not have the order r, r:"),
        ({"a": 0, "b": 0}, "b of own is 0"),
        ({"a": -3, "b": 2}, r"the equation of own is singular: 4a\^3 \+ 27b\^2 = 0"),
        ({"cofactor": 2}, "the cofactor of own cannot be 2: by"),
        ({"cofactor": 0}, "the cofactor of own cannot be 0"),
        ({"fq": Modulus("m31", 2**31 - 1)}, "the coordinates of own have 31 bits"),
    ],
    ids=["off", "order", "b", "singular", "cofactor", "no cofactor", "short"],
)  # fmt: skip
def test_invalid_curves_are_rejected(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        made(**changes)


def test_coefficients_are_reduced_modulo_q() -> None:
    assert made() == made(a=FIELD.value - 3, b=P256.b + FIELD.value)
    assert made().a == FIELD.value - 3
    with pytest.raises(InputError, match="composite"):
        Modulus("r", ORDER.value + 2)


def test_invalid_edwards_curves_are_rejected() -> None:
    curve = EDWARDS["baby_jubjub"]

    def edwards(**changes: Any) -> EdwardsCurve:
        parameters: dict[str, Any] = {
            "name": "own", "fq": curve.fq, "fr": curve.fr, "a": curve.a, "d": curve.d,
            "generator": curve.generator, "cofactor": 8,
        }  # fmt: skip
        return EdwardsCurve(**(parameters | changes))

    incomplete = "the addition law of own has exceptional points"
    for changes in ({"a": 5}, {"d": curve.a}, {"d": 0}, {"a": 0}):
        with pytest.raises(InputError, match=incomplete):
            edwards(**changes)
    with pytest.raises(InputError, match="the generator of own is not on the curve"):
        edwards(generator=(1, 2))
    with pytest.raises(InputError, match="the generator of own does not have the order r"):
        edwards(fr=Modulus("r", 2**255 - 19))
    with pytest.raises(InputError, match="the generator of own does not have the order r"):
        edwards(generator=(0, 1))
    with pytest.raises(InputError, match="the cofactor of own cannot be 4"):
        edwards(cofactor=4)
    # A square root of -1 is in no field of 3 modulo 4: there d = -a may be no square.
    q = Modulus("q", (1 << 61) - 1)
    with pytest.raises(InputError, match=r"a \+ d of own is 0"):
        edwards(fq=q, a=1, d=-1)

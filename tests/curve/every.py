"""Every group without a pairing, and one of a user's own: a new named curve joins by its name."""

from __future__ import annotations

import pytest

from quod.curve.edwards.weierstrass_model import WeierstrassModel, model_of
from quod.curve.group import Group
from quod.curve.named import EDWARDS, WEIERSTRASS
from quod.curve.weierstrass.curve import Curve
from quod.field.moduli import Modulus
from tests.reference.curve import ShortWeierstrass, prime_curve

P256 = Curve(
    "p256",
    Modulus("p256.fq", 2**256 - 2**224 + 2**192 + 2**96 - 1),
    Modulus("p256.fr", 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551),
    a=-3,
    b=0x5AC635D8AA3A93E7B3EBBD55769886BC651D06B0CC53B0F63BCE3C3E27D2604B,
    generator=(
        0x6B17D1F2E12C4247F8BCE6E563A440F277037D812DEB33A0F4A13945D898C296,
        0x4FE342E2FE1A7F9B8EE7EB4A7C0F9E162BCE33576B315ECECBB6406837BF51F5,
    ),
)
"""NIST's (SEC 2, 2.4.2): a is not 0, and both moduli fill their words."""

OWN_41 = Curve(
    "own41",
    Modulus("own41.fq", 2046905304967),
    Modulus("own41.fr", 2046906223669),
    a=0,
    b=17,
    generator=(1, 10626488867),
)
"""A short order: scalars have fewer words than an MSM's kernels take."""

GROUPS: list[Group] = [*WEIERSTRASS.values(), *map(model_of, EDWARDS.values()), P256, OWN_41]

_REPRESENTATIVES = ("secp256k1", "p256", "own41", "jubjub.weierstrass", "baby_jubjub.weierstrass")
"""A field that fills its words, without and with a coefficient a; a short order; a twisted Edwards
curve whose a is -1, and one whose a is not."""


def cases(groups: list[Group]) -> pytest.MarkDecorator:
    """Run a test for each group; those without code of their own run in `make test-all` only."""
    return pytest.mark.parametrize(
        "group",
        [
            pytest.param(
                group,
                id=group.name,
                marks=() if group.name in _REPRESENTATIVES else pytest.mark.thorough,
            )
            for group in groups
        ],
    )


def law_of(group: Group) -> ShortWeierstrass[int]:
    """The law on plain integers."""
    parameters = group.parameters
    assert isinstance(parameters.a, int)
    assert isinstance(parameters.b, int)
    return prime_curve(group.coordinates.value, parameters.a, parameters.b)


def low_orders(group: Group) -> list[tuple[int, int]]:
    """Points of orders 2, 4 and 8, where the group has a cofactor."""
    if not isinstance(group, WeierstrassModel):
        return []
    law, r = law_of(group), group.scalars.value
    low: list[tuple[int, int]] = []
    x = 1
    while len(low) < group.edwards.cofactor - 1:
        x += 1
        lifted = law.lift_x(x)
        point = None if lifted is None else law.mul(r, lifted)
        while point is not None and point not in low:
            low.append(point)
            point = law.add(point, point)
        if x > 60:
            break
    return low


def hostile(group: Group) -> list[tuple[int, int] | None]:
    """Infinity, P and -P, doubles, and points of low order alone and beside one of the subgroup."""
    law, generator = law_of(group), group.parameters.generator
    p = law.mul(0x123456789ABCDEF, generator)
    low = low_orders(group)[:3]
    return [None, generator, p, law.neg(p), law.add(p, p), p, *low, *(law.add(p, t) for t in low)]

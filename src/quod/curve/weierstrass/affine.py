"""G1 and G2 as groups of plain integers, with their membership tests by endomorphisms."""

from __future__ import annotations

from functools import cache
from typing import Any

from quod.curve.affine_law import AffineGroup, law_of
from quod.curve.coordinates import fq2_of, fq_of
from quod.curve.group import Group
from quod.curve.groups import PairingGroup
from quod.curve.parameters import Fq2Element, G1Point, G2Point, PairingCurve, by_family


@cache
def g1_group(curve: PairingCurve) -> AffineGroup[int]:
    """E(Fq) and G1."""

    def in_g1(group: AffineGroup[int], point: tuple[int, int]) -> bool:
        if curve.g1.cofactor == 1:
            return True
        # phi(P) + P = x^2*P holds exactly when (x^4 - x^2 + 1)*P = r*P = 0, since
        # phi^2 + phi + 1 = 0 (Scott, eprint 2021/1130). |x| has few bits set.
        x_squared_times_point = group.multiply(curve.x, group.multiply(curve.x, point))
        return group.add(phi(curve, point), point) == x_squared_times_point

    return AffineGroup(
        name=f"{curve.name}.g1",
        field=fq_of(curve),
        a=curve.g1.a,
        b=curve.g1.b,
        generator=curve.g1.generator,
        order=curve.fr.value,
        cofactor=curve.g1.cofactor,
        subgroup_test=in_g1,
    )


@cache
def g2_group(curve: PairingCurve) -> AffineGroup[Fq2Element]:
    """E'(Fq2), the sextic twist, and G2."""

    def in_g2(group: AffineGroup[Fq2Element], point: tuple[Fq2Element, Fq2Element]) -> bool:
        if by_family(curve.family, bn=True, bls12=False):
            # Multiply by 6*x^2 factor by factor: x has few bits set, so this takes few additions.
            multiple = group.multiply(6, group.multiply(curve.x, group.multiply(curve.x, point)))
        else:
            multiple = group.multiply(curve.x, point)
        return psi(curve, point) == multiple

    return AffineGroup(
        name=f"{curve.name}.g2",
        field=fq2_of(curve),
        a=curve.g2.a,
        b=curve.g2.b,
        generator=curve.g2.generator,
        order=curve.fr.value,
        cofactor=curve.g2.cofactor,
        subgroup_test=in_g2,
    )


@cache
def affine_group(group: Group) -> AffineGroup[Any]:
    """Return the group law of any group on plain integers."""
    if isinstance(group, PairingGroup):
        return g1_group(group.curve) if group.degree == 1 else g2_group(group.curve)
    return law_of(group)


def phi(curve: PairingCurve, point: G1Point) -> G1Point:
    """Return (beta*x, y); on G1 this is multiplication by ``curve.phi.eigenvalue``."""
    return None if point is None else (curve.phi.beta * point[0] % curve.fq.value, point[1])


def psi(curve: PairingCurve, point: G2Point) -> G2Point:
    """Apply untwist, Frobenius and twist; on G2 this multiplies by ``curve.psi_eigenvalue``."""
    if point is None:
        return None
    field = fq2_of(curve)
    cx, cy = curve.psi_coefficients
    x, y = point
    return field.multiply(field.conjugate(x), cx), field.multiply(field.conjugate(y), cy)

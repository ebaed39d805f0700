"""Points of Jubjub and Baby Jubjub as gadgets, in Edwards and Montgomery form."""

from __future__ import annotations

import random
from typing import Any

import pytest

from quod import r1cs
from quod.curve import EDWARDS, EdwardsCurve, edwards_group
from quod.errors import InputError, MismatchError
from quod.r1cs.gadgets import CurvePoint, EdwardsPoints, MontgomeryPoints, SubgroupPoint
from quod.testing import assert_fails, assert_satisfied
from tests.r1cs.gadgets.gadget import inner, made, outputs, sound
from tests.support.thorough import one_and_others

CURVES = {"bn254": EDWARDS["baby_jubjub"], "bls12_381": EDWARDS["jubjub"]}
on_both = pytest.mark.parametrize(("field", "curve"), CURVES.items(), ids=["baby_jubjub", "jubjub"])
on_one = pytest.mark.parametrize(
    ("field", "curve"), one_and_others(CURVES.items()), ids=["baby_jubjub", "jubjub"]
)
CHANCE = random.Random(6)


def multiples(curve: EdwardsCurve) -> list[tuple[int, int]]:
    """Points of all kinds: neutral, of order two, of the prime order, of twice it."""
    group, order_two = edwards_group(curve), (0, curve.fq.value - 1)
    point = group.multiply(CHANCE.randrange(curve.fr.value), curve.generator)
    return [(0, 1), order_two, curve.generator, point, group.add(point, order_two)]


@on_both
def test_group_law(field: str, curve: EdwardsCurve) -> None:
    group = edwards_group(curve)

    def gadget(system: r1cs.ConstraintSystem) -> list[r1cs.Signal]:
        points = EdwardsPoints(system, curve)
        p, q, bit = points.private("p"), points.private("q"), system.private("bit")
        system.declare_upper_bound(bit, 1)
        results = [points.add(p, q), points.double(p), points.select(bit, p, q)]
        results.append(points.negate(p))
        return [part for point in results for part in point]

    circuit = made(gadget, field)
    assert inner(circuit) == 3 + 3 + 6 + 5 + 2
    for p in multiples(curve):
        for q in multiples(curve):
            expected = [*group.add(p, q), *group.double(p), *q, *group.negate(p)]
            assert outputs(circuit, p=p, q=q, bit=0) == expected
    sound(circuit, 99, p=p, q=curve.generator, bit=1)
    assert_fails(circuit, {"p": (1, 1), "q": q, "bit": 0})


@on_one
@pytest.mark.parametrize("size", [1, 4, 5])
def test_multiples_of_any_point(field: str, curve: EdwardsCurve, size: int) -> None:
    """All numbers of so many bits, of points of every order."""
    group, base = edwards_group(curve), edwards_group(curve).double(curve.generator)

    def gadget(system: r1cs.ConstraintSystem) -> list[r1cs.Signal]:
        points, bits = EdwardsPoints(system, curve), system.private_bits("k", size)
        p = CurvePoint(*system.private("p", 2))
        return [*points.multiply(bits, p), *points.multiply_fixed(bits, base)]

    circuit = made(gadget, field)
    for p in multiples(curve):
        for k in range(1 << size):
            expected = [*group.multiply(k, p), *group.multiply(k, base)]
            assert outputs(circuit, p=p, k=k) == expected
    sound(circuit, 99, p=p, k=1)


@on_both
@pytest.mark.parametrize("is_known", [True, False], ids=["known", "shown"])
def test_montgomery_form(field: str, curve: EdwardsCurve, is_known: bool) -> None:
    """Points known to be no exceptions, and points shown to be none, with a constraint for each."""
    group, kind = edwards_group(curve), SubgroupPoint if is_known else CurvePoint

    def gadget(system: r1cs.ConstraintSystem) -> list[r1cs.Signal]:
        points = MontgomeryPoints(system, curve)
        p = points.from_edwards(kind(*system.private("p", 2)))
        q = points.from_edwards(kind(*system.private("q", 2)))
        doubled, total = points.double(p), points.add(p, q, distinct=is_known)
        return [*p, *total, *doubled, *points.to_edwards(doubled, nonzero=is_known)]

    circuit = made(gadget, field)
    assert inner(circuit) == 2 + 2 + 3 + 4 + 2 + (0 if is_known else 4)
    p, q = multiples(curve)[2:4]
    form, other = curve.to_montgomery(p), curve.to_montgomery(q)
    assert form is not None
    assert other is not None
    double = group.double_montgomery(form)
    expected = [*form, *group.add_montgomery(form, other), *double, *group.double(p)]
    assert outputs(circuit, p=p, q=q) == expected
    sound(circuit, 99, p=p, q=q)
    assert_fails(circuit, {"p": (0, 1), "q": q})


@on_one
@pytest.mark.parametrize("size", one_and_others([1, 2, 5, 256], [1, 5]))
def test_multiples_by_the_montgomery_form(field: str, curve: EdwardsCurve, size: int) -> None:
    """Multiples of a point of the prime order and of twice it, also by more than the order."""
    group, base = edwards_group(curve), edwards_group(curve).double(curve.generator)

    def gadget(system: r1cs.ConstraintSystem) -> list[r1cs.Signal]:
        points, bits = MontgomeryPoints(system, curve), system.private_bits("k", size)
        p = CurvePoint(*system.private("p", 2))
        return [*points.multiply(bits, p), *points.multiply_fixed(bits, base)]

    circuit = made(gadget, field)
    numbers = {0, 1, (1 << size) - 1, 1 << size - 1, CHANCE.getrandbits(size)}
    if size == 256:
        numbers |= {curve.fr.value, curve.fr.value - 1, (1 << curve.fr.bits - 2) + 1}
    for p in multiples(curve)[3:]:
        for k in numbers if size > 5 else range(1 << size):
            expected = [*group.multiply(k, p), *group.multiply(k, base)]
            assert outputs(circuit, p=p, k=k) == expected
    sound(circuit, 99 if size < 9 else 2, p=p, k=1)


def count(gadget: Any) -> int:
    return inner(made(gadget))


def declared_bits(system: r1cs.ConstraintSystem, size: int) -> list[r1cs.Signal]:
    """Bits of an input that cost no constraint, as the counts are without them."""
    return [system.declare_upper_bound(bit, 1) for bit in system.private("k", size)]


def test_constraint_counts_do_not_exceed_circomlib() -> None:
    """Compared with circomlib 2.0.5 by circom 2.2 with --O2; neither counts the bits."""
    curve = CURVES["bn254"]

    def variable(system: r1cs.ConstraintSystem) -> Any:
        points, bits = MontgomeryPoints(system, curve), declared_bits(system, 254)
        return points.multiply(bits, SubgroupPoint(*system.private("p", 2)))

    def shown(system: r1cs.ConstraintSystem) -> Any:
        points, bits = MontgomeryPoints(system, curve), declared_bits(system, 254)
        return points.multiply(bits, CurvePoint(*system.private("p", 2)))

    def known(system: r1cs.ConstraintSystem) -> Any:
        points, bits = MontgomeryPoints(system, curve), declared_bits(system, 254)
        return points.multiply(bits, CurvePoint(*system.private("p", 2)), not_small_order=True)

    def fixed(system: r1cs.ConstraintSystem) -> Any:
        return MontgomeryPoints(system, curve).multiply_fixed(
            declared_bits(system, 253), curve.generator
        )

    assert count(variable) == count(known) == 2067 < 2310
    assert count(shown) == 2067 + 16 < 2310
    assert count(fixed) == 517 < 523


def test_small_orders() -> None:
    """Points of order 2, 4 and 8 are refused; all others are shown not to be of small order."""
    curve = CURVES["bn254"]
    group = edwards_group(curve)

    def gadget(system: r1cs.ConstraintSystem) -> None:
        points = EdwardsPoints(system, curve)
        p = points.private("p")
        with system.namespace("order"):
            points.assert_not_small_order(p)

    circuit = r1cs.trace(gadget)
    assert circuit.constraints == 3 + 16
    y, eighth = 2, (0, 1)
    while group.multiply(4, eighth) == (0, 1):
        # A point times the prime order is of a small one.
        y += 1
        point = _with_y(curve, y)
        eighth = (0, 1) if point is None else group.multiply(curve.fr.value, point)
    for factor in range(8):
        assert_fails(circuit, {"p": group.multiply(factor, eighth)}, "order")
    assert_satisfied(circuit, {"p": group.add(curve.generator, eighth)})
    assert_fails(circuit, {"p": (3, 4)})


def _with_y(curve: EdwardsCurve, y: int) -> tuple[int, int] | None:
    from quod.curve import decode_edwards

    try:
        return decode_edwards(curve, y.to_bytes(32, "little"), check_subgroup=False)
    except InputError:
        return None


def test_hostile_arguments() -> None:
    system, curve = r1cs.ConstraintSystem("bn254"), CURVES["bn254"]
    mismatch = r"over bls12_381\.fr, but the circuit is over bn254\.fr"
    with pytest.raises(MismatchError, match=mismatch):
        EdwardsPoints(system, CURVES["bls12_381"])
    points = EdwardsPoints(system, curve)
    with pytest.raises(InputError, match="a point must be 2 signals, not 3"):
        points.double([1, 2, 3])  # type: ignore[arg-type]
    with pytest.raises(InputError, match="the point is not on baby_jubjub"):
        points.constant((1, 1))
    forms = MontgomeryPoints(system, curve)
    with pytest.raises(InputError, match="the order of the base is not the prime order"):
        forms.multiply_fixed([1], (0, curve.fq.value - 1))
    with pytest.raises(InputError, match="the bits must be at least 1 signals, not 0"):
        forms.multiply([], curve.generator)

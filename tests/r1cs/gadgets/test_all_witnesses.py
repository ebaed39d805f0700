"""Gadgets over small fields, with every witness enumerated: exactly one output, the right one.

What a prover may choose is more than any change of a right witness: here nothing is left out.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest

from quod import r1cs
from quod.curve import EdwardsCurve, edwards_group
from quod.field.moduli import Modulus
from quod.r1cs import gadgets
from tests.r1cs.gadgets.solutions import outputs_of, system_over
from tests.support.thorough import one_and_others

System = r1cs.ConstraintSystem
Gadget = Callable[[System], Sequence[Any]]
CHANCE = random.Random(11)
FIELDS = [Modulus(f"p{prime}", prime) for prime in (17, 23, 29)]


def agree(
    field: Modulus,
    gadget: Gadget,
    cases: Iterable[dict[str, Any]],
    expected: Callable[..., Sequence[int] | None],
) -> None:
    """Every witness has the outputs that are expected of its inputs; None is no witness at all."""
    system = system_over(field)
    for at, signal in enumerate(gadget(system)):
        system.output(f"out{at}", signal)
    for inputs in cases:
        right = expected(**inputs)
        witness_outputs = (
            {tuple(each % field.value for each in right)} if right is not None else set()
        )
        assert outputs_of(system, inputs) == witness_outputs, inputs


def test_underconstrained_circuits_are_found() -> None:
    """A quotient of 0 and 0, and an unconstrained bit."""
    system = system_over(FIELDS[0])
    system.output("z", system.private("x") / system.private("y"))
    assert len(outputs_of(system, {"x": 0, "y": 0})) == 17
    assert len(outputs_of(system, {"x": 5, "y": 2})) == 1
    system = system_over(FIELDS[0])
    system.output("z", system.hint_bit(system.private("x"), 0))
    assert len(outputs_of(system, {"x": 0})) == 17


@pytest.mark.parametrize("field", one_and_others(FIELDS), ids=str)
def test_bits_and_zero(field: Modulus) -> None:
    every = [{"x": x} for x in range(field.value)]
    pairs = [{"x": x, "y": y} for x in range(field.value) for y in (0, 1, x, 7)]
    agree(field, lambda s: s.bits(s.private("x")), every, lambda x: bits(x, field.bits))
    for size in range(1, field.bits):
        agree(
            field, lambda s, size=size: s.bits(s.private("x"), size), every,
            lambda x, size=size: bits(x, size) if x < 1 << size else None,
        )  # fmt: skip
    agree(field, lambda s: [s.is_zero(s.private("x"))], every, lambda x: [int(x == 0)])
    agree(
        field, lambda s: [s.is_equal(s.private("x"), s.private("y"))], pairs,
        lambda x, y: [int(x == y)],
    )  # fmt: skip


@pytest.mark.parametrize("field", one_and_others(FIELDS), ids=str)
def test_order_comparisons(field: Modulus) -> None:
    for size in range(1, field.bits - 2):

        def one(act: Any, size: int = size) -> Gadget:
            return lambda s: [act(s, *(below(s, name, size) for name in "xy"), size)]

        def none(act: Any, size: int = size) -> Gadget:
            return lambda s: [][: act(s, *(below(s, name, size) for name in "xy"), size)]

        pairs = [{"x": x, "y": y} for x in range(1 << size) for y in range(1 << size)]
        agree(field, one(gadgets.is_less), pairs, lambda x, y: [int(x < y)])
        agree(field, one(gadgets.is_at_most), pairs, lambda x, y: [int(x <= y)])
        agree(field, none(gadgets.assert_less), pairs, lambda x, y: [] if x < y else None)
        agree(field, none(gadgets.assert_at_most), pairs, lambda x, y: [] if x <= y else None)


@pytest.mark.parametrize("field", FIELDS[:1], ids=str)
def test_choices(field: Modulus) -> None:
    every = [{"x": x} for x in range(field.value)]
    for count in (1, 2, 5):
        agree(
            field, lambda s, count=count: gadgets.one_hot(s, s.private("x"), count), every,
            lambda x, count=count: [int(at == x) for at in range(count)] if x < count else None,
        )  # fmt: skip
        table = [CHANCE.randrange(17) for _ in range(count)]
        agree(
            field, lambda s, row=table: [gadgets.choose_at(s, s.private("x"), row)], every,
            lambda x, row=table: [row[x]] if x < len(row) else None,
        )  # fmt: skip
    for size in (1, 2, 3):
        table = [CHANCE.randrange(17) for _ in range(1 << size)]
        digits = [{"b": bits(x, size)} for x in range(1 << size)]
        agree(
            field, lambda s, size=size, row=table: [
                *gadgets.look_up(s, s.private_bits("b", size), [row]),
            ], digits, lambda b, row=table: [row[number(b)]],
        )  # fmt: skip
        agree(
            field, lambda s, size=size, row=table: [
                gadgets.choose(s, s.private_bits("b", size), row)
            ], digits, lambda b, row=table: [row[number(b)]],
        )  # fmt: skip
        for most in range(1 << size):
            agree(
                field, lambda s, size=size, most=most: [][: gadgets.assert_bits_at_most(
                    s, s.private_bits("b", size), most
                )], digits, lambda b, most=most: [] if number(b) <= most else None,
            )  # fmt: skip


CURVES = [
    EdwardsCurve.unchecked(f"q{q}", Modulus("q", q), Modulus("l", order), a, d, generator, cofactor)
    for q, order, a, d, generator, cofactor in (
        (251, 31, 205, 104, (79, 126), 8), (181, 43, 167, 98, (51, 33), 4)
    )
]  # fmt: skip
"""With all points of small order that such a curve can have."""


def points_of(curve: EdwardsCurve) -> list[tuple[int, int]]:
    q = curve.fq.value
    return [point for point in itertools.product(range(q), repeat=2) if curve.contains(point)]


@pytest.mark.parametrize("curve", CURVES, ids=lambda curve: curve.name)
def test_points(curve: EdwardsCurve) -> None:
    """The law of all points, and what is shown of points off the curve or of small order."""
    group, points = edwards_group(curve), points_of(curve)
    assert len(points) == curve.cofactor * curve.fr.value
    small = [point for point in points if group.has_small_order(point)]
    pairs = itertools.product([*small, *CHANCE.sample(points, 6)], repeat=2)

    def on_curve(system: System) -> Any:
        return gadgets.EdwardsPoints(system, curve)

    agree(
        curve.fq, lambda s: on_curve(s).add(point(s, "p"), point(s, "q")),
        [{"p": p, "q": q} for p, q in pairs], lambda p, q: group.add(p, q),
    )  # fmt: skip
    every = [{"p": point} for point in points]
    agree(curve.fq, lambda s: on_curve(s).double(point(s, "p")), every, lambda p: group.double(p))
    agree(
        curve.fq, lambda s: on_curve(s).assert_not_small_order(point(s, "p")), every,
        lambda p: None if p in small else group.multiply(curve.cofactor, p),
    )  # fmt: skip
    anything = [(CHANCE.randrange(curve.fq.value), y) for y in range(curve.fq.value)]
    agree(
        curve.fq, lambda s: on_curve(s).private("p"), [{"p": p} for p in anything],
        lambda p: p if curve.contains(p) else None,
    )  # fmt: skip


@pytest.mark.parametrize("curve", CURVES, ids=lambda curve: curve.name)
def test_exceptions_of_the_montgomery_form(curve: EdwardsCurve) -> None:
    """Points without a form, of order two, and sums of points with one u have no witness."""
    group, points = edwards_group(curve), points_of(curve)
    forms = {p: curve.to_montgomery(p) or (0, 0) for p in points if p[0]}
    # The point of order two has a form, and none that Edwards coordinates follow from.
    forms[0, curve.fq.value - 1] = 0, 0

    def montgomery(system: System) -> Any:
        return gadgets.MontgomeryPoints(system, curve)

    agree(
        curve.fq, lambda s: montgomery(s).from_edwards(point(s, "p")), [{"p": p} for p in points],
        lambda p: forms[p] if p[0] else None,
    )  # fmt: skip
    of_form = {form: p for p, form in forms.items()}
    agree(
        curve.fq, lambda s: montgomery(s).to_edwards(form(s, "f")), [{"f": f} for f in of_form],
        lambda f: of_form[f] if f != (0, 0) else None,
    )  # fmt: skip
    some = [*CHANCE.sample(list(of_form), 5), (0, 0)]
    pairs = [{"f": f, "g": g} for f in some for g in (*some, (f[0], -f[1] % curve.fq.value))]
    agree(
        curve.fq, lambda s: montgomery(s).add(form(s, "f"), form(s, "g")), pairs,
        lambda f, g: None if f[0] == g[0] else group.add_montgomery(f, g),
    )  # fmt: skip
    agree(
        curve.fq, lambda s: montgomery(s).double(form(s, "f")), [{"f": f} for f in of_form],
        lambda f: group.double_montgomery(f) if f[1] else None,
    )  # fmt: skip


@pytest.mark.parametrize("size", one_and_others([1, 2, 4, 7], [1, 2]))
@pytest.mark.parametrize("curve", one_and_others(CURVES), ids=lambda curve: curve.name)
def test_multiples(curve: EdwardsCurve, size: int) -> None:
    """Numbers up to beyond the order, points with a part of small order, and points of small order,
    which have no witness: no sum is left open."""
    group, points = edwards_group(curve), points_of(curve)
    small = [point for point in points if group.has_small_order(point)]
    large = [point for point in points if point not in small]
    numbers = CHANCE.sample(range(1 << size), min(10, 1 << size)) + [(1 << size) - 1]

    def both(system: System) -> Any:
        digits, p = system.private_bits("b", size), point(system, "p")
        edwards = gadgets.EdwardsPoints(system, curve)
        montgomery = gadgets.MontgomeryPoints(system, curve)
        return [
            *edwards.multiply(digits, p), *montgomery.multiply(digits, p),
            *edwards.multiply_fixed(digits, points[0]),
            *montgomery.multiply_fixed(digits, curve.generator),
        ]  # fmt: skip

    def expected(b: list[int], p: tuple[int, int]) -> list[int] | None:
        if p in small:
            return None
        k = number(b)
        parts = (p, p, points[0], curve.generator)
        return [each for part in parts for each in group.multiply(k, part)]

    cases = [{"b": bits(k, size), "p": p} for k in numbers for p in CHANCE.sample(large, 2)]
    cases += [{"b": bits(numbers[0], size), "p": p} for p in small]
    agree(curve.fq, both, cases, expected)


def below(system: System, name: str, size: int) -> Any:
    """An input of which the cases have numbers below 2**size alone."""
    return system.declare_upper_bound(system.private(name), (1 << size) - 1)


def point(system: System, name: str) -> gadgets.CurvePoint:
    """An input of which the cases have points of the curve alone."""
    return gadgets.CurvePoint(*system.private(name, 2))


def form(system: System, name: str) -> gadgets.MontgomeryPoint:
    """An input of which the cases have points in Montgomery form alone."""
    return gadgets.MontgomeryPoint(*system.private(name, 2))


def bits(value: int, count: int) -> list[int]:
    return [value >> at & 1 for at in range(count)]


def number(digits: Sequence[int]) -> int:
    return sum(bit << at for at, bit in enumerate(digits))

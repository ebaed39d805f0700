"""Mistakes of people who write circuits, and the errors that name them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest

from quod import r1cs
from quod.curve import EDWARDS
from quod.errors import InputError, MismatchError
from quod.r1cs import gadgets

System = r1cs.ConstraintSystem


def square(system: System) -> None:
    x = system.private("x")
    system.output("y", x * x)


@pytest.mark.parametrize(
    "late",
    [
        lambda system, x: x * x,
        lambda system, x: x / (x + 1),
        lambda system, x: system.assert_equal(x, 3),
        lambda system, x: system.boolean(x),
        lambda system, x: system.is_zero(x),
        lambda system, x: system.hint(lambda value: value, [x]),
        lambda system, x: system.wire(),
        lambda system, x: system.output("z", x),
        lambda system, x: system.public("z"),
        lambda system, x: system.private("z", 2),
        lambda system, x: system.private_bits("z", 2),
    ],
)
def test_traced_circuit_is_immutable(late: Callable[[System, r1cs.Signal], object]) -> None:
    """Signals that escape the function can add neither constraints nor hints."""
    kept = []

    def function(system: System) -> None:
        x = system.private("x")
        kept.append(x)
        (same,) = system.hint(lambda value: (late(system, x), value)[1] if value == 5 else 1, [x])
        system.output("y", same * x)

    circuit = r1cs.trace(function)
    shape, values = circuit.circuit_hash(), circuit.values({"x": 3})
    with pytest.raises(InputError, match=r"test_mistakes.py:\d+: the circuit is already traced"):
        late(circuit.system, kept[0])
    with pytest.raises(InputError, match="the circuit is already traced"):
        circuit.witness({"x": 5})
    assert circuit.values({"x": 3}) == values
    assert r1cs.Circuit(circuit.system).circuit_hash() == shape
    assert len(circuit.witness({"x": 3})) == circuit.wires


def test_generators_and_coroutines_are_rejected() -> None:
    def generator(system: System) -> Iterator[r1cs.Signal]:
        yield system.public("x")

    async def coroutine(system: System) -> None:
        square(system)

    async def both(system: System) -> AsyncIterator[r1cs.Signal]:
        yield system.public("x")

    for function, kind in ((generator, "generator"), (coroutine, "coroutine"), (both, "async_")):
        with pytest.raises(InputError, match=f"returned a {kind}.* and did not run"):
            r1cs.trace(function)
        with pytest.raises(InputError, match="did not run"):
            r1cs.trace(partial(function))
    for wrong in (System, 5, None):
        with pytest.raises(InputError, match="a circuit is a function"):
            r1cs.trace(wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "early",
    [
        lambda system, wire: wire * wire,
        lambda system, wire: (wire + 1) / 5 / wire,
        lambda system, wire: 1 / wire,
        lambda system, wire: system.select(wire, 1, 2),
        lambda system, wire: system.is_zero(wire),
        lambda system, wire: system.hint_bit(3 * wire, 0),
        lambda system, wire: system.bits(wire, 4),
        lambda system, wire: system.hint(lambda first, value: value, [1, wire]),
        lambda system, wire: system.output("y", wire + 1),
    ],
)
def test_wires_without_a_value_cannot_be_used(
    early: Callable[[System, r1cs.Signal], object],
) -> None:
    def wrong(system: System) -> None:
        x, wire = system.private("x"), system.wire("late")
        early(system, wire)
        system.enforce(wire, 1, x)

    def right(system: System) -> None:
        x, wire = system.private("x"), system.wire("late")
        system.output("cancelled", (wire - wire + 2) * x)
        system.boolean(wire)
        system.enforce(wire, 1, x)
        early(system, wire)

    with pytest.raises(InputError, match=r"test_mistakes.py:\d+: the wire late has no value yet"):
        r1cs.trace(wrong)
    assert r1cs.trace(right).values({"x": 1})[1] == 2


def test_nested_equal_namespaces() -> None:
    def function(system: System) -> None:
        x, scope = system.private("x"), system.namespace("own")
        with scope:
            with scope:
                system.boolean(x)
            system.boolean(x)
        system.boolean(x)

    names = [failure.namespace for failure in r1cs.trace(function).check([1, 2])]
    assert names == ["own/own", "own", ""]


def test_duplicate_list_names_are_rejected() -> None:
    for first in (System.public, System.private, partial(System.output, signal=3)):
        system = System("bn254")
        first(system, "a[1]")  # type: ignore[operator]
        with pytest.raises(InputError, match=r"two inputs or outputs have the name 'a\[1\]'"):
            system.public("a", 2)
        system.public("a", 1)


def test_non_bit_constants_are_rejected() -> None:
    system, curve = System("bn254"), EDWARDS["baby_jubjub"]
    (x,) = system.private_bits("x", 1)
    edwards = gadgets.EdwardsPoints(system, curve)
    point = edwards.private("point")
    montgomery = gadgets.MontgomeryPoints(system, curve)
    word = [0] * 32
    acts: list[Callable[[Any], object]] = [
        system.boolean,
        lambda bit: system.select(bit, x, 1),
        lambda bit: gadgets.exclusive_or(system, x, bit),
        lambda bit: gadgets.inclusive_or(system, bit, x),
        lambda bit: gadgets.exclusive_or_of_three(system, x, 1, bit),
        lambda bit: gadgets.majority(system, x, x, bit),
        lambda bit: gadgets.choose(system, [bit], [1, 2]),
        lambda bit: gadgets.look_up(system, [x, bit], [[1, 2, 3, 4]]),
        lambda bit: gadgets.assert_bits(system, [bit]),
        lambda bit: gadgets.assert_bits_at_most(system, [x, bit], 2),
        lambda bit: gadgets.pack_elements(system, [x, bit]),
        lambda bit: gadgets.merkle_root(system, x, [1], [bit]),
        lambda bit: gadgets.sha256(system, [x, bit]),
        lambda bit: gadgets.sha256_compression(system, [word] * 7 + [[bit] * 32], [word] * 16),
        lambda bit: gadgets.blake2s_hash(system, [x] * 7 + [bit]),
        lambda bit: gadgets.pedersen_point(system, [x, bit]),
        lambda bit: edwards.select(bit, point, (0, 1)),
        lambda bit: edwards.multiply([x, bit], point),
        lambda bit: edwards.multiply_fixed([x, bit], curve.generator),
        lambda bit: montgomery.multiply([x, bit], point),
        lambda bit: montgomery.multiply_fixed([x, bit], curve.generator),
    ]
    for act in acts:
        act(system.constant(1))
        for wrong in (2, -1, x - x + 7):
            with pytest.raises(InputError, match="is not a bit"):
                act(wrong)


def test_signals_not_proved_to_be_bits_are_rejected() -> None:
    """The error is raised while tracing; a constraint that proves the bit fixes it."""
    system, curve = System("bn254"), EDWARDS["baby_jubjub"]
    (x,) = system.private_bits("x", 1)
    edwards, montgomery = (
        kind(system, curve) for kind in (gadgets.EdwardsPoints, gadgets.MontgomeryPoints)
    )
    point = curve.generator
    word = [0] * 32
    # Hashes of tens of thousands of constraints take one right bit alone.
    hashes: list[Callable[[Any], object]] = [
        lambda bit: gadgets.sha256_compression(system, [word] * 7 + [[bit] * 32], [word] * 16),
        lambda bit: gadgets.blake2s_hash(system, [x] * 7 + [bit]),
    ]
    acts: list[Callable[[Any], object]] = [
        *hashes,
        lambda bit: system.select(bit, x, 1),
        lambda bit: gadgets.exclusive_or(system, x, bit),
        lambda bit: gadgets.inclusive_or(system, bit, x),
        lambda bit: gadgets.exclusive_or_of_three(system, x, 1, bit),
        lambda bit: gadgets.majority(system, x, x, bit),
        lambda bit: gadgets.choose(system, [bit], [1, 2]),
        lambda bit: gadgets.look_up(system, [x, bit], [[1, 2, 3, 4]]),
        lambda bit: gadgets.assert_bits_at_most(system, [x, bit], 2),
        lambda bit: gadgets.pack_elements(system, [x, bit]),
        lambda bit: gadgets.pedersen_point(system, [x, bit]),
        lambda bit: edwards.select(bit, point, (0, 1)),
        lambda bit: edwards.multiply([x, bit], point),
        lambda bit: edwards.multiply_fixed([x, bit], point),
        lambda bit: montgomery.multiply([x, bit], point),
        lambda bit: montgomery.multiply_fixed([x, bit], point),
    ]
    for number, act in enumerate(acts):
        bit, other = (
            system.private(f"bit{number}"),
            system.hint_bit(system.private(f"n{number}"), 0),
        )
        for wrong in (bit, other, x + x, 2 - x, x + 1):
            with pytest.raises(InputError, match="is not known to be a bit"):
                act(wrong)
        system.boolean(bit)
        system.declare_upper_bound(other, 1)
        every = bit, other, 1 - bit, bit * x, system.is_zero(other), other + 0
        for right in every[:1] if act in hashes else every:
            act(right)


def test_unbounded_comparison_operands_are_rejected() -> None:
    system = System("bn254")
    small, large = system.private("small"), system.private("large")
    system.bits(small, 8)
    system.bits(large, 9)
    pair = system.private_bits("pair", 3)
    for compare in (
        gadgets.is_less, gadgets.is_at_most, gadgets.assert_less, gadgets.assert_at_most
    ):  # fmt: skip
        for right in (small, 255, 0, system.pack(pair), system.pack(pair) + 248, 7 - pair[0]):
            compare(system, small, right, 8)
            compare(system, right, small, 8)
        for wrong in (large, system.private(f"x {compare.__name__}"), 256, -1, small + 1, -pair[0]):
            with pytest.raises(InputError, match=r"right operand .* below 2\*\*8"):
                compare(system, small, wrong, 8)
            with pytest.raises(InputError, match=r"left operand .* below 2\*\*8"):
                compare(system, wrong, small, 8)


def test_points_not_proved_to_be_on_the_curve_are_rejected() -> None:
    system, curve = System("bn254"), EDWARDS["baby_jubjub"]
    edwards, montgomery = (
        gadgets.EdwardsPoints(system, curve), gadgets.MontgomeryPoints(system, curve)
    )  # fmt: skip
    (bit,) = system.private_bits("bit", 1)
    on_edwards: list[Callable[[Any], object]] = [
        lambda p: edwards.add(p, curve.generator), lambda p: edwards.add(curve.generator, p),
        edwards.double, edwards.negate, edwards.assert_not_small_order, montgomery.from_edwards,
        lambda p: edwards.select(bit, p, (0, 1)), lambda p: edwards.multiply([bit], p),
        lambda p: montgomery.multiply([bit], p),
    ]  # fmt: skip
    wrong = tuple(system.private("p", 2))
    right = edwards.assert_on_curve(system.private("q", 2))
    for act in on_edwards:
        with pytest.raises(
            InputError, match="not known to be on baby_jubjub; pass the result of assert_on"
        ):
            act(wrong)
        with pytest.raises(InputError, match="the point is not on baby_jubjub"):
            act((1, 1))
        act(right)
        act(curve.generator)
    form = montgomery.from_edwards(right)
    on_montgomery: list[Callable[[Any], object]] = [
        montgomery.double, montgomery.to_edwards, lambda p: montgomery.add(p, form),
        lambda p: montgomery.add(form, p),
    ]  # fmt: skip
    for act in on_montgomery:
        with pytest.raises(
            InputError, match="not known to be on baby_jubjub; pass the result of from_edw"
        ):
            act(wrong)
        act(montgomery.double(form))


def test_declared_bounds_apply_to_equal_signals() -> None:
    system = System("bn254")
    x = system.private("x")
    assert system.upper_bound(x) is None
    assert (
        system.upper_bound(system.declare_upper_bound(x, 7))
        == system.upper_bound(3 * x - 2 * x)
        == 7
    )
    assert system.upper_bound(x + x + 1) == 15
    assert system.upper_bound(x - 1) is None
    assert system.upper_bound(7 - x) == 7
    assert system.upper_bound(5) == 5
    assert system.upper_bound(x * (system.prime // 7 + 1)) is None
    with pytest.raises(InputError, match="8 exceeds the bound 7"):
        system.declare_upper_bound(8, 7)
    with pytest.raises(InputError, match="the upper bound"):
        system.declare_upper_bound(x, system.prime)


def test_factors_are_reduced_modulo_the_field() -> None:
    system = System("bn254")
    x = system.private("x")
    assert x.scaled(system.prime).wires == ()
    assert x.scaled(system.prime + 1).coefficients == (1,)
    with pytest.raises(InputError, match="a Signal or an int, not a float"):
        x.scaled(0.5)  # type: ignore[arg-type]


def test_hints_that_fail() -> None:
    def function(system: System) -> None:
        x = system.private("x")
        (root,) = system.hint(lambda value: {25: np.int64(5), 9: -3}[value], [x])
        system.assert_equal(root * root, x)

    circuit = r1cs.trace(function)
    for _ in range(2):
        assert circuit.witness({"x": 25}).values[2, 0] == 5
        assert int(circuit.witness({"x": 9}).values[2, 0]) == (circuit.field.value - 3) % (1 << 32)
        with pytest.raises(InputError, match=r"the hint .*<lambda> raised KeyError") as refused:
            circuit.witness({"x": 16})
        assert isinstance(refused.value.__cause__, KeyError)
        circuit.prepare()


def test_tampering_beyond_the_hints() -> None:
    """A prover asks no hints: one that takes only right values, or gives others, hides nothing."""

    def function(back: Callable[[int], int], system: System) -> None:
        x = system.private("x")
        (root,) = system.hint(lambda value: {25: 5}[value], [x])
        (again,) = system.hint(back, [root])
        system.assert_equal(again, x)
        system.output("root", root)

    for back in (lambda value: {5: 25}[value], lambda value: value * value):
        forgeries = r1cs.trace(partial(function, back)).tamper(10, {"x": 25})
        assert {(forgery.before, forgery.public, forgery.error) for forgery in forgeries} == {
            (5, ("root",), True)
        }


def test_tampering_with_an_unsatisfied_witness() -> None:
    """Otherwise no tampering would be accepted, whatever the circuit."""

    def function(system: System) -> None:
        system.assert_equal(system.private("x") ** 2, 4)
        system.hint(lambda: 1, [])

    circuit = r1cs.trace(function)
    with pytest.raises(r1cs.UnsatisfiedError, match=r": 9 \* 1 != 4$"):
        circuit.tamper(10, {"x": 3})
    assert circuit.tamper(10, {"x": 2})


def test_witness_must_start_with_one() -> None:
    """Without a constant all zeros satisfy the constraints."""
    circuit = r1cs.trace(square)
    for first in (0, 2, circuit.field.value - 1):
        with pytest.raises(InputError, match="the first value of a witness must be 1"):
            circuit.check([first, 0, 0, 0])
    assert not circuit.check([circuit.field.value + 1, 0, 0, 0])
    with pytest.raises(MismatchError, match="3 values"):
        circuit.check([0, 0, 0])


def test_wire_in_vanishing_terms_is_unconstrained() -> None:
    def function(system: System) -> None:
        x, y, z = (system.private(name) for name in "xyz")
        system.enforce(x, y - y, z)
        system.enforce(0, y, z + 1)

    lints = {(lint.kind, lint.message) for lint in r1cs.trace(function).lints()}
    assert lints == {("unconstrained wire", "x"), ("unconstrained wire", "y")}

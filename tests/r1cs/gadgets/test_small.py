"""Logic, packing, orders and lookups, over all values where these are few."""

from __future__ import annotations

import itertools

import pytest

from quod import r1cs
from quod.errors import InputError
from quod.r1cs import gadgets
from quod.testing import assert_fails, assert_satisfied
from tests.r1cs.gadgets.gadget import inner, made, outputs, sound


def test_logic() -> None:
    def gadget(system: r1cs.ConstraintSystem) -> list[r1cs.Signal]:
        a, b, c = bits = system.private("bits", 3)
        gadgets.assert_bits(system, bits)
        return [
            gadgets.exclusive_or(system, a, b), gadgets.exclusive_or_of_three(system, a, b, c),
            gadgets.inclusive_or(system, a, b), gadgets.majority(system, a, b, c),
        ]  # fmt: skip

    circuit = made(gadget)
    assert inner(circuit) == 3 + 1 + 2 + 1 + 2
    for a, b, c in itertools.product((0, 1), repeat=3):
        expected = [a ^ b, a ^ b ^ c, a | b, int(a + b + c > 1)]
        assert outputs(circuit, bits=[a, b, c]) == expected
        sound(circuit, 99, bits=[a, b, c])
    assert_fails(circuit, {"bits": [2, 0, 0]})


def test_constant_operands_add_no_constraints() -> None:
    def gadget(system: r1cs.ConstraintSystem) -> list[r1cs.Signal]:
        a = system.declare_upper_bound(system.private("a"), 1)
        return [
            gadgets.exclusive_or(system, a, 1), gadgets.exclusive_or_of_three(system, 1, a, 0),
            gadgets.inclusive_or(system, a, 0), gadgets.majority(system, a, 1, 0),
        ]  # fmt: skip

    circuit = made(gadget)
    assert inner(circuit) == 0
    assert outputs(circuit, a=1) == [0, 0, 1, 1]
    assert outputs(circuit, a=0) == [1, 1, 0, 0]


def test_packing() -> None:
    def gadget(system: r1cs.ConstraintSystem) -> list[r1cs.Signal]:
        bits = gadgets.unpack_elements(system, system.private("x", 3), 8)
        return gadgets.pack_elements(system, bits, 16)

    circuit = made(gadget)
    assert inner(circuit) == 3 * 9
    assert outputs(circuit, x=[1, 2, 255]) == [0x201, 255]
    sound(circuit, 99, x=[1, 2, 255])
    assert_fails(circuit, {"x": [1, 256, 0]})
    circuit_of_bits = made(
        lambda system: gadgets.pack_elements(system, system.private_bits("x", 300))
    )
    number = (1 << 300) - 5
    assert outputs(circuit_of_bits, x=number) == [number % (1 << 253), number >> 253]


@pytest.mark.parametrize("size", [1, 3])
def test_orders(size: int) -> None:
    """All pairs, and false claims about them."""

    def gadget(system: r1cs.ConstraintSystem) -> list[r1cs.Signal]:
        a, b = (system.declare_upper_bound(system.private(name), (1 << size) - 1) for name in "ab")
        return [
            gadgets.is_less(system, a, b, size), gadgets.is_at_most(system, a, b, size)
        ]  # fmt: skip

    def claims(system: r1cs.ConstraintSystem) -> None:
        a, b, c = (
            system.declare_upper_bound(system.private(name), (1 << size) - 1) for name in "abc"
        )
        with system.namespace("less"):
            gadgets.assert_less(system, a, b, size)
        with system.namespace("at most"):
            gadgets.assert_at_most(system, a, c, size)

    circuit, claim = made(gadget), r1cs.trace(claims)
    assert inner(circuit) == 2 * (size + 2)
    assert claim.constraints == 2 * (size + 1)
    for a, b in itertools.product(range(1 << size), repeat=2):
        assert outputs(circuit, a=a, b=b) == [int(a < b), int(a <= b)]
        if a < b:
            assert_satisfied(claim, {"a": a, "b": b, "c": a})
        else:
            assert_fails(claim, {"a": a, "b": b, "c": a}, "less")
        if a > b:
            assert_fails(claim, {"a": a, "b": a + 1, "c": b}, "at most")
    sound(circuit, 99, a=1, b=0)
    sound(claim, 99, a=0, b=1, c=0)


@pytest.mark.parametrize("most", [0, 1, 5, 6, 7, 8, 11, 12, 13, 14, 15, 31])
def test_bits_against_a_constant(most: int) -> None:
    """Every number of four bits, for constants with runs of either kind at either end."""

    def gadget(system: r1cs.ConstraintSystem) -> None:
        gadgets.assert_bits_at_most(system, system.private_bits("x", 4), most)

    circuit = r1cs.trace(gadget)
    for number in range(16):
        if number <= most:
            assert_satisfied(circuit, {"x": number})
        else:
            assert_fails(circuit, {"x": number})


def test_lookups() -> None:
    """By bits, by index, of signals and of constants."""
    table = [5, 1 << 200, 0, 7, 7, -1, 3, 2]

    def gadget(system: r1cs.ConstraintSystem) -> list[r1cs.Signal]:
        bits, index = system.private_bits("bits", 3), system.private("index")
        values = system.private("values", 8)
        return [
            gadgets.choose(system, bits, values), gadgets.choose_at(system, index, values),
            *gadgets.look_up(system, bits, [table, [at * at for at in range(8)]]),
            *gadgets.one_hot(system, index, 8),
        ]  # fmt: skip

    circuit = made(gadget)
    assert inner(circuit) == 3 + 7 + 17 + (1 + 2) + 9
    values = [11 * at + 3 for at in range(8)]
    for place in range(8):
        chosen = outputs(circuit, bits=place, index=place, values=values)
        hot = [int(at == place) for at in range(8)]
        expected = [
            values[place],
            values[place],
            table[place] % circuit.field.value,
            place**2,
            *hot,
        ]
        assert chosen == expected
    sound(circuit, 99, bits=5, index=2, values=values)
    for index in (8, -1):
        assert_fails(circuit, {"bits": 0, "index": index, "values": values})


def test_hostile_arguments() -> None:
    system = r1cs.ConstraintSystem("bn254")
    bits = system.private("bits", 2)
    gadgets.assert_bits(system, bits)
    other = r1cs.ConstraintSystem("bn254").private("x")
    with pytest.raises(InputError, match="2 bits choose of 4 values"):
        gadgets.choose(system, bits, [1, 2, 3])
    with pytest.raises(InputError, match="2 bits choose of a table of 4 numbers"):
        gadgets.look_up(system, bits, [[1, 2]])
    with pytest.raises(InputError, match="two circuits"):
        gadgets.exclusive_or(system, bits[0], other)
    with pytest.raises(InputError, match="size must be a whole number from 1 to 251"):
        gadgets.is_less(system, 1, 2, 252)
    with pytest.raises(InputError, match="at least 1 signals, not 0"):
        gadgets.choose_at(system, bits[0], [])

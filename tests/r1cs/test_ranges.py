"""Ranges implied by constraints: correct circuits pass, and no solution exceeds a range."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest

from quod import r1cs
from quod.field.moduli import Modulus
from quod.r1cs import gadgets
from tests.r1cs.gadgets.solutions import system_over

System = r1cs.ConstraintSystem


def bits_that_are_shown() -> dict[str, Callable[[System], Any]]:
    """Signals that the constraints of right circuits show to be bits."""

    def enforced(*sides: Callable[[Any], Any]) -> Callable[[System], Any]:
        def bit(system: System) -> Any:
            x = system.private("x")
            system.enforce(*(side(x) for side in sides))
            return x

        return bit

    def equal(system: System) -> Any:
        x = system.private("x")
        system.assert_equal(x, system.private_bits("b", 1)[0])
        return x

    def solved(system: System) -> Any:
        wire = system.wire()
        system.enforce(1, system.private_bits("b", 1)[0], wire)
        return wire

    def sum_of_one_wire(system: System) -> Any:
        x = system.private("x")
        system.boolean(x + 1 - system.one)
        return x

    return {
        "x(x - 1)": enforced(lambda x: x, lambda x: x - 1, lambda x: 0),
        "(x - 1)x": enforced(lambda x: x - 1, lambda x: x, lambda x: 0),
        "x(1 - x)": enforced(lambda x: x, lambda x: 1 - x, lambda x: 0),
        "xx - x": enforced(lambda x: x, lambda x: x, lambda x: x),
        "an output": lambda system: system.output("out", system.private_bits("b", 1)[0]),
        "equal to a bit": equal,
        "a wire": solved,
        "a sum of one wire": sum_of_one_wire,
    }


@pytest.mark.parametrize("name", bits_that_are_shown())
def test_bits_by_other_constraints(name: str) -> None:
    system = System("bn254")
    bit = bits_that_are_shown()[name](system)
    assert system.upper_bound(bit) == 1
    system.select(bit, system.private("chosen"), system.private("other"))


def test_constraints_that_imply_no_bit() -> None:
    system = System("bn254")
    x, y = system.private("x"), system.private("y")
    for a, b, c in (
        (x, x - 2, 0), (x, x + 1, 0), (x, y - 1, 0), (x, x - 1, 1), (x, x, y), (x, 1 - x, y),
        (x, 2 - x, 0), (x, y, x),
    ):  # fmt: skip
        system.enforce(a, b, c)
        assert system.upper_bound(x) is None
        assert system.upper_bound(y) is None


def test_small_numbers() -> None:
    """Products of small numbers, and what is chosen from small ones."""
    system = System("bn254")
    x, y = system.private("x", 2)
    system.bits(x, 8)
    system.bits(y, 4)
    (bit,), digits = system.private_bits("bit", 1), system.private_bits("digits", 3)
    assert system.upper_bound(bit * x) == 255
    assert system.upper_bound(x * y) == 255 * 15
    assert system.upper_bound(gadgets.choose_at(system, system.private("at"), [x, y, 7])) == 255
    assert system.upper_bound(gadgets.choose_at(system, system.private("i"), [x, x - y])) is None
    (looked_up,) = gadgets.look_up(system, digits, [[9, 2, 3, 4, 5, 6, 7, 200]])
    assert system.upper_bound(looked_up) == 200
    gadgets.assert_less(system, looked_up, bit * x, 8)
    long = system.private("long")
    system.bits(long, 200)
    assert system.upper_bound(long * long) is None


def test_no_solution_exceeds_a_range() -> None:
    """All constraints of short sums of two signals, with and without ranges known before."""
    field, compared = Modulus("p13", 13), 0
    forms = [(k, m) for k in (0, 1, 2, -1) for m in (0, 1, -1)]
    ends = [(0, 0), (0, 1), (1, 0), (1, 1), (2, 0)]
    for most in (12, 1, 3):
        pairs = list(itertools.product(range(most + 1), repeat=2))
        for left, right, (over_y, end) in itertools.product(forms, forms, ends):
            system = system_over(field)
            x, y = system.private("x"), system.private("y")
            if most < 12:
                for signal in (x, y):
                    system.declare_upper_bound(signal, most)

            def sides(x: Any, y: Any, terms: Any = (left, right, (over_y, end))) -> tuple[Any, ...]:
                (j, m), (k, n), (over, end) = terms
                return x * j + m, x * k + n, y * over + end

            system.enforce(*sides(x, y))
            solutions = []
            for u, v in pairs:
                a, b, c = sides(u, v)
                if (a * b - c) % 13 == 0:
                    solutions.append((u, v))
            values = {
                signal: [at(u, v) % 13 for u, v in solutions]
                for signal, at in (
                    (x, lambda u, v: u), (y, lambda u, v: v), (1 - x, lambda u, v: 1 - u),
                    (x + 1, lambda u, v: u + 1), (2 * x - y, lambda u, v: 2 * u - v),
                    (3 * x + y, lambda u, v: 3 * u + v),
                )
            }  # fmt: skip
            for signal, reached in values.items():
                bound = system.upper_bound(signal)
                assert bound is None or max(reached, default=0) <= bound, (most, left, right)
                compared += bound is not None
    assert compared > 5_000

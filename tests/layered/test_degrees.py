"""Degrees in challenges: a bound for each value, which is the degree where nothing cancels."""

from __future__ import annotations

import math

import pytest

from quod.field import NAMED
from quod.layered import CircuitBuilder, Program, Random

M31 = NAMED["m31"]


def test_degrees_follow_values_not_layers() -> None:
    program = Program(M31)
    x = program.inputs("x", 6)
    challenge, other = program.random(), program.random()
    values = [wire + challenge for wire in x[:5]]
    program.assert_zero(math.prod(values[1:], start=values[0]), "product")
    # Degree 5 in the challenge, beside much more in the inputs, and 2 in two challenges.
    deep = x[5]
    for _ in range(4):
        deep = (deep**5).as_value()
    program.assert_zero(
        deep - x[0] + (challenge * x[1]).as_value() * (other * x[2]).as_value(), "deep"
    )
    assert program.finished().circuit.degree_in_randoms == 5


@pytest.mark.parametrize("layers", [1, 25, 26, 30, 60])
def test_degrees_beyond_a_machine_word(layers: int) -> None:
    builder = CircuitBuilder(M31, log_inputs=1)
    builder.layer(1).add(0, 0, Random(0))
    for _ in range(layers):
        builder.layer(1).power(0, 0, 5)
    last = builder.layer(1)
    last.multiply(0, 0, 0, Random(1))
    # What is no zero that is asked for does not count.
    last.multiply(1, 0, 0, Random(1))
    builder.layer(1).add(0, 0, Random(2))
    assert builder.finished(zeros=1).degree_in_randoms == 2 * 5**layers + 2


def test_without_challenges() -> None:
    builder = CircuitBuilder(M31, log_inputs=1)
    builder.layer(1).power(0, 0, 5, 3)
    assert builder.finished().degree_in_randoms == 0

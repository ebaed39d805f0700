"""The element-wise kernels: integers, the interpreter and every executor agree."""

from __future__ import annotations

import random

import numpy as np
import pytest

from quod.field import kernels
from quod.field.spec import FieldSpec
from quod.kernel import KernelDefinition
from tests.field.models import (
    SOME_PRIMES,
    SOME_SPECS,
    Array,
    Coefficients,
    Model,
    hostile_integers,
    packed,
    spec_name,
    unpacked,
)
from tests.support.executors import run_everywhere
from tests.support.thorough import one_and_others

COUNT = 61  # the last workgroup is not full
GROUPS = 8


def operands(spec: FieldSpec, seed: int) -> list[Coefficients]:
    hostile = hostile_integers(spec.modulus)
    source = random.Random(seed)
    edge = [(value,) * spec.degree for value in (0, 1, spec.modulus.value - 1)]
    some = [tuple(source.choices(hostile, k=spec.degree)) for _ in range(COUNT - 3)]
    return [*edge, *some] if seed % 2 else [*some, *edge]


def run(
    definition: KernelDefinition, spec: FieldSpec, *operands: Array, numbers: tuple[int, ...] = ()
) -> list[Coefficients]:
    out = np.zeros((COUNT, spec.words // 2), np.uint64)
    arguments = [COUNT, *numbers, *operands, out]
    return unpacked(spec, run_everywhere(definition, GROUPS, arguments, spec=spec)[-1])


SOME = pytest.mark.parametrize("spec", SOME_SPECS, ids=spec_name)
PRIMES_AND_OTHERS = pytest.mark.parametrize(
    "spec", one_and_others(SOME_SPECS, SOME_PRIMES[:1]), ids=spec_name
)
"""For kernels of which those over an extension take interpreters long."""


@PRIMES_AND_OTHERS
def test_linear_operations_and_products(spec: FieldSpec) -> None:
    model, x, y = Model(spec), operands(spec, 1), operands(spec, 2)
    a, b = packed(spec, x), packed(spec, y)
    pairs = list(zip(x, y, strict=True))
    assert run(kernels.field_add, spec, a, b) == [model.add(*pair) for pair in pairs]
    assert run(kernels.field_subtract, spec, a, b) == [model.subtract(*pair) for pair in pairs]
    assert run(kernels.field_multiply, spec, a, b) == [model.multiply(*pair) for pair in pairs]
    assert run(kernels.field_square, spec, a) == [model.multiply(value, value) for value in x]


@PRIMES_AND_OTHERS
def test_inverse(spec: FieldSpec) -> None:
    x = operands(spec, 3)
    assert run(kernels.field_inverse, spec, packed(spec, x)) == list(map(Model(spec).inverse, x))


@PRIMES_AND_OTHERS
def test_montgomery_form(spec: FieldSpec) -> None:
    radix = spec.modulus.montgomery_radix
    x = operands(spec, 4)
    p = spec.modulus.value
    a = packed(spec, x)
    assert run(kernels.field_to_montgomery, spec, a) == [
        tuple(c * radix % p for c in value) for value in x
    ]
    assert run(kernels.field_from_montgomery, spec, a) == [
        tuple(c * pow(radix, -1, p) % p for c in value) for value in x
    ]


@SOME
def test_sum(spec: FieldSpec) -> None:
    terms = 5
    model = Model(spec)
    values = [operands(spec, seed) for seed in range(terms)]
    a = packed(spec, [value for row in values for value in row])
    expected = [model.constant(0)] * COUNT
    for row in values:
        expected = [model.add(total, value) for total, value in zip(expected, row, strict=True)]
    assert run(kernels.field_sum, spec, a, numbers=(terms,)) == expected

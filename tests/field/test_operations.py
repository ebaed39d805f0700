"""Every operation of prime fields and quadratic extensions, on hostile and random elements."""

from __future__ import annotations

import itertools
import random
from typing import Any

import numpy as np
import pytest

from quod.device.cpu.device import CpuDevice
from quod.field.any_field import field_arithmetic
from quod.field.element import AnyElement
from quod.field.spec import FieldSpec
from quod.kernel import U32, U64, Builder, Pointer, kernel
from tests.field.models import (
    SOME_SPECS,
    Coefficients,
    Model,
    hostile_integers,
    packed,
    random_integers,
    spec_name,
    unpacked,
)


def expressions(f: Any, x: Any, y: Any) -> dict[str, Any]:
    """Return the tested expressions, for the field of a kernel and for a model alike."""
    add, sub, neg, mul = f.add, f.subtract, f.negate, f.multiply
    product = mul(x, y)
    return {
        "x": x,
        "x + y": add(x, y),
        "x - y": sub(x, y),
        "-x": neg(x),
        "x * y": product,
        "(xy - x)(2y - x)": mul(sub(product, x), sub(add(y, y), x)),
        "(x + y)(x - y)": mul(add(x, y), sub(x, y)),
        "-(x - (xy + y))": neg(sub(x, add(product, y))),
        "16 sums": mul(sixteen(f, add(x, product)), sixteen(f, sub(y, product))),
        "constants": add(mul(f.constant(-1), x), f.constant(3)),
        "x**5": f.power(x, 5),
        "x**(2**9 + 1)": f.power(x, (1 << 9) + 1),
        "x**0": f.power(x, 0),
    }


def sixteen(f: Any, a: Any) -> Any:
    for _ in range(4):
        a = f.add(a, a)
    return a


@kernel
def operations(
    k: Builder, n: U32, a: Pointer[U64], b: Pointer[U64], out: Pointer[U64], *, spec: FieldSpec
) -> None:
    """Every expression, and operations that a model has under another name."""
    f = field_arithmetic(k, spec)
    i = k.global_id()
    with k.if_(i < n):
        x, y = f.load(a, i), f.load(b, i)
        results = list(expressions(f, x, y).values())
        equal = f.words_are_equal(f.to_words(x), f.to_words(y))
        results += [
            f.square(x), f.square(f.double(x - y)), f.reduce(f.times(x, 13)), f.times(x, -5),
            f.select(equal, x, f.zero()), f.select(f.is_zero(x), f.one(), f.bounded(y)),
            f.bounded(f.times(y, 9) - x) * f.fit(f.times(x, 7)),
        ]  # fmt: skip
        for j, result in enumerate(results):
            f.store(out, i * len(results) + j, result)


def expected(model: Model, x: Coefficients, y: Coefficients) -> list[Coefficients]:
    def times(a: Coefficients, factor: int) -> Coefficients:
        return tuple(c * factor % model.p for c in a)

    double = times(model.subtract(x, y), 2)
    zero, one = model.constant(0), model.constant(1)
    return [
        *expressions(model, x, y).values(),
        model.multiply(x, x), model.multiply(double, double), times(x, 13), times(x, -5),
        x if x == y else zero, one if x == zero else y,
        model.multiply(model.subtract(times(y, 9), x), times(x, 7)),
    ]  # fmt: skip


def operand_pairs(spec: FieldSpec) -> list[tuple[Coefficients, Coefficients]]:
    hostile = hostile_integers(spec.modulus)
    source = random.Random(7)
    some = [tuple(source.choices(hostile, k=spec.degree)) for _ in range(60)]
    edge = [(value,) * spec.degree for value in (0, 1, spec.modulus.value - 1)]
    pairs = list(itertools.product(edge, edge)) + list(zip(some, reversed(some), strict=True))
    pairs += [(a, a) for a in some[:20]]
    numbers = random_integers(spec.modulus, 400 * spec.degree, 11)
    randoms = list(zip(*[iter(numbers)] * spec.degree, strict=True))
    return pairs + list(zip(randoms[::2], randoms[1::2], strict=True))


@pytest.mark.parametrize("spec", SOME_SPECS, ids=spec_name)
def test_operations(device: CpuDevice, spec: FieldSpec) -> None:
    pairs = operand_pairs(spec)
    model = Model(spec)
    wanted = [expected(model, x, y) for x, y in pairs]
    a, b = packed(spec, [x for x, _ in pairs]), packed(spec, [y for _, y in pairs])
    out = np.zeros((len(pairs) * len(wanted[0]), a.shape[1]), np.uint64)
    compiled = device.compile(operations, spec=spec)
    device.launch(compiled, -(-len(pairs) // device.lanes), len(pairs), a, b, out)
    results = unpacked(spec, out)
    names = list(expressions(model, pairs[0][0], pairs[0][1]))
    count = len(wanted[0])
    for index, (x, y) in enumerate(pairs):
        for j in range(count):
            name = names[j] if j < len(names) else f"result {j}"
            assert results[index * count + j] == wanted[index][j], (name, x, y)


def test_element_kind_is_abstract_without_a_metaclass() -> None:
    """isinstance runs on every traced operand, so that AnyElement has no metaclass."""
    assert AnyElement._kind.__isabstractmethod__  # type: ignore[attr-defined]
    assert type(AnyElement) is type

"""Random expressions of field operations: the bounds followed while tracing always suffice."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from quod.device.cpu.device import CpuDevice
from quod.field.any_field import field_arithmetic
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
from tests.support.thorough import one_and_others

COUNT = 128

Expression = tuple[Any, ...]


def expressions() -> st.SearchStrategy[Expression]:
    """Trees over the variables x, y, z; sums are common, as it is they that make limbs grow."""
    leaves = st.sampled_from([("x",), ("y",), ("z",), ("constant", 3), ("constant", -1)])
    operations = st.sampled_from(
        ["add", "add", "add", "subtract", "subtract", "subtract", "multiply", "multiply"]
    )

    def grown(inner: st.SearchStrategy[Expression]) -> st.SearchStrategy[Expression]:
        return st.one_of(
            st.tuples(operations, inner, inner),
            st.tuples(st.sampled_from(["square", "negate", "bounded", "fit", "reduce"]), inner),
            st.tuples(st.just("times"), inner, st.sampled_from([2, 3, 8, 13, -1, -4, 60])),
            st.tuples(st.just("choose"), inner, inner),
        )

    return st.recursive(leaves, grown, max_leaves=14)


def in_kernel(f: Any, expression: Expression, values: dict[str, Any], condition: Any) -> Any:
    name, *terms = expression
    if name in values:
        return values[name]
    if name == "constant":
        return f.constant(terms[0])
    parts = [
        in_kernel(f, part, values, condition) if isinstance(part, tuple) else part for part in terms
    ]
    if name == "choose":
        return f.select(condition, *parts)
    return getattr(f, name)(*parts)


def in_model(model: Model, expression: Expression, values: dict[str, Any], condition: bool) -> Any:
    name, *terms = expression
    if name in values:
        return values[name]
    if name == "constant":
        return model.constant(terms[0])
    parts = [
        in_model(model, part, values, condition) if isinstance(part, tuple) else part
        for part in terms
    ]
    match name:
        case "choose":
            return parts[0 if condition else 1]
        case "bounded" | "fit" | "reduce":
            return parts[0]
        case "square":
            return model.multiply(parts[0], parts[0])
        case "times":
            return tuple(c * parts[1] % model.p for c in parts[0])
    return getattr(model, name)(*parts)


@kernel
def evaluate(
    k: Builder,
    n: U32,
    x: Pointer[U64],
    y: Pointer[U64],
    z: Pointer[U64],
    out: Pointer[U64],
    *,
    spec: FieldSpec,
    expression: Expression,
) -> None:
    """out[i] = the expression of x[i], y[i] and z[i]; it chooses its first side where i is even."""
    f = field_arithmetic(k, spec)
    i = k.global_id()
    with k.if_(i < n):
        values = {name: f.load(array, i) for name, array in (("x", x), ("y", y), ("z", z))}
        f.store(out, i, in_kernel(f, expression, values, (i & 1) == 0))


def operands(spec: FieldSpec, seed: int) -> list[Coefficients]:
    source = random.Random(seed)
    hostile = hostile_integers(spec.modulus)
    edge = [0, spec.modulus.value - 1, *random_integers(spec.modulus, 4, seed)]
    return [
        tuple(source.choice(hostile if source.random() < 0.7 else edge) for _ in range(spec.degree))
        for _ in range(COUNT)
    ]


@pytest.mark.parametrize("spec", one_and_others(SOME_SPECS), ids=spec_name)
@settings(
    max_examples=15, deadline=None, derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)  # fmt: skip
@given(expression=expressions())
def test_expressions(device: CpuDevice, spec: FieldSpec, expression: Expression) -> None:
    model = Model(spec)
    columns = [operands(spec, seed) for seed in (1, 2, 3)]
    arrays = [packed(spec, column) for column in columns]
    out = np.zeros_like(arrays[0])
    compiled = device.compile(evaluate, spec=spec, expression=expression)
    device.launch(compiled, COUNT // device.lanes, COUNT, *arrays, out)
    for i, (result, *row) in enumerate(zip(unpacked(spec, out), *columns, strict=True)):
        wanted = in_model(model, expression, dict(zip("xyz", row, strict=True)), i % 2 == 0)
        assert result == wanted, (expression, row)

"""Folding, sharing and removal: what is recorded, and that it computes the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quod.kernel import (
    F32,
    U32,
    Bool,
    Builder,
    Kernel,
    Pointer,
    Value,
    function,
    kernel,
    pointer,
    u32,
    u64,
)
from quod.kernel.definition import KernelDefinition
from quod.kernel.interpreter.interpreter import interpret
from quod.kernel.ir import types
from quod.kernel.ir.nodes import Location, walk
from quod.kernel.ops.scalar import NUMPY_TYPES, OPS
from tests.kernel.machines import EIGHT, ONE
from tests.kernel.op_kernels import OP_CASES, OpCase
from tests.kernel.random_kernels import Expression, build, expressions, leaves
from tests.support.selection import runs_all


def counts(traced: Kernel) -> Counter[str]:
    """Count each op of a kernel, without yields."""
    op_counts = Counter(op.name for op in walk(traced.block))
    del op_counts["yield"]
    return op_counts


def ops_of(body: Callable[..., None]) -> dict[str, int]:
    return dict(counts(kernel(body).trace(ONE)))


def test_constants_are_folded() -> None:
    def folded(k: Builder, y: Pointer[U32]) -> None:
        three = k.constant(3, u32)
        y[0] = (three + 4) * (k.constant(1, u32) << 5) - three // 0

    # One constant for the value, one for the index.
    assert ops_of(folded) == {"const": 2, "store": 1}
    y = np.zeros(1, np.uint32)
    interpret(kernel(folded).trace(ONE), 1, [y])
    assert y[0] == (7 * 32 - 0xFFFFFFFF) % 2**32


@pytest.mark.parametrize(
    "expression",
    [
        lambda k, n: n + 0,
        lambda k, n: 0 + n,
        lambda k, n: n - 0,
        lambda k, n: n * 1,
        lambda k, n: 1 * n,
        lambda k, n: n // 1,
        lambda k, n: n | 0,
        lambda k, n: n ^ 0,
        lambda k, n: 0xFFFFFFFF & n,
        lambda k, n: n << 0,
        lambda k, n: n >> 0,
        lambda k, n: k.select(n < 5, n, n),
        lambda k, n: k.select(k.constant(True, types.bool_), n, n + 1),
        lambda k, n: k.select(k.constant(False, types.bool_), n + 1, n),
        lambda k, n: n.cast(u32),
    ],
)
def test_identities(expression: Callable[[Builder, Value], Value]) -> None:
    def identity(k: Builder, n: U32, y: Pointer[U32]) -> None:
        same = expression(k, n)
        assert same is n
        y[0] = same

    assert ops_of(identity) == {"const": 1, "store": 1}


@pytest.mark.parametrize(
    "expression",
    [lambda k, n: n * 0, lambda k, n: 0 & n, lambda k, n: k.emit("mul_hi", (n, n * 0))],
)
def test_zeros(expression: Callable[[Builder, Value], Value]) -> None:
    def zero(k: Builder, n: U32, y: Pointer[U32]) -> None:
        assert expression(k, n).constant == 0

    ops_of(zero)


def test_flags() -> None:
    def flags(k: Builder, b: Bool) -> None:
        assert (b & True) is b
        assert (b & False).constant is False
        assert (b | False) is b
        assert (True | b).constant is True
        assert (b ^ False) is b
        assert (b ^ True) is not b

    ops_of(flags)


def test_floats_are_not_simplified() -> None:
    def floats(k: Builder, a: F32, y: Pointer[F32]) -> None:
        # a + 0.0 turns -0.0 into 0.0, and a * 0.0 may be NaN.
        k.store(y, 0, a + 0.0, a * 0.0, a * 1.0)

    assert ops_of(floats) == {"const": 3, "add": 1, "mul": 2, "store": 1}


def test_signed_zeros_and_bools_are_distinguished() -> None:
    def signs(k: Builder, y: Pointer[F32]) -> None:
        k.store(y, 0, k.constant(0.0, types.f32), k.constant(-0.0, types.f32))

    y = np.ones(2, np.float32)
    interpret(kernel(signs).trace(ONE), 1, [y])
    assert np.signbit(y).tolist() == [False, True]


def test_equal_ops_are_shared() -> None:
    def shared(k: Builder, n: U32, y: Pointer[U32]) -> None:
        y[0] = (n + 5) * (n + 5)
        with k.if_(n < 3):
            y[1] = n + 5
        y[2] = k.local_id() + k.local_id()

    # Loads are not shared: a store may lie between.
    assert ops_of(shared) == {
        "const": 5, "add": 2, "mul": 1, "store": 3, "lt": 1, "if": 1, "local_id": 1,
    }  # fmt: skip


def test_ops_in_a_region_are_not_shared_outside() -> None:
    @kernel
    def regions(k: Builder, n: U32, y: Pointer[U32]) -> None:
        with k.if_(n < 3) as branch:
            y[0] = n * 9
        with branch.otherwise():
            y[0] = n * 9
        y[1] = n * 9

    assert counts(regions.trace(ONE))["mul"] == 3


def test_loads_are_not_shared() -> None:
    def loads(k: Builder, y: Pointer[U32]) -> None:
        y[0] = y[1]
        y[2] = y[1]

    assert ops_of(loads)["load"] == 2


def test_dead_code_is_removed() -> None:
    @function
    def pure(k: Builder, a: Value) -> Value:
        return a * a

    @function
    def writes(k: Builder, a: Value, y: Value) -> Value:
        y[0] = a
        return a

    @kernel
    def dead(k: Builder, n: U32, y: Pointer[U32]) -> None:
        y[3] * n
        k.emit_many("add_cc", (n, n))
        pure(k, n)
        with k.if_(n < 3) as branch:
            branch.yield_(n * 3)
        with branch.otherwise():
            branch.yield_(n)
        with k.range(0, n, carry=n) as loop:
            loop.next(pure(k, loop.carried))
        writes(k, n, y)

    traced = dead.trace(ONE)
    assert dict(counts(traced)) == {"call": 1}
    assert [f.name for f in traced.functions] == ["writes"]


def test_ops_with_effects_are_kept() -> None:
    def needed(k: Builder, n: U32, y: Pointer[U32]) -> None:
        with k.while_(n) as loop:
            loop.check(loop.carried < 3)
            loop.next(loop.carried + 1)
        k.atomic_add(y, 0, n)
        k.barrier()
        k.shared(u32, 4)

    op_counts = ops_of(needed)
    for name in ("while", "atomic_add", "barrier", "shared"):
        assert op_counts[name] == 1


def test_carry_chains_of_used_ops_are_kept() -> None:
    def chain(k: Builder, n: U32, y: Pointer[U32]) -> None:
        _, carry = k.emit_many("add_cc", (n, n))
        y[1] = k.emit("addc", (n, n, carry))

    assert ops_of(chain) == {"add_cc": 1, "addc": 1, "const": 1, "store": 1}


def test_functions_are_traced_once_for_each_signature() -> None:
    @function
    def double(k: Builder, a: Value, *, factor: int = 2) -> Value:
        return a * factor

    @kernel
    def calls(k: Builder, n: U32, y: Pointer[U32]) -> None:
        k.store(
            y, 0, double(k, n), double(k, n + 1), double(k, n, factor=3), double(k, n, factor=2)
        )
        k.store(y.cast(u64), 3, double(k, n.cast(u64)))

    traced = calls.trace(ONE)
    names = [f.name for f in traced.functions]
    assert names == ["double", "double.1", "double.2", "double.3"]
    assert counts(traced)["call"] == 5


@given(st.data())
@settings(max_examples=150 if runs_all() else 70, deadline=None)
def test_folded_and_interpreted_expressions_agree(data: st.DataObject) -> None:
    """Once with numbers that the tracer knows and folds, once with numbers that it loads."""
    result_type = data.draw(st.sampled_from(types.SCALARS))
    expression: Expression = data.draw(expressions(result_type))
    numbers = leaves(expression)
    sources = {t: [leaf.number for leaf in numbers if leaf.type is t] for t in types.SCALARS}

    def known(k: Builder, out: Value, *arrays: Value) -> None:
        out[0] = build(k, expression, lambda leaf: k.constant(leaf.number, leaf.type))

    def loaded(k: Builder, out: Value, *arrays: Value) -> None:
        taken = dict.fromkeys(types.SCALARS, 0)
        by_type = dict(zip(types.SCALARS, arrays, strict=True))

        def load(leaf: Any) -> Value:
            taken[leaf.type] += 1
            return by_type[leaf.type][taken[leaf.type] - 1]

        out[0] = build(k, expression, load)

    results = []
    for body in (known, loaded):
        parameters = {"out": pointer(result_type)}
        parameters |= {t.name: pointer(t) for t in types.SCALARS}
        traced = KernelDefinition("expression", body, parameters, Location("e", 1)).trace(ONE)
        out = np.zeros(1, NUMPY_TYPES[result_type])
        arrays = [np.array(sources[t], NUMPY_TYPES[t]) for t in types.SCALARS]
        interpret(traced, 1, [out, *arrays])
        results.append(out)
        if body is known:
            assert set(counts(traced)) <= {"const", "store"}
    folded, computed = results
    if result_type.kind == "float" and np.isnan(folded[0]):
        assert np.isnan(computed[0])
    else:
        assert folded.tobytes() == computed.tobytes()


PURE_CASES = [case for case in OP_CASES if OPS[case.name].pure]


@pytest.mark.parametrize("case", PURE_CASES, ids=str)
def test_an_op_with_one_known_operand(case: OpCase) -> None:
    """The identities hold: each operand in turn is a constant that they look for."""
    random = np.random.default_rng(7)
    for position, type_ in enumerate(case.operand_types):
        numbers: list[Any] = [0, 1]
        if type_ is types.bool_:
            numbers = [False, True]
        elif type_.is_integer:
            numbers.append(-1 if type_.kind == "signed" else (1 << type_.bits) - 1)
        for number in numbers:
            _check_one_known(case, position, number, random)


def _check_one_known(case: OpCase, position: int, number: Any, random: np.random.Generator) -> None:
    result_type = case.result_types[0]
    kinds = case.operand_types

    def body(k: Builder, known_out: Value, loaded_out: Value, *arrays: Value) -> None:
        i = k.local_id()
        loaded = [array[i] for array in arrays]
        folded = list(loaded)
        folded[position] = k.constant(number, kinds[position])
        known_out[i] = k.emit(case.name, folded)
        loaded_out[i] = k.emit(case.name, loaded)

    parameters = {"known": pointer(result_type), "loaded": pointer(result_type)}
    parameters |= {f"in{n}": pointer(type_) for n, type_ in enumerate(kinds)}
    traced = KernelDefinition("one_known", body, parameters, Location("e", 1)).trace(EIGHT)
    arrays = []
    for type_ in kinds:
        raw = random.integers(0, 256, 8 * NUMPY_TYPES[type_]().itemsize, np.uint8)
        arrays.append((raw & 1 if type_ is types.bool_ else raw).view(NUMPY_TYPES[type_]))
    arrays[position] = np.full(8, number, NUMPY_TYPES[kinds[position]])
    outs = [np.zeros(8, NUMPY_TYPES[result_type]) for _ in range(2)]
    interpret(traced, 1, [*outs, *arrays])
    np.testing.assert_array_equal(*outs)

"""Every op of the table, against plain Python integers and floats, on hostile operands."""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from quod.kernel import Builder, Value
from quod.kernel.interpreter.interpreter import interpret
from quod.kernel.ir import types
from quod.kernel.ir.types import Type
from quod.kernel.ops.scalar import NUMPY_TYPES, OPS
from quod.kernel.ops.semantics import convert
from tests.kernel.hostile import Number, hostile, hostile_arrays
from tests.kernel.machines import MANY
from tests.kernel.op_kernels import OP_CASES, OpCase, elementwise, op_kernel


def wrap(value: int, type_: Type) -> int:
    low = -(1 << (type_.bits - 1)) if type_.kind == "signed" else 0
    return (value - low) % (1 << type_.bits) + low


def rounded(exact: Fraction, bits: int) -> float:
    """The nearest float, ties to even, of an exact value that is not zero."""
    digits, lowest, top = (24, -149, 128) if bits == 32 else (53, -1074, 1024)
    size = abs(exact)
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    if Fraction(2) ** exponent > size:
        exponent -= 1
    unit = Fraction(2) ** max(exponent - digits + 1, lowest)
    steps = size / unit
    quotient = steps.numerator // steps.denominator
    remainder = steps - quotient
    quotient += remainder > Fraction(1, 2) or (remainder == Fraction(1, 2) and quotient % 2 == 1)
    value = quotient * unit
    magnitude = math.inf if value >= Fraction(2) ** top else float(value)
    return math.copysign(magnitude, -1.0 if exact < 0 else 1.0)


def float_sum(a: float, b: float, bits: int) -> float:
    if not (math.isfinite(a) and math.isfinite(b)) or Fraction(a) + Fraction(b) == 0:
        return a + b
    return rounded(Fraction(a) + Fraction(b), bits)


def float_product(a: float, b: float, bits: int) -> float:
    if not (math.isfinite(a) and math.isfinite(b)) or a == 0 or b == 0:
        return a * b
    return rounded(Fraction(a) * Fraction(b), bits)


def float_quotient(a: float, b: float, bits: int) -> float:
    if math.isnan(a) or math.isnan(b):
        return math.nan
    sign = math.copysign(1, a) * math.copysign(1, b)
    if b == 0:
        return math.nan if a == 0 else sign * math.inf
    if math.isinf(a):
        return math.nan if math.isinf(b) else sign * math.inf
    if a == 0 or math.isinf(b):
        return sign * 0.0
    return rounded(Fraction(a) / Fraction(b), bits)


def float_fma(a: float, b: float, c: float, bits: int) -> float:
    if not all(map(math.isfinite, (a, b, c))):
        if math.isfinite(a) and math.isfinite(b):
            return c
        return a * b + c
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    if exact:
        return rounded(exact, bits)
    product_sign = math.copysign(1, a) * math.copysign(1, b)
    zero_product = a == 0 or b == 0
    return -0.0 if zero_product and product_sign < 0 and math.copysign(1, c) < 0 else 0.0


def float_root(a: float, bits: int) -> float:
    if math.isnan(a) or a < 0:
        return math.nan
    if a == 0 or math.isinf(a):
        return a
    # 200 more bits than the result has: the rest cannot be a tie.
    scaled = Fraction(a) * Fraction(4) ** 1400
    root = math.isqrt(scaled.numerator // scaled.denominator)
    inexact = Fraction(root) ** 2 != scaled
    return rounded(Fraction(2 * root + inexact, 2) / Fraction(2) ** 1400, bits)


def whole(rounding: Callable[[float], int], a: float) -> float:
    return math.copysign(rounding(a), a) if math.isfinite(a) else a


def smaller(a: Number, b: Number) -> Number:
    if isinstance(a, float) and isinstance(b, float):
        if math.isnan(a) or math.isnan(b):
            return math.nan
        if a == b == 0:
            return -0.0 if -1 in (math.copysign(1, a), math.copysign(1, b)) else 0.0
    return a if a < b else b


def larger(a: Number, b: Number) -> Number:
    return -smaller(-a, -b)


M52 = (1 << 52) - 1


def carried(total: int, type_: Type) -> tuple[int, int]:
    """A sum as digit and carry; a difference as digit and borrow."""
    digit = total % (1 << type_.bits)
    return digit, int(total != digit)


def zeros_before(a: int, type_: Type) -> int:
    return type_.bits - a.bit_length()


def zeros_after(a: int, type_: Type) -> int:
    return type_.bits if a == 0 else (a & -a).bit_length() - 1


def signed_bytes(a: int) -> list[int]:
    return list(array("b", a.to_bytes(4, "little")))


def signed_halves(a: int) -> list[int]:
    return list(array("h", a.to_bytes(4, "little")))


INTEGER_MODELS: dict[str, Callable[..., Any]] = {
    "add": lambda t, a, b: wrap(a + b, t),
    "sub": lambda t, a, b: wrap(a - b, t),
    "mul": lambda t, a, b: wrap(a * b, t),
    "div": lambda t, a, b: wrap(a // b if b else -1, t),
    "abs": lambda t, a: wrap(abs(a), t),
    "rem": lambda t, a, b: a % b if b else a,
    "min": lambda t, a, b: smaller(a, b),
    "max": lambda t, a, b: larger(a, b),
    "neg": lambda t, a: wrap(-a, t),
    "and": lambda t, a, b: a & b,
    "or": lambda t, a, b: a | b,
    "xor": lambda t, a, b: a ^ b,
    "not": lambda t, a: not a if t is types.bool_ else wrap(~a, t),
    "shl": lambda t, a, n: wrap(a << (n % t.bits), t),
    "shr": lambda t, a, n: a >> (n % t.bits),
    "mul_hi": lambda t, a, b: a * b >> t.bits,
    "mul_wide": lambda t, a, b: a * b,
    "dot4": lambda t, a, b, c: wrap(
        c + sum(x * y for x, y in zip(signed_bytes(a), signed_bytes(b), strict=True)), types.i32
    ),
    "dot2": lambda t, a, b, c: wrap(
        c + sum(x * y for x, y in zip(signed_halves(a), signed_halves(b), strict=True)), types.i32
    ),
    "madd52_lo": lambda t, c, a, b: wrap(c + ((a & M52) * (b & M52) & M52), types.u64),
    "madd52_hi": lambda t, c, a, b: wrap(c + ((a & M52) * (b & M52) >> 52), types.u64),
    "clz": lambda t, a: zeros_before(a, t),
    "ctz": lambda t, a: zeros_after(a, t),
    "popcount": lambda t, a: a.bit_count(),
    "add_cc": lambda t, a, b: carried(a + b, t),
    "addc_cc": lambda t, a, b, c: carried(a + b + c, t),
    "addc": lambda t, a, b, c: carried(a + b + c, t)[0],
    "sub_cc": lambda t, a, b: carried(a - b, t),
    "subc_cc": lambda t, a, b, c: carried(a - b - c, t),
    "subc": lambda t, a, b, c: carried(a - b - c, t)[0],
    "mad_lo_cc": lambda t, a, b, c: carried(wrap(a * b, t) + c, t),
    "madc_lo_cc": lambda t, a, b, c, x: carried(wrap(a * b, t) + c + x, t),
    "mad_hi_cc": lambda t, a, b, c: carried((a * b >> t.bits) + c, t),
    "madc_hi_cc": lambda t, a, b, c, x: carried((a * b >> t.bits) + c + x, t),
    "madc_hi": lambda t, a, b, c, x: carried((a * b >> t.bits) + c + x, t)[0],
}

FLOAT_MODELS: dict[str, Callable[..., Any]] = {
    "add": lambda t, a, b: float_sum(a, b, t.bits),
    "sub": lambda t, a, b: float_sum(a, -b, t.bits),
    "mul": lambda t, a, b: float_product(a, b, t.bits),
    "div": lambda t, a, b: float_quotient(a, b, t.bits),
    "min": lambda t, a, b: smaller(a, b),
    "max": lambda t, a, b: larger(a, b),
    "neg": lambda t, a: -a,
    "fma": lambda t, a, b, c: float_fma(a, b, c, t.bits),
    "sqrt": lambda t, a: float_root(a, t.bits),
    "rsqrt": lambda t, a: float_quotient(1.0, float_root(a, t.bits), t.bits),
    "rcp": lambda t, a: float_quotient(1.0, a, t.bits),
    "abs": lambda t, a: math.fabs(a),
    "floor": lambda t, a: whole(math.floor, a),
    "ceil": lambda t, a: whole(math.ceil, a),
}

COMMON_MODELS: dict[str, Callable[..., Any]] = {
    "eq": lambda t, a, b: a == b,
    "ne": lambda t, a, b: a != b,
    "lt": lambda t, a, b: a < b,
    "le": lambda t, a, b: a <= b,
    "select": lambda t, c, a, b: a if c else b,
}


def same(actual: Number, expected: Number) -> bool:
    if isinstance(expected, float) and not isinstance(actual, bool):
        if math.isnan(expected):
            return math.isnan(actual)
        return actual == expected and math.copysign(1, actual) == math.copysign(1, expected)
    return actual == expected


def model_of(case: OpCase) -> Callable[..., Any]:
    if case.name in COMMON_MODELS:
        return COMMON_MODELS[case.name]
    floating = case.operand_types[-1].kind == "float"
    return (FLOAT_MODELS if floating else INTEGER_MODELS)[case.name]


def test_every_op_has_a_model() -> None:
    modelled = {*INTEGER_MODELS, *FLOAT_MODELS, *COMMON_MODELS}
    assert modelled == {case.name for case in OP_CASES}


@pytest.mark.parametrize("case", OP_CASES, ids=str)
def test_ops_match_their_model(case: OpCase) -> None:
    arrays = hostile_arrays(list(case.operand_types), limit=2048)
    count = len(arrays[0]) // 1024 * 1024 or len(arrays[0])
    arrays = [np.resize(array, -(-count // 1024) * 1024) for array in arrays]
    words = case.stored(case.operand_types)
    inputs = [a.astype(NUMPY_TYPES[word]) for a, word in zip(arrays, words, strict=True)]
    results = [
        np.zeros(len(inputs[0]), NUMPY_TYPES[type_]) for type_ in case.stored(case.result_types)
    ]
    kernel = op_kernel([case]).trace(MANY)
    interpret(kernel, len(inputs[0]) // 1024, [*inputs, *results])
    model = model_of(case)
    rows = zip(*(a.tolist() for a in inputs), *(r.tolist() for r in results), strict=True)
    for row in rows:
        operands, actual = row[: len(inputs)], row[len(inputs) :]
        expected = model(case.operand_types[0], *operands)
        expected = expected if isinstance(expected, tuple) else (expected,)
        assert all(map(same, actual, expected)), f"{case}{operands} gave {actual}, not {expected}"


def converted(value: Number, source: Type, target: Type) -> Number:
    """The meaning of `convert`, once more."""
    if target is types.bool_:
        return value != 0
    if target.kind == "float":
        if isinstance(value, float) and not math.isfinite(value):
            return value
        if value == 0:
            return value if isinstance(value, float) else 0.0
        return rounded(Fraction(value), target.bits)
    if isinstance(value, float):
        low = -(1 << (target.bits - 1)) if target.kind == "signed" else 0
        high = (1 << (target.bits - (target.kind == "signed"))) - 1
        if math.isnan(value):
            return 0
        if math.isinf(value):
            return high if value > 0 else low
        return min(max(int(value), low), high)
    return wrap(int(value), target)


@pytest.mark.parametrize("target", types.SCALARS, ids=repr)
@pytest.mark.parametrize("source", types.SCALARS, ids=repr)
def test_convert(source: Type, target: Type) -> None:
    values = np.array(hostile(source), NUMPY_TYPES[source])
    with np.errstate(all="ignore"):
        results = convert(values, target)
    assert results.dtype == NUMPY_TYPES[target]
    for value, result in zip(values.tolist(), results.tolist(), strict=True):
        assert same(result, converted(value, source, target)), f"{value!r} gave {result!r}"


def test_bitcast() -> None:
    def compute(k: Builder, operands: list[Value]) -> list[Value]:
        return [k.bitcast(k.bitcast(operands[0], types.i32), types.f32)]

    bits = np.array([0, 1, 0x80000000, 0x3F800000, 0xFF800000, 0x7F7FFFFF, 0x00800000, 7], "u4")
    definition = elementwise("bits", [types.u32], [types.f32], compute)
    results = np.zeros(1024, np.float32)
    interpret(definition.trace(MANY), 1, [np.resize(bits, 1024), results])
    assert results[:8].view(np.uint32).tolist() == bits.tolist()


def test_every_op_has_documentation() -> None:
    for name, definition in OPS.items():
        assert definition.doc.endswith("."), name
        assert definition.special or definition.evaluate or not definition.pure or name in (
            "local_id", "workgroup_id", "num_workgroups", "cluster_rank",
        )  # fmt: skip


@pytest.mark.parametrize(
    ("name", "operand_types", "message"),
    [
        ("add", [types.u32], "add takes 2 operands, not 1"),
        ("add", [types.u32, types.u64], "operands of add must have one type, not u32 and u64"),
        (
            "rem",
            [types.f32, types.f32],
            "operand 1 of rem must be one of u32, u64, i32, i64, not f32",
        ),
        (
            "addc",
            [types.u32, types.u32, types.bool_],
            "operand 3 of addc must be cc, not bool",
        ),
    ],
)
def test_wrong_operands(name: str, operand_types: list[Type], message: str) -> None:
    with pytest.raises(TypeError) as caught:
        OPS[name].infer(tuple(operand_types))
    assert str(caught.value) == message

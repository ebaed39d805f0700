"""The ops of the table, on numbers of which some are wide."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from quod.codegen.int64_pairs.arithmetic import WideArithmetic
from quod.codegen.int64_pairs.conversions import bitcast, convert
from quod.codegen.int64_pairs.division import divide
from quod.codegen.int64_pairs.forms import Number, Wide
from quod.errors import KernelError
from quod.kernel import types
from quod.kernel.ir import Op
from quod.kernel.value import Value


def compute(wide: WideArithmetic, op: Op, operands: Sequence[object]) -> list[Number]:
    """The results of an op of the table that computes values from values."""
    given = [one if isinstance(one, (Value, Wide)) else _not_a_number(op) for one in operands]
    wide_result = any(result.type in (types.u64, types.i64) for result in op.results)
    for value in (*op.results, *op.operands):
        if value.type is types.f64:
            raise wide.no_double()
    if op.name == "const":
        number, type_ = op.attributes["value"], op.results[0].type
        if wide_result:
            return [wide.constant(number, type_)]
        return [wide.k.constant(number, type_)]
    if op.name == "convert":
        return [convert(wide, given[0], op.operands[0].type, op.attributes["type"])]
    if op.name == "bitcast":
        return [bitcast(wide, given[0], op.attributes["type"])]
    if op.name in _CARRIES:
        return _carry(wide, op.name, given)
    if op.name == "mul_wide":
        return [wide.multiply_words(given[0], given[1])]
    if op.name.startswith("madd52"):
        return [_madd52(wide, op.name, *given)]
    if not wide_result and not any(isinstance(one, Wide) for one in given):
        return _narrow(wide, op, [one for one in given if isinstance(one, Value)])
    return [_wide_op(wide, op, given)]


def _not_a_number(op: Op) -> Wide:
    raise KernelError(f"{op.location}: WGSL has no {op.name} of pointers")


def _narrow(wide: WideArithmetic, op: Op, given: list[Value]) -> list[Number]:
    if op.name == "mul_hi":
        return [wide.high_word(given[0], given[1])]
    return [*wide.k.emit_many(op.name, given)]


_CARRIES = frozenset({
    "add_cc", "addc_cc", "addc", "sub_cc", "subc_cc", "subc", "mad_lo_cc", "madc_lo_cc",
    "mad_hi_cc", "madc_hi_cc", "madc_hi",
})  # fmt: skip


def _carry(wide: WideArithmetic, name: str, given: Sequence[Number]) -> list[Number]:
    operands = list(given)
    carry: Value | None = None
    if name.startswith(("addc", "subc", "madc")):
        last = operands.pop()
        assert isinstance(last, Value)
        carry = last
    if name.startswith("mad"):
        product = _product_half(wide, operands[0], operands[1], high="_hi" in name)
        operands = [product, operands[2]]
    a, b = operands
    subtract = name.startswith("sub")
    total, out = wide.add_with_carry(a, b, carry, subtract)
    return [total, out] if name.endswith("_cc") else [total]


def _product_half(wide: WideArithmetic, a: Number, b: Number, *, high: bool) -> Number:
    if isinstance(a, Value) and isinstance(b, Value):
        return wide.high_word(a, b) if high else a * b
    assert isinstance(a, Wide)
    assert isinstance(b, Wide)
    return wide.multiply_high(a, b) if high else wide.multiply(a, b)


def _madd52(wide: WideArithmetic, name: str, c: Number, a: Number, b: Number) -> Wide:
    assert isinstance(a, Wide)
    assert isinstance(b, Wide)
    assert isinstance(c, Wide)
    mask = wide.constant((1 << 52) - 1, types.u64)
    a, b = wide.bitwise("and", a, mask), wide.bitwise("and", b, mask)
    low = wide.multiply(a, b)
    if name == "madd52_lo":
        return wide.add(c, wide.bitwise("and", low, mask))
    high = wide.shift_left(wide.multiply_high(a, b), wide.constant(12, types.u64))
    rest = wide.shift_right(low, wide.constant(52, types.u64))
    return wide.add(c, wide.bitwise("or", high, rest))


def _wide_op(wide: WideArithmetic, op: Op, given: Sequence[Number]) -> Number:
    name = op.name
    if name == "select":
        condition, a, b = given
        assert isinstance(condition, Value)
        return wide.select(condition, a, b)
    numbers = [one for one in given if isinstance(one, Wide)]
    rule = _RULES.get(name)
    if rule is None or len(numbers) != len(given):
        raise KernelError(f"{op.location}: WGSL has no {name} of 64-bit numbers")
    return rule(wide, *numbers)


_RULES: dict[str, Callable[..., Number]] = {
    "add": WideArithmetic.add,
    "sub": WideArithmetic.subtract,
    "mul": WideArithmetic.multiply,
    "mul_hi": WideArithmetic.multiply_high,
    "neg": WideArithmetic.negate,
    "abs": WideArithmetic.absolute,
    "not": WideArithmetic.complement,
    "shl": WideArithmetic.shift_left,
    "shr": WideArithmetic.shift_right,
    **{name: (lambda wide, a, b, _n=name: wide.bitwise(_n, a, b)) for name in ("and", "or", "xor")},
    **{name: (lambda wide, a, b, _n=name: wide.compare(_n, a, b))
       for name in ("eq", "ne", "lt", "le")},
    **{name: (lambda wide, a, b, _n=name: wide.extreme(_n, a, b)) for name in ("min", "max")},
    **{name: (lambda wide, a, b, _n=name: divide(wide, _n, a, b)) for name in ("div", "rem")},
    **{name: (lambda wide, a, _n=name: wide.count(_n, a)) for name in ("clz", "ctz", "popcount")},
}  # fmt: skip

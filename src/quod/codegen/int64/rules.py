"""The ops of the table on numbers that may be wide."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from quod.codegen.int64.arithmetic import WideArithmetic
from quod.codegen.int64.conversions import bitcast, convert
from quod.codegen.int64.division import divide
from quod.codegen.int64.forms import Number, Wide
from quod.errors import KernelError
from quod.kernel.ir import types
from quod.kernel.ir.nodes import Op
from quod.kernel.ir.value import Value


def compute(wide: WideArithmetic, op: Op, operands: Sequence[object]) -> list[Number]:
    """Compute the results of an op on numbers that may be wide."""
    numbers_in = [
        operand if isinstance(operand, (Value, Wide)) else _not_a_number(op) for operand in operands
    ]
    wide_result = any(result.type in (types.u64, types.i64) for result in op.results)
    for value in (*op.results, *op.operands):
        if value.type is types.f64:
            raise wide.no_double()
    rule = RULES.get(op.name)
    if rule is not None:
        return rule(wide, op, numbers_in)
    words = [number for number in numbers_in if isinstance(number, Value)]
    if not wide_result and len(words) == len(numbers_in):
        return [*wide.k.emit_many(op.name, words)]
    numbers = [number for number in numbers_in if isinstance(number, Wide)]
    compute_pair = PAIRS.get(op.name)
    if compute_pair is None or len(numbers) != len(numbers_in):
        raise KernelError(f"{op.location}: WGSL has no {op.name} of 64-bit numbers")
    return [compute_pair(wide, *numbers)]


def _not_a_number(op: Op) -> Wide:
    raise KernelError(f"{op.location}: WGSL has no {op.name} of pointers")


def _constant(wide: WideArithmetic, op: Op, operands: Sequence[Number]) -> list[Number]:
    number, type_ = op.attributes["value"], op.results[0].type
    constant = wide.constant if type_ in (types.u64, types.i64) else wide.k.constant
    return [constant(number, type_)]


def _conversion(wide: WideArithmetic, op: Op, operands: Sequence[Number]) -> list[Number]:
    return [convert(wide, operands[0], op.operands[0].type, op.attributes["type"])]


def _same_bits(wide: WideArithmetic, op: Op, operands: Sequence[Number]) -> list[Number]:
    return [bitcast(wide, operands[0], op.attributes["type"])]


def _choice(wide: WideArithmetic, op: Op, operands: Sequence[Number]) -> list[Number]:
    condition, a, b = operands
    assert isinstance(condition, Value)
    if isinstance(a, Value) and isinstance(b, Value):
        return [wide.k.emit(op.name, (condition, a, b))]
    return [wide.select(condition, a, b)]


def _carry(*, subtract: bool = False, high: bool = False) -> Rule:
    """Make the rule of an addition or subtraction with carry, or of a product's half if the op has
    factors."""

    def rule(wide: WideArithmetic, op: Op, numbers: Sequence[Number]) -> list[Number]:
        *operands, last = numbers
        carry: Value | None = None
        if op.operands[-1].type is types.cc:
            assert isinstance(last, Value)
            carry = last
        else:
            operands.append(last)
        if op.definition.factors is not None:
            operands = [_product_half(wide, *operands[:2], high=high), operands[2]]
        a, b = operands
        return [*wide.add_with_carry(a, b, carry, subtract)][: len(op.results)]

    return rule


def _product_half(wide: WideArithmetic, a: Number, b: Number, *, high: bool) -> Number:
    if isinstance(a, Value) and isinstance(b, Value):
        return wide.high_word(a, b) if high else a * b
    assert isinstance(a, Wide)
    assert isinstance(b, Wide)
    return wide.multiply_high(a, b) if high else wide.multiply(a, b)


def _high_half(wide: WideArithmetic, op: Op, operands: Sequence[Number]) -> list[Number]:
    return [_product_half(wide, operands[0], operands[1], high=True)]


def _full_product(wide: WideArithmetic, op: Op, operands: Sequence[Number]) -> list[Number]:
    return [wide.multiply_words(operands[0], operands[1])]


def _madd52(*, high: bool) -> Rule:
    def rule(wide: WideArithmetic, op: Op, operands: Sequence[Number]) -> list[Number]:
        c, a, b = operands
        assert isinstance(a, Wide)
        assert isinstance(b, Wide)
        assert isinstance(c, Wide)
        mask = wide.constant((1 << 52) - 1, types.u64)
        a, b = wide.bitwise("and", a, mask), wide.bitwise("and", b, mask)
        low = wide.multiply(a, b)
        if not high:
            return [wide.add(c, wide.bitwise("and", low, mask))]
        top = wide.shift_left(wide.multiply_high(a, b), wide.constant(12, types.u64))
        shifted = wide.shift_right(low, wide.constant(52, types.u64))
        return [wide.add(c, wide.bitwise("or", top, shifted))]

    return rule


Rule = Callable[[WideArithmetic, Op, Sequence[Number]], list[Number]]
"""The computation of one op of the table."""

RULES: dict[str, Rule] = {
    "const": _constant,
    "convert": _conversion,
    "bitcast": _same_bits,
    "select": _choice,
    "mul_hi": _high_half,
    "mul_wide": _full_product,
    "madd52_lo": _madd52(high=False),
    "madd52_hi": _madd52(high=True),
    "add_cc": _carry(),
    "addc_cc": _carry(),
    "addc": _carry(),
    "sub_cc": _carry(subtract=True),
    "subc_cc": _carry(subtract=True),
    "subc": _carry(subtract=True),
    "mad_lo_cc": _carry(),
    "madc_lo_cc": _carry(),
    "mad_hi_cc": _carry(high=True),
    "madc_hi_cc": _carry(high=True),
    "madc_hi": _carry(high=True),
}
"""Rules of ops that WGSL lacks in this form, or that treat words and pairs alike."""


def _bitwise(name: str) -> PairRule:
    return lambda wide, a, b: wide.bitwise(name, a, b)


def _comparison(name: str) -> PairRule:
    return lambda wide, a, b: wide.compare(name, a, b)


def _extreme(name: str) -> PairRule:
    return lambda wide, a, b: wide.extreme(name, a, b)


def _division(name: str) -> PairRule:
    return lambda wide, a, b: divide(wide, name, a, b)


def _count(name: str) -> PairRule:
    return lambda wide, a: wide.count(name, a)


PairRule = Callable[..., Number]
"""The computation of one op whose operands are all pairs."""

PAIRS: dict[str, PairRule] = {
    "add": WideArithmetic.add,
    "sub": WideArithmetic.subtract,
    "mul": WideArithmetic.multiply,
    "neg": WideArithmetic.negate,
    "abs": WideArithmetic.absolute,
    "not": WideArithmetic.complement,
    "shl": WideArithmetic.shift_left,
    "shr": WideArithmetic.shift_right,
    "and": _bitwise("and"),
    "or": _bitwise("or"),
    "xor": _bitwise("xor"),
    "eq": _comparison("eq"),
    "ne": _comparison("ne"),
    "lt": _comparison("lt"),
    "le": _comparison("le"),
    "min": _extreme("min"),
    "max": _extreme("max"),
    "div": _division("div"),
    "rem": _division("rem"),
    "clz": _count("clz"),
    "ctz": _count("ctz"),
    "popcount": _count("popcount"),
}
"""Rules for pairs of the ops that WGSL has for words."""

"""PTX rules of the ops that only compute."""

from __future__ import annotations

from quod.codegen.ptx.body import BodyEmitter, Rule
from quod.codegen.ptx.types import (
    bits_or_float,
    bits_register,
    bits_suffix,
    constant_text,
    register_kind,
    suffix,
)
from quod.kernel.ir import types
from quod.kernel.ir.nodes import Op
from quod.kernel.ir.value import Value

# --- arithmetic


def _simple(instruction: str, floating: str = "") -> Rule:
    """Make a rule of one instruction with the result's type; `floating` is used for floats."""

    def rule(body: BodyEmitter, op: Op) -> None:
        result = op.results[0]
        name = floating if result.type.kind == "float" else instruction
        operands = ", ".join([body.get(operand) for operand in op.operands])
        body.define(result, f"{name}.{suffix(result.type)}", operands)

    return rule


def _bits(instruction: str) -> Rule:
    """Make a rule of one instruction on bits or predicates."""

    def rule(body: BodyEmitter, op: Op) -> None:
        result = op.results[0]
        operands = ", ".join([body.get(operand) for operand in op.operands])
        body.define(result, f"{instruction}.{bits_suffix(result.type)}", operands)

    return rule


def _neg(body: BodyEmitter, op: Op) -> None:
    (result,), (a,) = op.results, op.operands
    signed = {"u32": "s32", "u64": "s64"}.get(suffix(result.type), suffix(result.type))
    body.define(result, f"neg.{signed}", body.register(a))


def _shift(to_left: bool) -> Rule:
    """Make the rule of a shift; PTX clamps the amount, but the language reduces it by the width."""

    def rule(body: BodyEmitter, op: Op) -> None:
        (result,), (a, amount) = op.results, op.operands
        width = result.type.bits
        if amount.constant is not None:
            distance = str(int(amount.constant) % width)
        else:
            distance = body.get(amount)
            if amount.type.bits == 64:
                distance = body.fresh("r", "cvt.u32.u64", distance)
            distance = body.fresh("r", "and.b32", f"{distance}, {width - 1}")
        name = f"shl.b{width}" if to_left else f"shr.{suffix(result.type)}"
        body.define(result, name, f"{body.get(a)}, {distance}")

    return rule


def _division(name: str) -> Rule:
    """Make a division rule; PTX does not trap on division by zero and leaves its result open."""

    def rule(body: BodyEmitter, op: Op) -> None:
        (result,), (a, b) = op.results, op.operands
        kind = suffix(result.type)
        if result.type.kind == "float":
            body.define(result, f"div.rn.{kind}", f"{body.get(a)}, {body.get(b)}")
            return
        if result.type.kind == "signed":
            _signed_division(body, op)
            return
        text = f"{body.get(a)}, {body.get(b)}"
        if b.constant:
            body.define(result, f"{name}.{kind}", text)
            return
        value = body.fresh(register_kind(result.type), f"{name}.{kind}", text)
        is_zero = body.fresh("p", f"setp.eq.{kind}", f"{body.get(b)}, 0")
        otherwise = "-1" if name == "div" else body.get(a)
        select = f"selp.b{result.type.bits}"
        body.define(result, select, f"{otherwise}, {value}, {is_zero}")

    return rule


def _signed_division(body: BodyEmitter, op: Op) -> None:
    """Emit floor division; the instructions round toward zero."""
    (result,), (a, b) = op.results, op.operands
    bits, kind, register = result.type.bits, suffix(result.type), register_kind(result.type)
    x, y = body.register(a), body.register(b)
    safe, is_zero = y, ""
    if b.constant in (None, 0, -1):
        is_zero = body.fresh("p", f"setp.eq.{kind}", f"{y}, 0")
        is_minimum = body.fresh("p", f"setp.eq.{kind}", f"{x}, {-(1 << (bits - 1))}")
        is_minus_one = body.fresh("p", f"setp.eq.{kind}", f"{y}, -1")
        unsafe = body.fresh("p", "and.pred", f"{is_minimum}, {is_minus_one}")
        unsafe = body.fresh("p", "or.pred", f"{unsafe}, {is_zero}")
        safe = body.fresh(register, f"selp.b{bits}", f"1, {y}, {unsafe}")
    quotient = body.fresh(register, f"div.{kind}", f"{x}, {safe}")
    product = body.fresh(register, f"mul.lo.{kind}", f"{quotient}, {safe}")
    remainder = body.fresh(register, f"sub.{kind}", f"{x}, {product}")
    sign_difference = body.fresh(register, f"xor.b{bits}", f"{remainder}, {safe}")
    signs_differ = body.fresh("p", f"setp.lt.{kind}", f"{sign_difference}, 0")
    inexact = body.fresh("p", f"setp.ne.{kind}", f"{remainder}, 0")
    rounds_down = body.fresh("p", "and.pred", f"{signs_differ}, {inexact}")
    if op.name == "div":
        correction, truncated, otherwise = "-1", quotient, "-1"
    else:
        correction, truncated, otherwise = safe, remainder, x
    step = body.fresh(register, f"selp.b{bits}", f"{correction}, 0, {rounds_down}")
    if is_zero:
        floored = body.fresh(register, f"add.{kind}", f"{truncated}, {step}")
        body.define(result, f"selp.b{bits}", f"{otherwise}, {floored}, {is_zero}")
    else:
        body.define(result, f"add.{kind}", f"{truncated}, {step}")


def _unary(name: str, *, twice: bool = False) -> Rule:
    """Make a rule of an instruction on one register; `twice` names its type twice."""

    def rule(body: BodyEmitter, op: Op) -> None:
        (result,), (a,) = op.results, op.operands
        kind = suffix(result.type)
        body.define(
            result, f"{name}.{kind}.{kind}" if twice else f"{name}.{kind}", body.register(a)
        )

    return rule


def _extreme(name: str) -> Rule:
    """Make a min or max rule; floats as in IEEE 754-2019: NaN propagates, -0 is below +0."""

    def rule(body: BodyEmitter, op: Op) -> None:
        (result,), (a, b) = op.results, op.operands
        kind = suffix(result.type)
        operands = f"{body.get(a)}, {body.get(b)}"
        if result.type.kind != "float":
            body.define(result, f"{name}.{kind}", operands)
        elif result.type is types.f32 and body.module.architecture.capability >= 80:
            body.define(result, f"{name}.NaN.f32", operands)
        else:
            _extreme_by_comparison(body, op, name)

    return rule


def _extreme_by_comparison(body: BodyEmitter, op: Op, name: str) -> None:
    """Emit min or max by comparison; equal floats differ only in zero's sign, a sum keeps NaN."""
    (result,), (a, b) = op.results, op.operands
    kind, register = suffix(result.type), register_kind(result.type)
    x, y = body.register(a), body.register(b)
    bits = f"b{result.type.bits}"
    is_first = body.fresh("p", f"setp.{'lt' if name == 'min' else 'gt'}.{kind}", f"{x}, {y}")
    chosen = body.fresh(register, f"selp.{kind}", f"{x}, {y}, {is_first}")
    equal = body.fresh("p", f"setp.eq.{kind}", f"{x}, {y}")
    words = [body.fresh(bits_register(result.type), f"mov.{bits}", value) for value in (x, y)]
    combined = body.fresh(
        bits_register(result.type),
        f"{'or' if name == 'min' else 'and'}.{bits}",
        ", ".join(words),
    )
    combined_float = body.fresh(register, f"mov.{bits}", combined)
    ordered = body.fresh(register, f"selp.{kind}", f"{combined_float}, {chosen}, {equal}")
    unordered = body.fresh("p", f"setp.nan.{kind}", f"{x}, {y}")
    nan = body.fresh(register, f"add.rn.{kind}", f"{x}, {y}")
    body.define(result, f"selp.{kind}", f"{nan}, {ordered}, {unordered}")


def _mul(body: BodyEmitter, op: Op) -> None:
    result = op.results[0]
    name = "mul.rn" if result.type.kind == "float" else "mul.lo"
    operands = ", ".join([body.get(operand) for operand in op.operands])
    body.define(result, f"{name}.{suffix(result.type)}", operands)


def _mul_wide(body: BodyEmitter, op: Op) -> None:
    a, b = op.operands
    body.define(op.results[0], "mul.wide.u32", f"{body.get(a)}, {body.get(b)}")


def _madd52(high: bool) -> Rule:
    """Make a 52-bit multiply-add; a factor shifted by 12 puts bits 52 to 103 in the high word."""

    def rule(body: BodyEmitter, op: Op) -> None:
        c, a, b = (body.get(operand) for operand in op.operands)
        mask = (1 << 52) - 1
        x, y = (body.fresh("rd", "and.b64", f"{value}, {mask}") for value in (a, b))
        if high:
            x = body.fresh("rd", "shl.b64", f"{x}, 12")
            part = body.fresh("rd", "mul.hi.u64", f"{x}, {y}")
        else:
            product = body.fresh("rd", "mul.lo.u64", f"{x}, {y}")
            part = body.fresh("rd", "and.b64", f"{product}, {mask}")
        body.define(op.results[0], "add.u64", f"{c}, {part}")

    return rule


# --- comparison and choice


def _compare(name: str) -> Rule:
    def rule(body: BodyEmitter, op: Op) -> None:
        (result,), (a, b) = op.results, op.operands
        if a.type is types.bool_:
            operands = f"{body.get(a)}, {body.get(b)}"
            if name == "ne":
                body.define(result, "xor.pred", operands)
            else:
                body.define(result, "not.pred", body.fresh("p", "xor.pred", operands))
            return
        code = "neu" if name == "ne" and a.type.kind == "float" else name
        x = body.get(a)
        if b.constant == 0 and a in body.borrow_masks:
            # A borrow's number is zero exactly if its mask is.
            x = body.borrow_masks[a]
        body.define(result, f"setp.{code}.{suffix(a.type)}", f"{x}, {body.get(b)}")

    return rule


def _select(body: BodyEmitter, op: Op) -> None:
    (result,), (condition, a, b) = op.results, op.operands
    c, x, y = body.get(condition), body.get(a), body.get(b)
    if result.type is not types.bool_:
        body.define(result, f"selp.{bits_or_float(result.type)}", f"{x}, {y}, {c}")
        return
    first = body.fresh("p", "and.pred", f"{c}, {x}")
    second = body.fresh("p", "and.pred", f"{body.fresh('p', 'not.pred', c)}, {y}")
    body.define(result, "or.pred", f"{first}, {second}")


# --- counting bits


def _count(name: str) -> Rule:
    """Make the rule of a bit count; PTX returns u32 also for 64-bit operands."""

    def rule(body: BodyEmitter, op: Op) -> None:
        (result,), (a,) = op.results, op.operands
        width = result.type.bits
        operand = body.register(a)
        if name == "ctz":
            operand = body.fresh(register_kind(result.type), f"brev.b{width}", operand)
        instruction = f"{'popc' if name == 'popcount' else 'clz'}.b{width}"
        if width == 32:
            body.define(result, instruction, operand)
        else:
            body.define(result, "cvt.u64.u32", body.fresh("r", instruction, operand))

    return rule


# --- conversions


def _convert(body: BodyEmitter, op: Op) -> None:
    (result,), (a,) = op.results, op.operands
    source, target = a.type, result.type
    target_suffix = suffix(target)
    if target is source:
        body.names[result] = body.get(a)
    elif source is types.bool_:
        unit, zero = (constant_text(number, target) for number in (1, 0))
        body.define(result, f"selp.{bits_or_float(target)}", f"{unit}, {zero}, {body.get(a)}")
    elif target is types.bool_:
        code = "neu" if source.kind == "float" else "ne"
        zero = constant_text(0, source)
        body.define(result, f"setp.{code}.{suffix(source)}", f"{body.register(a)}, {zero}")
    elif target.kind == "float":
        exact = source is types.f32
        rounding = "" if exact else ".rn"
        body.define(result, f"cvt{rounding}.{target_suffix}.{suffix(source)}", body.register(a))
    elif source.kind == "float":
        _float_to_integer(body, a, result)
    elif target.bits == source.bits:
        body.names[result] = body.register(a)
    elif target.bits < source.bits:
        body.define(result, "cvt.u32.u64", body.register(a))
    else:
        extended = "cvt.s64.s32" if source.kind == "signed" else "cvt.u64.u32"
        body.define(result, extended, body.register(a))


def _float_to_integer(body: BodyEmitter, a: Value, result: Value) -> None:
    """Emit a saturating conversion; PTX clamps, but maps NaN to 0 only from f32 to 32 bits."""
    operand = body.register(a)
    name = f"cvt.rzi.{suffix(result.type)}.{suffix(a.type)}"
    if a.type is types.f32 and result.type.bits == 32:
        body.define(result, name, operand)
        return
    number = body.fresh(register_kind(result.type), name, operand)
    nan = body.fresh("p", f"setp.nan.{suffix(a.type)}", f"{operand}, {operand}")
    body.define(result, f"selp.b{result.type.bits}", f"0, {number}, {nan}")


def _bitcast(body: BodyEmitter, op: Op) -> None:
    (result,), (a,) = op.results, op.operands
    if register_kind(result.type) == register_kind(a.type):
        body.names[result] = body.register(a)
    else:
        body.define(result, f"mov.b{result.type.bits}", body.register(a))


def _unpack_f16(half: int) -> Rule:
    def rule(body: BodyEmitter, op: Op) -> None:
        (result,), (word,) = op.results, op.operands
        bits = body.new("h")
        parts = f"{bits}, _" if half == 0 else f"_, {bits}"
        body.module.require((7, 1))  # for `_`, the half that is not needed
        body.line(f"mov.b32 {{{parts}}}, {body.register(word)};")
        body.define(result, "cvt.f32.f16", bits)

    return rule


def _pack(instruction: str) -> Rule:
    """Make the rule of a pack instruction, which takes the upper half first."""

    def rule(body: BodyEmitter, op: Op) -> None:
        low, high = (body.register(operand) for operand in op.operands)
        body.define(op.results[0], instruction, f"{high}, {low}")

    return rule


def _pack_float8(element: str) -> Rule:
    def rule(body: BodyEmitter, op: Op) -> None:
        body.require(op, (8, 1), 89)
        low, high = (body.register(operand) for operand in op.operands)
        pair = body.fresh("h", f"cvt.rn.satfinite.{element}x2.f32", f"{high}, {low}")
        body.define(op.results[0], "cvt.u32.u16", pair)

    return rule


def _unpack_e4m3(body: BodyEmitter, op: Op) -> None:
    body.require(op, (8, 1), 89)
    pair = body.new("h")
    body.line(f"mov.b32 {{{pair}, _}}, {body.register(op.operands[0])};")
    body.define(op.results[0], "cvt.rn.f16x2.e4m3x2", pair)


def _dot2(body: BodyEmitter, op: Op) -> None:
    """Emit two multiply-adds; instructions multiply 16-bit pairs by bytes only."""
    a, b, c = (body.register(operand) for operand in op.operands)
    low, high = (
        [body.fresh("r", instruction, f"{word}, {amounts}") for word in (a, b)]
        for instruction, amounts in (("bfe.s32", "0, 16"), ("shr.s32", "16"))
    )
    total = body.fresh("r", "mad.lo.s32", f"{low[0]}, {low[1]}, {c}")
    body.define(op.results[0], "mad.lo.s32", f"{high[0]}, {high[1]}, {total}")


def _dot_of_bytes(opcode: str) -> Rule:
    def rule(body: BodyEmitter, op: Op) -> None:
        operands = ", ".join([body.register(operand) for operand in op.operands])
        body.define(op.results[0], opcode, operands)

    return rule


RULES: dict[str, Rule] = {
    "add": _simple("add", "add.rn"),
    "sub": _simple("sub", "sub.rn"),
    "mul": _mul,
    "div": _division("div"),
    "rem": _division("rem"),
    "min": _extreme("min"),
    "max": _extreme("max"),
    "neg": _neg,
    "fma": _simple("", "fma.rn"),
    "sqrt": _simple("", "sqrt.rn"),
    "rsqrt": _unary("rsqrt.approx"),
    "rcp": _unary("rcp.approx"),
    "exp2": _unary("ex2.approx"),
    "exp2_normal": _unary("ex2.approx.ftz"),
    "abs": _unary("abs"),
    "floor": _unary("cvt.rmi", twice=True),
    "ceil": _unary("cvt.rpi", twice=True),
    "and": _bits("and"),
    "or": _bits("or"),
    "xor": _bits("xor"),
    "not": _bits("not"),
    "shl": _shift(to_left=True),
    "shr": _shift(to_left=False),
    "mul_hi": _simple("mul.hi"),
    "mul_wide": _mul_wide,
    "dot4": _dot_of_bytes("dp4a.s32.s32"),
    "dot2": _dot2,
    "dot2_low_bytes": _dot_of_bytes("dp2a.lo.s32.u32"),
    "dot2_high_bytes": _dot_of_bytes("dp2a.hi.s32.s32"),
    "madd52_lo": _madd52(high=False),
    "madd52_hi": _madd52(high=True),
    "eq": _compare("eq"),
    "ne": _compare("ne"),
    "lt": _compare("lt"),
    "le": _compare("le"),
    "select": _select,
    "clz": _count("clz"),
    "ctz": _count("ctz"),
    "popcount": _count("popcount"),
    "convert": _convert,
    "bitcast": _bitcast,
    "unpack_f16_low": _unpack_f16(0),
    "unpack_f16_high": _unpack_f16(1),
    "pack_f16": _pack("cvt.rn.f16x2.f32"),
    "pack_bf16": _pack("cvt.rn.bf16x2.f32"),
    "unpack_e4m3": _unpack_e4m3,
    "pack_e4m3": _pack_float8("e4m3"),
    "pack_e5m2": _pack_float8("e5m2"),
}

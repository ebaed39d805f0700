"""LLVM rules of the ops of long integers: high halves, wide products and carry chains."""

from __future__ import annotations

from functools import cache

from quod.codegen.llvm.body import BodyEmitter, Rule
from quod.codegen.llvm.types import mangled
from quod.kernel.ir.nodes import Op


def _wide_product(body: BodyEmitter, a: str, b: str, bits: int, is_vector: bool, shift: int) -> str:
    """Emit a full product, shifted right by `shift` and truncated to `bits`."""
    narrow = body.vector(f"i{bits}") if is_vector else f"i{bits}"
    wide = body.vector(f"i{2 * bits}") if is_vector else f"i{2 * bits}"
    x, y = (body.fresh(f"zext {narrow} {value} to {wide}") for value in (a, b))
    product = body.fresh(f"mul nuw {wide} {x}, {y}")
    amount = f"splat (i{2 * bits} {shift})" if is_vector else str(shift)
    high = body.fresh(f"lshr {wide} {product}, {amount}")
    return body.fresh(f"trunc {wide} {high} to {narrow}")


def _mul_hi(body: BodyEmitter, op: Op) -> None:
    (result,) = op.results
    varying = body.is_varying(result)
    a, b = (body.get(operand, varying=varying) for operand in op.operands)
    bits = result.type.bits
    body.names[result] = _wide_product(body, a, b, bits, varying and body.lanes > 1, bits)


def _mul_wide(body: BodyEmitter, op: Op) -> None:
    (result,) = op.results
    varying = body.is_varying(result)
    narrow = body.vector("i32") if varying else "i32"
    wide = body.vector("i64") if varying else "i64"
    x, y = (
        body.fresh(f"zext {narrow} {body.get(operand, varying=varying)} to {wide}")
        for operand in op.operands
    )
    body.names[result] = body.fresh(f"mul nuw {wide} {x}, {y}")


def _madd52(half: str) -> Rule:
    def rule(body: BodyEmitter, op: Op) -> None:
        (result,) = op.results
        varying = body.is_varying(result)
        type_ = body.type_of(result)
        c, a, b = (body.get(operand, varying=varying) for operand in op.operands)
        if body.module.ifma and varying:
            name = f"@llvm.x86.avx512.vpmadd52{half}.uq.512"
            body.module.declare(f"{type_} {name}({type_}, {type_}, {type_})")
            body.names[result] = body.fresh(
                f"call {type_} {name}({type_} {c}, {type_} {a}, {type_} {b})"
            )
            return
        is_vector = varying and body.lanes > 1
        low = f"splat (i64 {(1 << 52) - 1})" if is_vector else str((1 << 52) - 1)
        x, y = (body.fresh(f"and {type_} {value}, {low}") for value in (a, b))
        if half == "h":
            part = _wide_product(body, x, y, 64, is_vector, 52)
        else:
            part = body.fresh(f"and {type_} {body.fresh(f'mul {type_} {x}, {y}')}, {low}")
        body.names[result] = body.fresh(f"add {type_} {c}, {part}")

    return rule


def _carry(operation: str, *, multiply: str = "", carry_in: bool, carry_out: bool) -> Rule:
    """Make a rule for a link of a carry chain, which becomes an add or adc instruction."""

    def rule(body: BodyEmitter, op: Op) -> None:
        varying = body.are_varying(op.results)
        type_ = body.type_of(op.results[0], varying=varying)
        boolean = body.vector("i1") if varying else "i1"
        operands = [body.get(operand, varying=varying) for operand in op.operands]
        bits = op.results[0].type.bits
        is_vector = varying and body.lanes > 1
        if multiply:
            a, b, *operands = operands
            if multiply == "lo":
                a = body.fresh(f"mul {type_} {a}, {b}")
            else:
                a = _wide_product(body, a, b, bits, is_vector, bits)
        else:
            a, *operands = operands
        b, *addends = operands
        if body.module.is_x86 and body.lanes == 1:
            _link(body, op, operation, a, b, addends[0] if carry_in else "0")
            return
        total, overflow = _overflow(body, operation, type_, boolean, a, b)
        if carry_in:
            extended = body.fresh(f"zext {boolean} {addends[0]} to {type_}")
            total, carry_overflow = _overflow(body, operation, type_, boolean, total, extended)
            overflow = body.fresh(f"or {boolean} {overflow}, {carry_overflow}")
        body.names[op.results[0]] = total
        if carry_out:
            body.names[op.results[1]] = overflow

    return rule


def _link(body: BodyEmitter, op: Op, operation: str, a: str, b: str, carry: str) -> None:
    """Emit a link by x86's intrinsic, whose carries are bytes.

    LLVM recognises chains of `uadd.with.overflow` as well, which take four times as many
    instructions in its IR.
    """
    type_ = body.type_of(op.results[0])
    if operation == "add" and a == "0" and "0" in (b, carry):
        total = body.fresh(f"zext i8 {carry} to {type_}") if b == "0" else b
        carry_out = "0"
    else:
        pair, name = _link_intrinsic(operation, type_)
        body.module.declare(f"{pair} {name}(i8, {type_}, {type_})")
        result_pair = body.fresh(f"call {pair} {name}(i8 {carry}, {type_} {a}, {type_} {b})")
        total = body.fresh(f"extractvalue {pair} {result_pair}, 1")
        if len(op.results) > 1:
            carry_out = body.fresh(f"extractvalue {pair} {result_pair}, 0")
    body.names[op.results[0]] = total
    if len(op.results) > 1:
        body.names[op.results[1]] = carry_out


@cache
def _link_intrinsic(operation: str, type_: str) -> tuple[str, str]:
    """Return the result type and the name of x86's intrinsic for a link."""
    link = "addcarry" if operation == "add" else "subborrow"
    return f"{{ i8, {type_} }}", f"@llvm.x86.{link}.{type_[1:]}"


def _overflow(
    body: BodyEmitter, operation: str, type_: str, boolean: str, a: str, b: str
) -> tuple[str, str]:
    name = f"@llvm.u{operation}.with.overflow.{mangled(type_)}"
    pair = f"{{ {type_}, {boolean} }}"
    body.module.declare(f"{pair} {name}({type_}, {type_})")
    result_pair = body.fresh(f"call {pair} {name}({type_} {a}, {type_} {b})")
    total = body.fresh(f"extractvalue {pair} {result_pair}, 0")
    return total, body.fresh(f"extractvalue {pair} {result_pair}, 1")


LONG_INTEGERS: dict[str, Rule] = {
    "mul_hi": _mul_hi,
    "mul_wide": _mul_wide,
    "madd52_lo": _madd52("l"),
    "madd52_hi": _madd52("h"),
    "add_cc": _carry("add", carry_in=False, carry_out=True),
    "addc_cc": _carry("add", carry_in=True, carry_out=True),
    "addc": _carry("add", carry_in=True, carry_out=False),
    "sub_cc": _carry("sub", carry_in=False, carry_out=True),
    "subc_cc": _carry("sub", carry_in=True, carry_out=True),
    "subc": _carry("sub", carry_in=True, carry_out=False),
    "mad_lo_cc": _carry("add", multiply="lo", carry_in=False, carry_out=True),
    "madc_lo_cc": _carry("add", multiply="lo", carry_in=True, carry_out=True),
    "mad_hi_cc": _carry("add", multiply="hi", carry_in=False, carry_out=True),
    "madc_hi_cc": _carry("add", multiply="hi", carry_in=True, carry_out=True),
    "madc_hi": _carry("add", multiply="hi", carry_in=True, carry_out=False),
}

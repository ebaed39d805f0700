"""LLVM rules of the ops that only compute."""

from __future__ import annotations

from quod.codegen.llvm.body import BodyEmitter, Rule
from quod.codegen.llvm.long_integers import LONG_INTEGERS
from quod.codegen.llvm.types import constant_text, mangled
from quod.kernel.ir import types
from quod.kernel.ir.nodes import Op


def _kind(op: Op) -> str:
    return op.operands[0].type.kind


def _binary(instruction: dict[str, str]) -> Rule:
    def rule(body: BodyEmitter, op: Op) -> None:
        (result,), (a, b) = op.results, op.operands
        varying = body.is_varying(result)
        left, right = body.get(a, varying=varying), body.get(b, varying=varying)
        operand_type = body.type_of(a, varying=varying)
        body.names[result] = body.fresh(
            f"{instruction[a.type.kind]} {operand_type} {left}, {right}"
        )

    return rule


def _sign_independent(instruction: str, floating: str = "") -> Rule:
    return _binary(
        {"unsigned": instruction, "signed": instruction, "bool": instruction, "float": floating}
    )


def _intrinsic(names: dict[str, str], extra: str = "") -> Rule:
    """Make a rule that calls an overloaded intrinsic; `extra` are trailing constant operands."""

    def rule(body: BodyEmitter, op: Op) -> None:
        (result,) = op.results
        varying = body.is_varying(result)
        type_ = body.type_of(result, varying=varying)
        name = f"@{names[_kind(op)]}.{mangled(type_)}"
        arguments = [f"{type_} {body.get(operand, varying=varying)}" for operand in op.operands]
        parameters = ", ".join([type_] * len(arguments) + (["i1"] if extra else []))
        body.module.declare(f"{type_} {name}({parameters})")
        text = ", ".join(arguments + ([extra] if extra else []))
        body.names[result] = body.fresh(f"call {type_} {name}({text})")

    return rule


def _shift(instruction: dict[str, str]) -> Rule:
    def rule(body: BodyEmitter, op: Op) -> None:
        (result,) = op.results
        varying = body.is_varying(result)
        type_ = body.type_of(result, varying=varying)
        a, amount = op.operands
        if amount.constant is not None:
            count = constant_text(int(amount.constant) & (amount.type.bits - 1), amount.type)
            scalar = f"i{amount.type.bits}"
            masked_amount = f"splat ({scalar} {count})" if varying and body.lanes > 1 else count
        else:
            bound = str(amount.type.bits - 1)
            if varying and body.lanes > 1:
                bound = f"splat (i{amount.type.bits} {bound})"
            masked_amount = body.fresh(f"and {type_} {body.get(amount, varying=varying)}, {bound}")
        text = f"{instruction[_kind(op)]} {type_} {body.get(a, varying=varying)}, {masked_amount}"
        body.names[result] = body.fresh(text)

    return rule


def _compare(codes: dict[str, str]) -> Rule:
    return _binary(
        {kind: ("fcmp " if kind == "float" else "icmp ") + c for kind, c in codes.items()}
    )


def _not(body: BodyEmitter, op: Op) -> None:
    (result,), (a,) = op.results, op.operands
    type_ = body.type_of(result)
    ones = "true" if result.type is types.bool_ else "-1"
    if body.is_varying(result) and body.lanes > 1:
        ones = f"splat ({type_[1:-1].partition(' x ')[2]} {ones})"
    body.names[result] = body.fresh(f"xor {type_} {body.get(a)}, {ones}")


def _neg(body: BodyEmitter, op: Op) -> None:
    (result,), (a,) = op.results, op.operands
    type_ = body.type_of(result)
    if result.type.kind == "float":
        body.names[result] = body.fresh(f"fneg {type_} {body.get(a)}")
        return
    zero = "zeroinitializer" if type_.startswith("<") else "0"
    body.names[result] = body.fresh(f"sub {type_} {zero}, {body.get(a)}")


def _select(body: BodyEmitter, op: Op) -> None:
    (result,) = op.results
    condition, a, b = op.operands
    varying = body.is_varying(result)
    type_ = body.type_of(result)
    condition_text = f"{body.type_of(condition)} {body.get(condition)}"
    x, y = body.get(a, varying=varying), body.get(b, varying=varying)
    body.names[result] = body.fresh(f"select {condition_text}, {type_} {x}, {type_} {y}")


def _division(text: str) -> Rule:
    """Make a rule of unsigned division with a defined result for a zero divisor."""

    def rule(body: BodyEmitter, op: Op) -> None:
        (result,) = op.results
        varying = body.is_varying(result)
        type_ = body.type_of(result)
        a, b = (body.get(operand, varying=varying) for operand in op.operands)
        if result.type.kind == "float":
            body.names[result] = body.fresh(f"fdiv {type_} {a}, {b}")
            return
        is_vector = type_.startswith("<")
        scalar = f"i{result.type.bits}"
        zero = "zeroinitializer" if is_vector else "0"
        unit = f"splat ({scalar} 1)" if is_vector else "1"
        ones = f"splat ({scalar} -1)" if is_vector else "-1"
        boolean = body.vector("i1") if is_vector else "i1"
        is_zero = body.fresh(f"icmp eq {type_} {b}, {zero}")
        safe = body.fresh(f"select {boolean} {is_zero}, {type_} {unit}, {type_} {b}")
        quotient = body.fresh(f"{text} {type_} {a}, {safe}")
        otherwise = ones if text == "udiv" else a
        select_text = f"select {boolean} {is_zero}, {type_} {otherwise}, {type_} {quotient}"
        body.names[result] = body.fresh(select_text)

    return rule


def _signed_division(quotient: bool) -> Rule:
    """Make a rule of floor division, defined also for zero divisors and overflow.

    LLVM's instructions round toward zero and are undefined in these cases.
    """

    def rule(body: BodyEmitter, op: Op) -> None:
        (result,) = op.results
        varying = body.is_varying(result)
        type_ = body.type_of(result)
        is_vector = type_.startswith("<")
        a, b = (body.get(operand, varying=varying) for operand in op.operands)
        boolean = body.vector("i1") if is_vector else "i1"

        def number(value: int) -> str:
            return f"splat (i{result.type.bits} {value})" if is_vector else str(value)

        is_zero = body.fresh(f"icmp eq {type_} {b}, {number(0)}")
        is_minimum = body.fresh(f"icmp eq {type_} {a}, {number(-(1 << (result.type.bits - 1)))}")
        is_minus_one = body.fresh(f"icmp eq {type_} {b}, {number(-1)}")
        overflows = body.fresh(f"and {boolean} {is_minimum}, {is_minus_one}")
        unsafe = body.fresh(f"or {boolean} {is_zero}, {overflows}")
        safe = body.fresh(f"select {boolean} {unsafe}, {type_} {number(1)}, {type_} {b}")
        remainder = body.fresh(f"srem {type_} {a}, {safe}")
        sign_difference = body.fresh(f"xor {type_} {remainder}, {safe}")
        signs_differ = body.fresh(f"icmp slt {type_} {sign_difference}, {number(0)}")
        inexact = body.fresh(f"icmp ne {type_} {remainder}, {number(0)}")
        rounds_down = body.fresh(f"and {boolean} {inexact}, {signs_differ}")
        if quotient:
            rounded = body.fresh(f"sdiv {type_} {a}, {safe}")
            correction, otherwise = (
                body.fresh(f"sext {boolean} {rounds_down} to {type_}"),
                number(-1),
            )
        else:
            rounded, otherwise = remainder, a
            correction = body.fresh(
                f"select {boolean} {rounds_down}, {type_} {safe}, {type_} {number(0)}"
            )
        floored = body.fresh(f"add {type_} {rounded}, {correction}")
        select_text = f"select {boolean} {is_zero}, {type_} {otherwise}, {type_} {floored}"
        body.names[result] = body.fresh(select_text)

    return rule


def _by_sign(unsigned: Rule, signed: Rule) -> Rule:
    return lambda body, op: (signed if _kind(op) == "signed" else unsigned)(body, op)


def _absolute(body: BodyEmitter, op: Op) -> None:
    rule = _intrinsic({"float": "llvm.fabs"})
    if _kind(op) == "signed":
        rule = _intrinsic({"signed": "llvm.abs"}, "i1 false")
    rule(body, op)


def _inverse_square_root(body: BodyEmitter, op: Op) -> None:
    _intrinsic({"float": "llvm.sqrt"})(body, op)
    (result,) = op.results
    body.names[result] = _divide_one(body, op, body.names[result])


def _reciprocal(body: BodyEmitter, op: Op) -> None:
    (result,), (a,) = op.results, op.operands
    body.names[result] = _divide_one(body, op, body.get(a))


def _divide_one(body: BodyEmitter, op: Op, value: str) -> str:
    (result,) = op.results
    type_ = body.type_of(result)
    numerator = constant_text(1.0, result.type)
    if type_.startswith("<"):
        numerator = f"splat (float {numerator})"
    return body.fresh(f"fdiv {type_} {numerator}, {value}")


def _convert(body: BodyEmitter, op: Op) -> None:
    (result,), (a,) = op.results, op.operands
    source, target = a.type, result.type
    from_type, to_type = body.type_of(a), body.type_of(result)
    operand = body.get(a)
    if target is types.bool_:
        zero = "zeroinitializer" if from_type.startswith("<") else "0"
        compare = f"fcmp une {from_type} {operand}, " if source.kind == "float" else (
            f"icmp ne {from_type} {operand}, "
        )  # fmt: skip
        floating_zero = "0.0" if source.kind == "float" and zero == "0" else zero
        body.names[result] = body.fresh(compare + floating_zero)
        return
    if target.kind == "float":
        if source.kind == "float":
            instruction = "fpext" if target.bits > source.bits else "fptrunc"
        else:
            instruction = "sitofp" if source.kind == "signed" else "uitofp"
    elif source.kind == "float":
        sign = "s" if target.kind == "signed" else "u"
        name = f"@llvm.fpto{sign}i.sat.{mangled(to_type)}.{mangled(from_type)}"
        body.module.declare(f"{to_type} {name}({from_type})")
        body.names[result] = body.fresh(f"call {to_type} {name}({from_type} {operand})")
        return
    elif target.bits < source.bits:
        instruction = "trunc"
    elif target.bits == source.bits:
        body.names[result] = operand
        return
    else:
        instruction = "sext" if source.kind == "signed" else "zext"
    body.names[result] = body.fresh(f"{instruction} {from_type} {operand} to {to_type}")


def _bitcast(body: BodyEmitter, op: Op) -> None:
    (result,), (a,) = op.results, op.operands
    text = f"bitcast {body.type_of(a)} {body.get(a)} to {body.type_of(result)}"
    body.names[result] = body.fresh(text)


def _unpack_f16(high: bool) -> Rule:
    def rule(body: BodyEmitter, op: Op) -> None:
        (result,), (word,) = op.results, op.operands
        type_, text = body.type_of(word), body.get(word)
        if high:
            amount = "splat (i32 16)" if type_.startswith("<") else "16"
            text = body.fresh(f"lshr {type_} {text}, {amount}")
        narrow, half = type_.replace("i32", "i16"), type_.replace("i32", "half")
        bits = body.fresh(f"trunc {type_} {text} to {narrow}")
        number = body.fresh(f"bitcast {narrow} {bits} to {half}")
        body.names[result] = body.fresh(f"fpext {half} {number} to {body.type_of(result)}")

    return rule


def _dot_of_parts(bits: int) -> Rule:
    """Return the rule of a dot product of a word's signed parts.

    Each part is sign-extended by a shift up and back down.
    """

    def rule(body: BodyEmitter, op: Op) -> None:
        result = op.results[0]
        type_, varying = body.type_of(result), body.is_varying(result)
        first, second, total = (body.get(operand, varying=varying) for operand in op.operands)

        def amount_text(amount: int) -> str:
            return f"splat (i32 {amount})" if "<" in type_ else str(amount)

        def signed(word: str, shift: int) -> str:
            top = body.fresh(f"shl {type_} {word}, {amount_text(shift)}") if shift else word
            return body.fresh(f"ashr {type_} {top}, {amount_text(32 - bits)}")

        for shift in range(32 - bits, -1, -bits):
            product = body.fresh(f"mul {type_} {signed(first, shift)}, {signed(second, shift)}")
            total = body.fresh(f"add {type_} {total}, {product}")
        body.names[result] = total

    return rule


_PAIR_PRODUCTS = {4: "sse2.pmadd.wd", 8: "avx2.pmadd.wd", 16: "avx512.pmaddw.d.512"}
"""x86's instructions that multiply and add 16-bit pairs, by lanes."""


def _dot2(body: BodyEmitter, op: Op) -> None:
    result = op.results[0]
    if not (body.is_varying(result) and body.module.has_pair_products):
        _dot_of_parts(16)(body, op)
        return
    type_, pairs = body.type_of(result), f"<{2 * body.lanes} x i16>"
    first, second, total = (body.get(operand, varying=True) for operand in op.operands)
    words = [body.fresh(f"bitcast {type_} {word} to {pairs}") for word in (first, second)]
    name = f"@llvm.x86.{_PAIR_PRODUCTS[body.lanes]}"
    body.module.declare(f"{type_} {name}({pairs}, {pairs})")
    product = body.fresh(f"call {type_} {name}({pairs} {words[0]}, {pairs} {words[1]})")
    body.names[result] = body.fresh(f"add {type_} {total}, {product}")


def _f16_bits(body: BodyEmitter, type_: str, text: str) -> str:
    """Emit the bits of the f16 nearest to an f32, as words of a type."""

    def with_elements(name: str) -> str:
        return type_.replace("i32", name)

    rounded = body.fresh(f"fptrunc {with_elements('float')} {text} to {with_elements('half')}")
    narrow = body.fresh(f"bitcast {with_elements('half')} {rounded} to {with_elements('i16')}")
    wide = body.fresh(f"zext {with_elements('i16')} {narrow} to {type_}")
    is_nan = body.fresh(f"fcmp uno {with_elements('float')} {text}, {text}")
    nan = "splat (i32 32767)" if "<" in type_ else "32767"
    return body.fresh(f"select {with_elements('i1')} {is_nan}, {type_} {nan}, {type_} {wide}")


def _pack_f16(body: BodyEmitter, op: Op) -> None:
    type_ = body.type_of(op.results[0])
    low, high = [
        _f16_bits(body, type_, body.get(operand, varying=body.is_varying(op.results[0])))
        for operand in op.operands
    ]
    upper = body.fresh(f"shl {type_} {high}, {'splat (i32 16)' if '<' in type_ else '16'}")
    body.names[op.results[0]] = body.fresh(f"or {type_} {low}, {upper}")


def _local_id(body: BodyEmitter, op: Op) -> None:
    lanes = ", ".join(f"i32 {lane}" for lane in range(body.lanes))
    body.names[op.results[0]] = f"<{lanes}>" if body.lanes > 1 else "0"


def _workgroup_id(body: BodyEmitter, op: Op) -> None:
    body.names[op.results[0]] = body.workgroup_id_name


def _num_workgroups(body: BodyEmitter, op: Op) -> None:
    body.names[op.results[0]] = "%groups32"


def _emit_nothing(body: BodyEmitter, op: Op) -> None:
    """Emit nothing: only interpreted kernels print and check assertions."""


def _barrier(body: BodyEmitter, op: Op) -> None:
    """Emit nothing: the instances of a workgroup are lanes of a vector and run in lockstep."""


_LOGICAL = {"unsigned": "lshr", "signed": "ashr"}
_LEFT_SHIFTS = {"unsigned": "shl", "signed": "shl"}

RULES: dict[str, Rule] = {
    "add": _sign_independent("add", "fadd"),
    "sub": _sign_independent("sub", "fsub"),
    "mul": _sign_independent("mul", "fmul"),
    "div": _by_sign(_division("udiv"), _signed_division(quotient=True)),
    "rem": _by_sign(_division("urem"), _signed_division(quotient=False)),
    "min": _intrinsic({"unsigned": "llvm.umin", "signed": "llvm.smin", "float": "llvm.minimum"}),
    "max": _intrinsic({"unsigned": "llvm.umax", "signed": "llvm.smax", "float": "llvm.maximum"}),
    "neg": _neg,
    "fma": _intrinsic({"float": "llvm.fma"}),
    "sqrt": _intrinsic({"float": "llvm.sqrt"}),
    "rsqrt": _inverse_square_root,
    "rcp": _reciprocal,
    "abs": _absolute,
    "floor": _intrinsic({"float": "llvm.floor"}),
    "ceil": _intrinsic({"float": "llvm.ceil"}),
    "and": _sign_independent("and"),
    "or": _sign_independent("or"),
    "xor": _sign_independent("xor"),
    "not": _not,
    "shl": _shift(_LEFT_SHIFTS),
    "shr": _shift(_LOGICAL),
    "dot4": _dot_of_parts(8),
    "dot2": _dot2,
    "eq": _compare({"unsigned": "eq", "signed": "eq", "bool": "eq", "float": "oeq"}),
    "ne": _compare({"unsigned": "ne", "signed": "ne", "bool": "ne", "float": "une"}),
    "lt": _compare({"unsigned": "ult", "signed": "slt", "float": "olt"}),
    "le": _compare({"unsigned": "ule", "signed": "sle", "float": "ole"}),
    "select": _select,
    "clz": _intrinsic({"unsigned": "llvm.ctlz"}, "i1 false"),
    "ctz": _intrinsic({"unsigned": "llvm.cttz"}, "i1 false"),
    "popcount": _intrinsic({"unsigned": "llvm.ctpop"}),
    "convert": _convert,
    "bitcast": _bitcast,
    "unpack_f16_low": _unpack_f16(high=False),
    "unpack_f16_high": _unpack_f16(high=True),
    "pack_f16": _pack_f16,
    "local_id": _local_id,
    "workgroup_id": _workgroup_id,
    "num_workgroups": _num_workgroups,
    "barrier": _barrier,
    "print": _emit_nothing,
    "assert": _emit_nothing,
    **LONG_INTEGERS,
}

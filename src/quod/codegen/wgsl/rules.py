"""WGSL rules of the ops that only compute, as expressions with their precedence."""

from __future__ import annotations

from quod.codegen.wgsl.body import LEVELS, BodyEmitter, Expression, Rule, rule_by
from quod.codegen.wgsl.types import constant_text, type_text
from quod.kernel.ir import types
from quod.kernel.ir.nodes import Op
from quod.kernel.ir.types import Type

_ATOM, _SUM, _PRODUCT = LEVELS["atom"], LEVELS["sum"], LEVELS["product"]


def _infix(sign: str, level: int, left: int, right: int) -> Expression:
    def rule(body: BodyEmitter, op: Op) -> tuple[str, int]:
        a, b = op.operands
        return f"{body.text_of(a, left)} {sign} {body.text_of(b, right)}", level

    return rule


def function(name: str) -> Expression:
    """Make a rule that calls one of WGSL's functions with the operands."""

    def rule(body: BodyEmitter, op: Op) -> tuple[str, int]:
        return f"{name}({_arguments([body.text_of(o) for o in op.operands])})", _ATOM

    return rule


def _arguments(texts: list[str]) -> str:
    """Join the arguments of a call so that no comparison is parsed as a template list.

    WGSL parses a name, `<` and a later `>` outside parentheses as a list, as in f(a < b, c > d).
    """
    has_closing_sign = False
    for position in reversed(range(len(texts))):
        if has_closing_sign and _is_unparenthesised(texts[position], "<"):
            texts[position] = f"({texts[position]})"
        has_closing_sign = has_closing_sign or _is_unparenthesised(texts[position], ">")
    return ", ".join(texts)


def _is_unparenthesised(text: str, sign: str) -> bool:
    """Return whether `<` or `>` occurs in a text outside parentheses, not as << or <=."""
    depth = 0
    for position, character in enumerate(text):
        depth += (character in "([") - (character in ")]")
        if depth == 0 and character == sign:
            if sign == ">" or (
                text[position + 1 : position + 2] not in ("<", "=") and text[position - 1] != "<"
            ):
                return True
    return False


def _compare(sign: str) -> Expression:
    plain_comparison = _infix(sign, LEVELS["compare"], LEVELS["shift"], LEVELS["shift"])

    def rule(body: BodyEmitter, op: Op) -> tuple[str, int]:
        if sign != "<" or not _is_unparenthesised(
            body.text_of(op.operands[1], LEVELS["shift"]), ">"
        ):
            return plain_comparison(body, op)
        # In a < b >> c, WGSL would parse a template list as well.
        return _infix(sign, LEVELS["compare"], LEVELS["shift"], _ATOM)(body, op)

    return rule


def _differs(body: BodyEmitter, op: Op) -> tuple[str, int]:
    if op.operands[0].type is types.f32:
        # naga compiles != to an ordered comparison, which is false for NaN.
        return f"(!({_compare('==')(body, op)[0]}))", _ATOM
    return _compare("!=")(body, op)


def _negation(body: BodyEmitter, op: Op) -> tuple[str, int]:
    text = body.text_of(op.operands[0], _ATOM)
    if op.operands[0].type in (types.u32, types.u64):
        return f"(~{text} + {constant_text(1, op.operands[0].type)})", _ATOM
    return f"(-{text})", _ATOM


def _complement(body: BodyEmitter, op: Op) -> tuple[str, int]:
    sign = "!" if op.operands[0].type is types.bool_ else "~"
    return f"({sign}{body.text_of(op.operands[0], _ATOM)})", _ATOM


def _exclusive_or(body: BodyEmitter, op: Op) -> tuple[str, int]:
    if op.operands[0].type is types.bool_:
        return _compare("!=")(body, op)
    return _infix("^", LEVELS["bits"], _ATOM, _ATOM)(body, op)


def _shift(sign: str) -> Expression:
    def rule(body: BodyEmitter, op: Op) -> tuple[str, int]:
        value, amount = op.operands
        text = body.text_of(value, _ATOM)
        if amount.constant is not None:
            return f"{text} {sign} {int(amount.constant) % value.type.bits}u", LEVELS["shift"]
        distance = body.text_of(amount, _ATOM)
        if amount.type is not types.u32:
            distance = f"u32({distance})"
        return f"{text} {sign} ({distance} & {value.type.bits - 1}u)", LEVELS["shift"]

    return rule


def _divide(sign: str) -> Expression:
    """Make a rule of division; for unsigned division by zero, the op's results are emitted.

    The quotient is all ones, where WGSL returns the dividend; the remainder is the dividend.
    """

    def rule(body: BodyEmitter, op: Op) -> tuple[str, int]:
        a, b = op.operands
        if a.type.kind == "float" or (b.constant and a.type.kind == "unsigned"):
            return _infix(sign, _PRODUCT, _PRODUCT, _ATOM)(body, op)
        if a.type.kind == "signed":
            return _signed_division(body, op)
        kind = type_text(a.type)
        unit, zero = constant_text(1, a.type), constant_text(0, a.type)
        otherwise = constant_text((1 << a.type.bits) - 1, a.type) if sign == "/" else "a"
        name = body.module.helper(
            f"{'divide' if sign == '/' else 'remainder'}_{kind}",
            f"fn {'divide' if sign == '/' else 'remainder'}_{kind}(a: {kind}, b: {kind}) -> {kind} "
            f"{{ return select(a {sign} select(b, {unit}, b == {zero}), {otherwise}, b == {zero}); "
            "}",
        )
        return f"{name}({body.text_of(a)}, {body.text_of(b)})", _ATOM

    return rule


def _signed_division(body: BodyEmitter, op: Op) -> tuple[str, int]:
    """Emit floor division; WGSL's rounds toward zero."""
    type_ = op.operands[0].type
    kind = type_text(type_)
    least, minus, zero, unit = (constant_text(n, type_) for n in (-1 << type_.bits - 1, -1, 0, 1))
    name, result = (
        ("divide", f"select(q - select({zero}, {unit}, down), {minus}, b == {zero})")
        if op.name == "div"
        else ("remainder", f"select(r + select({zero}, s, down), a, b == {zero})")
    )
    helper = body.module.helper(
        f"{name}_{kind}",
        f"fn {name}_{kind}(a: {kind}, b: {kind}) -> {kind} {{\n"
        f"  let s = select(b, {unit}, b == {zero} || (a == {least} && b == {minus}));\n"
        "  let q = a / s;\n  let r = a - q * s;\n"
        f"  let down = r != {zero} && (r ^ s) < {zero};\n"
        f"  return {result};\n}}",
    )
    return f"{helper}({body.text_of(op.operands[0])}, {body.text_of(op.operands[1])})", _ATOM


def _extreme(name: str) -> Expression:
    """Make a min or max rule; for floats NaN propagates and -0 is below +0.

    Floats are compared by their bits, as compilers may optimise tests for NaN away.
    """

    def rule(body: BodyEmitter, op: Op) -> tuple[str, int]:
        if op.operands[0].type is not types.f32:
            return function(name)(body, op)
        # Order floats by their bits as unsigned integers, with negative ones below.
        helper = body.module.helper(
            f"{name}_f32",
            f"fn {name}_f32(a: f32, b: f32) -> f32 {{\n"
            "  let p = bitcast<u32>(a);\n  let q = bitcast<u32>(b);\n"
            "  if ((p & 0x7fffffffu) > 0x7f800000u) { return a; }\n"
            "  if ((q & 0x7fffffffu) > 0x7f800000u) { return b; }\n"
            "  let x = select(p | 0x80000000u, ~p, (p >> 31u) != 0u);\n"
            "  let y = select(q | 0x80000000u, ~q, (q >> 31u) != 0u);\n"
            f"  return select(b, a, x {'<' if name == 'min' else '>'} y);\n}}",
        )
        return f"{helper}({', '.join(body.text_of(o) for o in op.operands)})", _ATOM

    return rule


def _select(body: BodyEmitter, op: Op) -> tuple[str, int]:
    condition, a, b = op.operands
    texts = [body.text_of(b), body.text_of(a), body.text_of(condition)]
    return f"select({_arguments(texts)})", _ATOM


def _convert(body: BodyEmitter, op: Op) -> tuple[str, int]:
    (value,) = op.operands
    source, target = value.type, op.attributes["type"]
    text = body.text_of(value)
    if target is types.bool_ and source is types.f32:
        return f"(!({body.text_of(value, LEVELS['shift'])} == 0.0f))", _ATOM
    if target is types.bool_:
        return f"{body.text_of(value, LEVELS['shift'])} != {constant_text(0, source)}", LEVELS[
            "compare"
        ]
    if source is types.bool_:
        unit, zero = constant_text(1, target), constant_text(0, target)
        return f"select({zero}, {unit}, {text})", _ATOM
    if source is types.f32 and target.is_integer:
        return f"{_from_float(body, target)}({text})", _ATOM
    if source is types.i32 and target in (types.u64, types.i64):
        # Convert via the type that preserves the sign.
        wide = f"i64({text})"
        return (wide if target is types.i64 else f"bitcast<u64>({wide})"), _ATOM
    if {source, target} <= {types.u32, types.i32, types.u64, types.i64}:
        if source.bits == target.bits:
            return f"bitcast<{type_text(target)}>({text})", _ATOM
        if target is types.i32:
            return f"bitcast<i32>(u32({text}))", _ATOM
        if source is types.i64:
            return f"u32(bitcast<u64>({text}))", _ATOM
        return f"{type_text(target)}({text})", _ATOM
    return f"{type_text(target)}({text})", _ATOM


def _from_float(body: BodyEmitter, target: Type) -> str:
    """Add the helper for float-to-integer conversion: toward zero, saturating, 0 for NaN."""
    signed = target is types.i32
    kind = "i32" if signed else "u32"
    least, most = ("-2147483648", "2147483648") if signed else ("0", "4294967296")
    extremes = ("i32(-2147483648)", "2147483647i") if signed else ("0u", "4294967295u")
    return body.module.helper(
        f"{kind}_from_f32",
        f"fn {kind}_from_f32(a: f32) -> {kind} {{\n"
        f"  let p = bitcast<u32>(a);\n"
        f"  if ((p & 0x7fffffffu) > 0x7f800000u) {{ return {kind}(0); }}\n"
        f"  if (a >= {most}.0f) {{ return {extremes[1]}; }}\n"
        f"  if (a <= {least}.0f) {{ return {extremes[0]}; }}\n"
        f"  return {kind}(a);\n}}",
    )


def _bitcast(body: BodyEmitter, op: Op) -> tuple[str, int]:
    target = type_text(op.attributes["type"])
    return f"bitcast<{target}>({body.text_of(op.operands[0])})", _ATOM


def _dot4(body: BodyEmitter, op: Op) -> tuple[str, int]:
    """Emit a dot product of bytes; dot4I8Packed is optional, and wgpu does not report it."""
    terms = " + ".join(
        f"(bitcast<i32>(a << {shift}u) >> 24u) * (bitcast<i32>(b << {shift}u) >> 24u)"
        for shift in (24, 16, 8, 0)
    )
    helper = body.module.helper(
        "dot4", f"fn dot4(a: u32, b: u32, c: i32) -> i32 {{\n  return c + {terms};\n}}"
    )
    return f"{helper}({_arguments([body.text_of(o) for o in op.operands])})", _ATOM


def _dot2(body: BodyEmitter, op: Op) -> tuple[str, int]:
    """Emit a dot product of 16-bit halves."""
    terms = " + ".join(
        f"(bitcast<i32>(a << {shift}u) >> 16u) * (bitcast<i32>(b << {shift}u) >> 16u)"
        for shift in (16, 0)
    )
    helper = body.module.helper(
        "dot2", f"fn dot2(a: u32, b: u32, c: i32) -> i32 {{\n  return c + {terms};\n}}"
    )
    return f"{helper}({_arguments([body.text_of(o) for o in op.operands])})", _ATOM


def _reciprocal(body: BodyEmitter, op: Op) -> tuple[str, int]:
    return f"1.0f / {body.text_of(op.operands[0], _ATOM)}", _PRODUCT


def _exp2_normal(body: BodyEmitter, op: Op) -> tuple[str, int]:
    a = body.text_of(op.operands[0], _ATOM)
    return f"select(exp2({a}), 0.0f, ({a} < -126.0f))", _ATOM


_EXPRESSIONS: dict[str, Expression] = {
    "add": _infix("+", _SUM, _SUM, _PRODUCT),
    "sub": _infix("-", _SUM, _SUM, _PRODUCT),
    "mul": _infix("*", _PRODUCT, _PRODUCT, _ATOM),
    "div": _divide("/"),
    "rem": _divide("%"),
    "min": _extreme("min"),
    "max": _extreme("max"),
    "neg": _negation,
    "fma": function("fma"),
    "dot4": _dot4,
    "dot2": _dot2,
    "sqrt": function("sqrt"),
    "rsqrt": function("inverseSqrt"),
    "rcp": _reciprocal,
    "exp2": function("exp2"),
    "exp2_normal": _exp2_normal,
    "abs": function("abs"),
    "floor": function("floor"),
    "ceil": function("ceil"),
    "and": _infix("&", LEVELS["bits"], _ATOM, _ATOM),
    "or": _infix("|", LEVELS["bits"], _ATOM, _ATOM),
    "xor": _exclusive_or,
    "not": _complement,
    "shl": _shift("<<"),
    "shr": _shift(">>"),
    "eq": _compare("=="),
    "ne": _differs,
    "lt": _compare("<"),
    "le": _compare("<="),
    "select": _select,
    "clz": function("countLeadingZeros"),
    "ctz": function("countTrailingZeros"),
    "popcount": function("countOneBits"),
    "convert": _convert,
    "bitcast": _bitcast,
}

RULES: dict[str, Rule] = {name: rule_by(expression) for name, expression in _EXPRESSIONS.items()}

"""What lane 0 has of an index, by scalars as far as that goes: addresses are no vectors."""

from __future__ import annotations

from collections.abc import Callable

from quod.codegen.llvm.body import BodyEmitter
from quod.codegen.llvm.types import scalar_name
from quod.kernel.ir import Op
from quod.kernel.value import Value


def index64_of_lane0(body: BodyEmitter, index: Value) -> str:
    """The same in 64 bits."""
    first = of_lane0(body, index)
    if index.type.bits == 64:
        return first
    return _wide_of_lane0(body, index, first)


def _wide_of_lane0(body: BodyEmitter, index: Value, first: str) -> str:
    """What lane 0 has of 32 bits as 64, below 0 where active lanes begin behind a number that has
    wrapped around."""
    behind = None if body.mask is None else body.beginning[body.mask]
    stride = body.strides.of(index)
    if behind is None or stride is None or stride <= 0:
        return body.fresh(f"zext i32 {first} to i64")
    distance = behind if stride == 1 else body.fresh(f"mul i32 {behind}, {stride}")
    further = body.fresh(f"add i32 {first}, {distance}")
    wide, less = (body.fresh(f"zext i32 {word} to i64") for word in (further, distance))
    return body.fresh(f"sub i64 {wide}, {less}")


def of_lane0(body: BodyEmitter, index: Value) -> str:
    """What lane 0 has of an index."""
    if not body.is_varying(index):
        return body.get(index)
    return body.first_lane(index, lambda: _made_of_lane0(body, index))


def _made_of_lane0(body: BodyEmitter, index: Value) -> str:
    op = index.op
    if op is not None and op.name == "local_id":
        return "0"
    if op is not None and (rule := _OF_LANE0.get(op.name)) is not None:
        return rule(body, op)
    if op is not None and op.name == "convert" and _is_widened(op):
        return _wide_of_lane0(body, op.operands[0], of_lane0(body, op.operands[0]))
    return _extracted(body, index)


def _extracted(body: BodyEmitter, index: Value) -> str:
    return body.fresh(f"extractelement {body.type_of(index)} {body.get(index)}, i64 0")


def _scalar_arithmetic(body: BodyEmitter, op: Op) -> str:
    x, y = (of_lane0(body, operand) for operand in op.operands)
    return body.fresh(f"{op.name} {scalar_name(op.results[0].type)} {x}, {y}")


def _scalar_shift(body: BodyEmitter, op: Op) -> str:
    """By an amount that is known: of others no stride is."""
    x, amount = op.operands
    if not isinstance(amount.constant, int):
        return _extracted(body, op.results[0])
    bits = op.results[0].type.bits
    return body.fresh(f"shl i{bits} {of_lane0(body, x)}, {amount.constant % bits}")


_OF_LANE0: dict[str, Callable[[BodyEmitter, Op], str]] = {
    "add": _scalar_arithmetic, "sub": _scalar_arithmetic, "mul": _scalar_arithmetic,
    "shl": _scalar_shift,
}  # fmt: skip
"""Ops whose result of one lane follows from the operands of that lane."""


def _is_widened(op: Op) -> bool:
    before, after = op.operands[0].type, op.results[0].type
    return before.kind == "unsigned" and after.bits > before.bits

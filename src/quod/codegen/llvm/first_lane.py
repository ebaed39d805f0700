"""Lane 0's value of an index, computed with scalar ops where possible, for scalar addresses."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from quod.codegen.llvm.body import BodyEmitter
from quod.codegen.llvm.settled import settled
from quod.codegen.llvm.types import scalar_name
from quod.kernel.ir.nodes import Op
from quod.kernel.ir.value import Value


def index64_of_lane0(body: BodyEmitter, index: Value) -> str:
    """Emit lane 0's value of an index, widened to i64."""
    lane0_index = of_lane0(body, index)
    if index.type.bits == 64:
        return lane0_index
    return _wide_of_lane0(body, index, lane0_index)


def _wide_of_lane0(body: BodyEmitter, index: Value, lane0_index: str) -> str:
    """Widen lane 0's 32-bit index to i64.

    If lane 0's index has wrapped around, the result is negative: it is derived from the lane whose
    index has not, by the stride.
    """
    unwrapped_lane = None if body.mask is None else body.prefix_masks[body.mask]
    stride = body.strides.of(index)
    if unwrapped_lane is None or stride is None or stride <= 0:
        return body.fresh(f"zext i32 {lane0_index} to i64")
    distance = unwrapped_lane if stride == 1 else body.fresh(f"mul i32 {unwrapped_lane}, {stride}")
    unwrapped_index = body.fresh(f"add i32 {lane0_index}, {distance}")
    wide_index, wide_distance = (
        body.fresh(f"zext i32 {word} to i64") for word in (unwrapped_index, distance)
    )
    return body.fresh(f"sub i64 {wide_index}, {wide_distance}")


def of_lane0(body: BodyEmitter, index: Value) -> str:
    """Emit lane 0's value of an index."""
    return settled(
        index,
        body.first_lanes,
        lambda value: _operands(body, value),
        lambda value: _emit_lane0(body, value),
    )


def _operands(body: BodyEmitter, value: Value) -> Sequence[Value]:
    """Return the operands of lane 0's value; none if it is extracted from the vector."""
    op = value.op
    rule = None if op is None or not body.is_varying(value) else _OPERANDS.get(op.name)
    return () if op is None or rule is None else rule(op)


def _emit_lane0(body: BodyEmitter, value: Value) -> str:
    if not body.is_varying(value):
        return body.get(value)
    op = value.op
    if op is not None and op.name == "local_id":
        return "0"
    lane0_operands = [body.first_lanes[operand] for operand in _operands(body, value)]
    if op is None or not lane0_operands:
        return body.fresh(f"extractelement {body.type_of(value)} {body.get(value)}, i64 0")
    if op.name == "convert":
        return _wide_of_lane0(body, op.operands[0], lane0_operands[0])
    kind = scalar_name(value.type)
    if op.name == "shl":
        amount = op.operands[1].constant
        assert isinstance(amount, int)
        lane0_operands.append(str(amount % value.type.bits))
    return body.fresh(f"{op.name} {kind} {lane0_operands[0]}, {lane0_operands[1]}")


def _all(op: Op) -> Sequence[Value]:
    return op.operands


def _shifted(op: Op) -> Sequence[Value]:
    """Return the shifted operand, if the amount is constant."""
    return op.operands[:1] if isinstance(op.operands[1].constant, int) else ()


def _widened(op: Op) -> Sequence[Value]:
    return op.operands[:1] if _is_widened(op) else ()


_OPERANDS: dict[str, Callable[[Op], Sequence[Value]]] = {
    "add": _all, "sub": _all, "mul": _all, "shl": _shifted, "convert": _widened,
}  # fmt: skip
"""The ops that are recomputed for lane 0 alone, with the operands that are needed for that."""


def _is_widened(op: Op) -> bool:
    source_type, result_type = op.operands[0].type, op.results[0].type
    return source_type.kind == "unsigned" and result_type.bits > source_type.bits

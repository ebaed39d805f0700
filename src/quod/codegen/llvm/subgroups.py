"""LLVM rules of subgroup ops.

These are legal only where all instances reach them, so no mask is active.
"""

from __future__ import annotations

from collections.abc import Sequence

from quod.codegen.llvm.body import BodyEmitter, Rule
from quod.codegen.llvm.memory import gather
from quod.codegen.llvm.rules import RULES as ELEMENTWISE
from quod.codegen.llvm.types import memory_name, scalar_name
from quod.kernel.ir.nodes import Op
from quod.kernel.ir.value import Value
from quod.kernel.ops.scalar import COMBINING, OPS, distances


def _uniform(body: BodyEmitter, op: Op) -> None:
    (value,), (result,) = op.operands, op.results
    operand = body.get(value)
    if body.is_varying(value):
        operand = body.fresh(f"extractelement {body.type_of(value)} {operand}, i64 0")
    body.names[result] = operand


def _shuffle(body: BodyEmitter, op: Op) -> None:
    """Emit a shuffle: a shufflevector for statically known lanes, else a round trip via memory."""
    (value, lane), (result,) = op.operands, op.results
    size = body.module.kernel.subgroup_size
    if not body.is_varying(value) and not body.is_varying(result):
        body.names[result] = body.get(value)
        return
    if not body.is_varying(result):
        source = body.fresh(f"urem i32 {body.get(lane)}, {size}")
        text = f"extractelement {body.type_of(value)} {body.get(value)}, i32 {source}"
        body.names[result] = body.fresh(text)
        return
    source_lanes = body.known_lanes.of(lane)
    if source_lanes is not None:
        sources = [
            lane_number // size * size + int(source_lane) % size
            for lane_number, source_lane in enumerate(source_lanes)
        ]
        kind, text = body.vector(scalar_name(value.type)), body.get(value, varying=True)
        body.names[result] = _permute_lanes(body, kind, text, sources)
        return
    scalar = memory_name(value.type)
    kind, indices = body.vector(scalar), body.vector("i32")
    buffer = body.allocate(f"[{body.lanes} x {scalar}]", 64)
    body.line(f"store {kind} {body.get(value, varying=True)}, ptr {buffer}, align 64")
    lane_operand = body.get(lane, varying=True)
    lane_in_subgroup = body.fresh(f"urem {indices} {lane_operand}, splat (i32 {size})")
    subgroup_starts = ", ".join(f"i32 {lane // size * size}" for lane in range(body.lanes))
    source = body.fresh(f"add {indices} {lane_in_subgroup}, <{subgroup_starts}>")
    addresses = body.fresh(f"getelementptr {scalar}, ptr {buffer}, {indices} {source}")
    body.names[result] = gather(body, kind, scalar, addresses, value.type.bytes)


def _permute_lanes(body: BodyEmitter, kind: str, text: str, sources: Sequence[int]) -> str:
    """Emit a vector whose lane i is lane sources[i] of another."""
    indices = ", ".join(f"i32 {source}" for source in sources)
    return body.fresh(
        f"shufflevector {kind} {text}, {kind} poison, <{body.lanes} x i32> <{indices}>"
    )


def _ballot(body: BodyEmitter, op: Op) -> None:
    (condition,), (result,) = op.operands, op.results
    size, lanes = min(body.module.kernel.subgroup_size, body.lanes), body.lanes
    if not body.is_varying(condition):
        all_ones = (1 << size) - 1
        body.names[result] = body.fresh(f"select i1 {body.get(condition)}, i32 {all_ones}, i32 0")
        return
    bits = body.fresh(f"bitcast {body.vector('i1')} {body.get(condition)} to i{lanes}")
    if not body.is_varying(result):
        body.names[result] = _as_32_bits(body, bits, lanes)
        return
    kind, vector = body.vector("i32"), "poison"
    for first_lane in range(0, lanes, size):
        subgroup_bits = body.fresh(f"lshr i{lanes} {bits}, {first_lane}")
        subgroup_bits = _as_32_bits(body, subgroup_bits, lanes)
        subgroup_bits = body.fresh(f"and i32 {subgroup_bits}, {(1 << size) - 1}")
        for lane in range(first_lane, first_lane + size):
            vector = body.fresh(f"insertelement {kind} {vector}, i32 {subgroup_bits}, i64 {lane}")
    body.names[result] = vector


def _as_32_bits(body: BodyEmitter, bits: str, count: int) -> str:
    if count == 32:
        return bits
    return body.fresh(f"{'zext' if count < 32 else 'trunc'} i{count} {bits} to i32")


def _reduce(body: BodyEmitter, op: Op) -> None:
    """Emit a subgroup reduction as a butterfly of shuffles."""
    (value,), (result,) = op.operands, op.results
    size, lanes = min(body.module.kernel.subgroup_size, body.lanes), body.lanes
    kind = body.vector(memory_name(value.type))
    text = body.get(value, varying=True)
    for distance in distances(size):
        partners = [lane ^ distance for lane in range(lanes)]
        has_partner = [partner < lanes for partner in partners]
        indices = ", ".join(
            f"i32 {partner if exists else lane}"
            for lane, (partner, exists) in enumerate(zip(partners, has_partner, strict=True))
        )
        order = f"<{lanes} x i32> <{indices}>"
        partner_vector = body.fresh(f"shufflevector {kind} {text}, {kind} poison, {order}")
        combined = _combine_vectors(body, op, [text, partner_vector])
        if not all(has_partner):
            bits = ", ".join(f"i1 {'true' if exists else 'false'}" for exists in has_partner)
            choice = f"select <{lanes} x i1> <{bits}>, {kind} {combined}, {kind} {text}"
            combined = body.fresh(choice)
        text = combined
    if size & (size - 1):
        text = body.fresh(
            f"shufflevector {kind} {text}, {kind} poison, <{lanes} x i32> zeroinitializer"
        )
    if not body.is_varying(result) and lanes > 1:
        text = body.fresh(f"extractelement {kind} {text}, i64 0")
    body.names[result] = text


def _combine_vectors(body: BodyEmitter, op: Op, operands: list[str]) -> str:
    """Combine vectors with the binary op of a reduction."""
    type_, builder = op.operands[0].type, op.results[0].builder
    values = [Value(type_, builder) for _ in operands]
    result = Value(type_, builder)
    body.names.update(zip(values, operands, strict=True))
    body.uniformity.varying.update((*values, result))
    name = op.definition.combines
    ELEMENTWISE[name](body, Op(OPS[name], tuple(values), (result,), {}, (), op.location))
    return body.names[result]


RULES: dict[str, Rule] = {
    "uniform": _uniform,
    "shuffle": _shuffle,
    "ballot": _ballot,
    **dict.fromkeys(COMBINING, _reduce),
}

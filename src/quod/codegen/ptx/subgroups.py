"""PTX rules of instance indices, barriers and subgroup ops."""

from __future__ import annotations

from quod.codegen.ptx.body import BodyEmitter, Rule
from quod.codegen.ptx.machine import DEFAULT_ARCH, has_setmaxnreg
from quod.codegen.ptx.rules import RULES as ELEMENTWISE
from quod.codegen.ptx.types import bits_or_float, register_kind, suffix
from quod.errors import KernelError
from quod.kernel.ir.nodes import Op
from quod.kernel.ir.types import Type
from quod.kernel.ir.value import Value
from quod.kernel.ops.scalar import COMBINING, OPS, distances


def _special(register: str) -> Rule:
    def rule(body: BodyEmitter, op: Op) -> None:
        body.define(op.results[0], "mov.u32", register)

    return rule


def _emit_nothing(body: BodyEmitter, op: Op) -> None:
    """Emit nothing: only interpreted kernels print and check assertions."""


def emit_proxy_fence(body: BodyEmitter) -> None:
    """Emit a proxy fence, if needed: this thread's stores precede later tile copies and products.

    These access shared memory through the async proxy, which barriers alone do not order.
    """
    if body.module.stores_to_tiles:
        body.line("fence.proxy.async.shared::cta;")


def _barrier(body: BodyEmitter, op: Op) -> None:
    emit_proxy_fence(body)
    body.line("bar.sync 0;")


def _named_barrier(instruction: str) -> Rule:
    def rule(body: BodyEmitter, op: Op) -> None:
        emit_proxy_fence(body)
        body.line(f"bar.{instruction} {op.attributes['number']}, {op.attributes['count']};")

    return rule


def _registers(body: BodyEmitter, op: Op) -> None:
    """Emit setmaxnreg; nothing on architectures that cannot redistribute registers."""
    if not has_setmaxnreg(body.module.machine.arch or DEFAULT_ARCH):
        return
    body.require(op, (8, 0), 90)
    body.module.require_specific()
    count, entry = op.attributes["count"], body.module.registers_at_entry()
    if count != entry:
        direction = "inc" if count > entry else "dec"
        body.line(f"setmaxnreg.{direction}.sync.aligned.u32 {count};")


def _members(body: BodyEmitter, op: Op) -> str:
    """Return the member mask of a warp; raises KernelError if subgroups are not warps."""
    size = body.module.machine.subgroup_size
    if size != 32:
        raise KernelError(
            f"{op.location}: {op.name} for a subgroup of {size}, where a warp has 32 instances; "
            "trace for quod.codegen.ptx.machine.ptx_machine()"
        )
    return f"0x{(1 << min(size, body.module.kernel.workgroup_size)) - 1:x}"


def _shuffle(body: BodyEmitter, op: Op) -> None:
    """Emit a shuffle, of two words for 64-bit values; the lane index is taken modulo 32."""
    (result,), (value, lane) = op.results, op.operands
    members, source_lane = _members(body, op), body.get(lane)
    source = body.register(value)
    if result.type.bits == 32:
        body.define(result, "shfl.sync.idx.b32", f"{source}, {source_lane}, 31, {members}")
        return
    low, high = body.new("r"), body.new("r")
    body.line(f"mov.b64 {{{low}, {high}}}, {source};")
    halves = [
        body.fresh("r", "shfl.sync.idx.b32", f"{half}, {source_lane}, 31, {members}")
        for half in (low, high)
    ]
    body.define(result, "mov.b64", f"{{{', '.join(halves)}}}")


def _ballot(body: BodyEmitter, op: Op) -> None:
    condition = body.get(op.operands[0])
    body.define(op.results[0], "vote.sync.ballot.b32", f"{condition}, {_members(body, op)}")


def _combined(body: BodyEmitter, op: Op) -> None:
    """Emit a reduction: one instruction for 32-bit integers from sm_80 on, else a butterfly."""
    (result,), (value,) = op.results, op.operands
    name, type_ = op.definition.combines, result.type
    members, source = _members(body, op), body.register(value)
    if type_.bits == 32 and type_.is_integer and body.module.architecture.capability >= 80:
        body.require(op, (7, 0), 80)
        body.define(result, f"redux.sync.{name}.{suffix(type_)}", f"{source}, {members}")
        return
    width = min(32, body.module.kernel.workgroup_size)
    thread = ""
    for distance in distances(width):
        partner, partner_exists = "", ""
        if width & (width - 1):
            thread = thread or body.fresh("r", "mov.u32", "%tid.x")
            partner = body.fresh("r", "xor.b32", f"{thread}, {distance}")
            partner_exists = body.fresh("p", "setp.lt.u32", f"{partner}, {width}")
            partner = body.fresh("r", "selp.b32", f"{partner}, {thread}, {partner_exists}")
        other = _from_lane(body, type_, source, partner or distance, members)
        combined = _combine_registers(body, op, [source, other])
        if partner_exists:
            combined = body.fresh(
                register_kind(type_),
                f"selp.{bits_or_float(type_)}",
                f"{combined}, {source}, {partner_exists}",
            )
        source = combined
    if thread:
        # Lane 0 always has a partner, so only its result is complete.
        source = _from_lane(body, type_, source, "0", members)
    body.names[result] = source


def _from_lane(body: BodyEmitter, type_: Type, source: str, lane: str | int, members: str) -> str:
    """Emit a shuffle from the lane in a register or, for an int, at that xor distance."""
    mode = "bfly" if isinstance(lane, int) else "idx"
    kind, bits = register_kind(type_), type_.bits
    words = [source]
    if bits == 64:
        words = [body.new("r"), body.new("r")]
        body.line(f"mov.b64 {{{words[0]}, {words[1]}}}, {source};")
    shuffled = [
        body.fresh(
            kind if bits == 32 else "r", f"shfl.sync.{mode}.b32", f"{w}, {lane}, 31, {members}"
        )
        for w in words
    ]
    return shuffled[0] if bits == 32 else body.fresh(kind, "mov.b64", f"{{{', '.join(shuffled)}}}")


def _combine_registers(body: BodyEmitter, op: Op, operands: list[str]) -> str:
    """Combine registers with the binary op of a reduction."""
    type_, builder = op.operands[0].type, op.results[0].builder
    values = [Value(type_, builder) for _ in operands]
    result = Value(type_, builder)
    body.names.update(zip(values, operands, strict=True))
    name = op.definition.combines
    ELEMENTWISE[name](body, Op(OPS[name], tuple(values), (result,), {}, (), op.location))
    return body.names[result]


def _uniform(body: BodyEmitter, op: Op) -> None:
    body.names[op.results[0]] = body.register(op.operands[0])


RULES: dict[str, Rule] = {
    "local_id": _special("%tid.x"),
    "workgroup_id": _special("%ctaid.x"),
    "num_workgroups": _special("%nctaid.x"),
    "uniform": _uniform,
    "shuffle": _shuffle,
    "ballot": _ballot,
    **dict.fromkeys(COMBINING, _combined),
    "barrier": _barrier,
    "named_barrier": _named_barrier("sync"),
    "named_barrier_arrive": _named_barrier("arrive"),
    "registers": _registers,
    "print": _emit_nothing,
    "assert": _emit_nothing,
}

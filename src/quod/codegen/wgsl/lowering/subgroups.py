"""Lowering of barriers and subgroup ops."""

from __future__ import annotations

from quod.codegen.int64.forms import Number
from quod.codegen.int64.rules import compute
from quod.codegen.wgsl.lowering.body import Lowered, Lowering, Rule
from quod.kernel.ir import types
from quod.kernel.ir.nodes import Function, Op, walk
from quod.kernel.ir.types import Type
from quod.kernel.ir.value import Value
from quod.kernel.machine import Capability
from quod.kernel.ops.scalar import COMBINING, OPS, SUBGROUP, distances


def declare_shuffle_memory(lowering: Lowering) -> None:
    """Declare the shared memory of emulated subgroups, if the kernel uses them."""
    if not lowering.machine.has(Capability.SLOW_SUBGROUPS):
        return
    blocks = (lowering.source.block, *(function.block for function in lowering.source.functions))
    used_ops = {op.name for block in blocks for op in walk(block)} & set(SUBGROUP)
    size = lowering.source.workgroup_size
    if used_ops - {"ballot"}:
        lowering.exchange = lowering.k.shared(types.u32, size)
    if "ballot" in used_ops:
        lowering.votes = lowering.k.shared(types.u32, -(-size // lowering.source.subgroup_size))
        lowering.atomic.add(lowering.votes)


def exchanges(lowering: Lowering, function: Function) -> bool:
    """Return whether a function exchanges values between instances through shared memory."""
    if lowering.exchange is None and lowering.votes is None:
        return False
    if id(function) not in lowering.exchanging:
        lowering.exchanging[id(function)] = any(
            op.name in SUBGROUP
            or (op.name == "call" and exchanges(lowering, op.attributes["function"]))
            for op in walk(function.block)
        )
    return lowering.exchanging[id(function)]


def _barrier(lowering: Lowering, op: Op) -> None:
    lowering.k.barrier()


def _uniform(lowering: Lowering, op: Op) -> None:
    words = lowering.wide.to_words(lowering.values[op.operands[0]])
    uniform_words = [lowering.k.emit("uniform", (word,)) for word in words]
    lowering.values[op.results[0]] = lowering.wide.from_words(op.operands[0].type, uniform_words)


def _shuffle(lowering: Lowering, op: Op) -> None:
    number, lane = lowering.values[op.operands[0]], lowering.value(op.operands[1])
    lowering.values[op.results[0]] = _read_from_lane(lowering, op.operands[0].type, number, lane)


def _read_from_lane(lowering: Lowering, type_: Type, number: Lowered, lane: Value) -> Number:
    """Read a number from a lane of the same subgroup, modulo the subgroup's size."""
    k, exchange = lowering.k, lowering.exchange
    words = lowering.wide.to_words(number)
    if exchange is None:
        return lowering.wide.from_words(type_, [k.emit("shuffle", (w, lane)) for w in words])
    own_lane = k.local_id()
    size = k.workgroup_size
    # If the subgroup is larger than the workgroup, only the workgroup's lanes exist.
    source_lane = k.minimum(k.subgroup_id() * k.subgroup_size + lane % k.subgroup_size, size - 1)

    def through_memory(word: Value) -> Value:
        exchange[own_lane] = word
        k.barrier()
        received = exchange[source_lane]
        k.barrier()
        return received

    return lowering.wide.from_words(type_, [through_memory(word) for word in words])


def _combined(lowering: Lowering, op: Op) -> None:
    """Lower a reduction: WGSL's function for words if it has subgroups, else a butterfly."""
    k, type_ = lowering.k, op.results[0].type
    number = lowering.values[op.operands[0]]
    if lowering.exchange is None and type_ in (types.u32, types.i32):
        assert isinstance(number, Value)
        lowering.values[op.results[0]] = k.emit(op.name, (number,))
        return
    name = op.definition.combines
    width = min(k.workgroup_size, k.subgroup_size)
    for distance in distances(width):
        lane = k.lane_id() ^ distance
        partner_exists = lane < width
        if width & (width - 1):
            lane = k.select(partner_exists, lane, k.lane_id())
        pair = Op(OPS[name], op.operands * 2, op.results, {}, (), op.location)
        (combined,) = compute(
            lowering.wide, pair, [number, _read_from_lane(lowering, type_, number, lane)]
        )
        if width & (width - 1):
            combined = lowering.wide.select(partner_exists, combined, number)
        number = combined
    if width & (width - 1):
        # Lane 0 always has a partner, so only its result is complete.
        number = _read_from_lane(lowering, type_, number, lowering.zero())
    lowering.values[op.results[0]] = number


def _ballot(lowering: Lowering, op: Op) -> None:
    k, votes, condition = lowering.k, lowering.votes, lowering.value(op.operands[0])
    if votes is None:
        lowering.values[op.results[0]] = k.emit("ballot", (condition,))
        return
    subgroup, lane = k.subgroup_id(), k.lane_id()
    with k.if_(lane == 0):
        votes[subgroup] = 0
    k.barrier()
    with k.if_(condition):
        k.atomic_or(votes, subgroup, k.constant(1, types.u32) << lane)
    k.barrier()
    ballot = votes[subgroup]
    k.barrier()
    lowering.values[op.results[0]] = ballot


def _drop(lowering: Lowering, op: Op) -> None:
    """Drop the op: only interpreted kernels print and check assertions."""


RULES: dict[str, Rule] = {
    "barrier": _barrier,
    "uniform": _uniform,
    "shuffle": _shuffle,
    "ballot": _ballot,
    **dict.fromkeys(COMBINING, _combined),
    "print": _drop,
    "assert": _drop,
}

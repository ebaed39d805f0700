"""Subgroups and uniform values: results for every size, and invalid uses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from quod.kernel import (
    U32,
    Builder,
    Kernel,
    Machine,
    Pointer,
    TraceError,
    Value,
    VerificationFailure,
    f32,
    function,
    kernel,
    u8,
    u32,
)
from quod.kernel.errors import InterpreterError
from quod.kernel.interpreter.interpreter import interpret
from quod.kernel.ir.nodes import walk
from quod.kernel.ir.parse import parse
from quod.kernel.ir.text import to_text
from quod.kernel.verifier.uniformity import Uniformity
from quod.kernel.verifier.verify import verify
from tests.kernel.machines import EIGHT
from tests.kernel.refusals import line_of, refuses
from tests.kernel.subgroup_kernels import EXCHANGES, INSTANCES, Exchange, Shape
from tests.support.thorough import one_and_others

FEATURES = frozenset({"u64", "subgroup"})


def machine(workgroup: int, subgroup: int) -> Machine:
    return Machine("ptx", workgroup, FEATURES, subgroup_size=subgroup, arch="sm_90a")


SHAPES = [Shape(8, 8), Shape(8, 4), Shape(8, 1), Shape(1, 1), Shape(64, 32), Shape(128, 32)]
SHAPES += [Shape(256, 32), Shape(32, 32), Shape(8, 32), Shape(16, 8)]
WARPS = machine(64, 32)


@pytest.mark.parametrize("at_once", one_and_others([3, 1]))
@pytest.mark.parametrize("shape", SHAPES, ids=lambda s: f"{s.subgroup}-of-{s.workgroup}")
@pytest.mark.parametrize("exchange", EXCHANGES, ids=str)
def test_exchange_ops_match_the_interpreter(exchange: Exchange, shape: Shape, at_once: int) -> None:
    arguments = [a.copy() if isinstance(a, np.ndarray) else a for a in exchange.arguments]
    traced = exchange.definition.trace(machine(shape.workgroup, shape.subgroup))
    size = shape.subgroup
    if exchange.definition.name == "where_am_i" and size > shape.workgroup:
        assert not any(op.name == "rem" for op in walk(traced.block))
    interpret(traced, INSTANCES // shape.workgroup, arguments, groups_at_once=at_once)
    rows = [exchange.model(shape, i) for i in range(INSTANCES)]
    for column, buffer in enumerate(arguments[exchange.inputs :]):
        assert buffer.tolist() == [row[column] for row in rows]


@pytest.mark.parametrize("exchange", EXCHANGES, ids=str)
def test_text_round_trips(exchange: Exchange) -> None:
    traced = exchange.definition.trace(WARPS)
    again = parse(to_text(traced))
    assert again.subgroup_size == 32
    assert to_text(again) == to_text(traced)
    verify(again, WARPS)


def test_resident_workgroups() -> None:
    @kernel
    def resident(k: Builder, y: Pointer[U32]) -> None:
        k.resident_workgroups(3)
        y[k.global_id()] = 1

    traced = resident.trace(WARPS)
    assert traced.resident == 3
    head = to_text(traced).splitlines()[0]
    assert head.endswith("workgroup 64 shared 0 subgroup 32 resident 3 {")
    assert parse(to_text(traced)).resident == 3
    assert resident.trace(EIGHT).subgroup_size == 1

    def none(k: Builder) -> None:
        k.resident_workgroups(0)  # here

    refuses(none, TraceError, "at least one workgroup is resident, not 0")


# --- what is refused


def test_a_machine_without_subgroups() -> None:
    def shuffles(k: Builder, y: Pointer[U32]) -> None:
        y[0] = k.shuffle(y[0], 1)  # here

    def votes(k: Builder, y: Pointer[U32]) -> None:
        y[0] = k.ballot(y[0] == 1)  # here

    def asks(k: Builder, y: Pointer[U32]) -> None:
        y[0] = k.lane_id()  # here

    message = (
        "the machine for llvm has no subgroups; ask k.machine.has('subgroup') and use shared "
        "memory without them"
    )
    for body in (shuffles, votes, asks):
        refuses(body, TraceError, message)
    traced = kernel(shuffles).trace(WARPS)
    with pytest.raises(VerificationFailure, match="shuffle needs subgroups, which the machine for"):
        verify(traced, EIGHT)


def test_invalid_subgroup_sizes_are_rejected() -> None:
    @kernel
    def votes(k: Builder, y: Pointer[U32]) -> None:
        y[0] = k.ballot(y[0] == 1)

    with pytest.raises(VerificationFailure, match="a workgroup of 48 instances is not made of sub"):
        votes.trace(machine(48, 32))
    with pytest.raises(VerificationFailure, match="a subgroup has 1 to 32 instances, not 64"):
        votes.trace(machine(64, 64))
    with pytest.raises(VerificationFailure, match="a subgroup has 1 to 32 instances, not 0"):
        votes.trace(machine(64, 0))
    votes.trace(machine(16, 32))


UNDER = (
    "a {} that not every instance reaches: it stands under the if of line {}, whose condition "
    "differs between instances"
)


def test_subgroup_ops_in_divergent_code_are_rejected() -> None:
    @function
    def exchange(k: Builder, value: Value) -> Value:
        return k.shuffle(value, 0)  # deep

    def shuffles(k: Builder, x: Pointer[U32]) -> None:
        with k.if_(k.local_id() < 3):  # under
            x[0] = k.shuffle(x[1], 1)  # here

    def votes(k: Builder, x: Pointer[U32]) -> None:
        with k.if_(x[0] < 3):  # under
            x[0] = k.ballot(x[1] == 1)  # here

    def promises(k: Builder, x: Pointer[U32]) -> None:
        with k.if_(k.lane_id() == 0):  # under
            x[0] = k.uniform(x[1])  # here

    for body, name in ((shuffles, "shuffle"), (votes, "ballot"), (promises, "uniform")):
        message = UNDER.format(name, line_of(body, "# under"))
        refuses(body, VerificationFailure, message, machine=WARPS)

    @kernel
    def calls(k: Builder, x: Pointer[U32]) -> None:
        with k.if_(k.local_id() < 3):
            x[0] = exchange(k, x[1])

    with pytest.raises(VerificationFailure) as caught:
        calls.trace(WARPS)
    deep = line_of(exchange.__wrapped__, "# deep")  # type: ignore[attr-defined]
    under = line_of(calls, "k.if_")
    assert str(caught.value) == f"{__file__}:{deep}: {UNDER.format('shuffle', under)}"


def test_a_ballot_is_uniform_in_a_workgroup_of_one_subgroup() -> None:
    @kernel
    def until_none(k: Builder, x: Pointer[U32]) -> None:
        i = k.local_id()
        with k.while_(x[i]) as loop:
            loop.check(k.any_lane(loop.carried != 0))
            neighbour = k.shuffle(loop.carried, 3)
            loop.next(k.select(loop.carried > neighbour, loop.carried - 1, loop.carried >> 1))
        x[i] = loop.results

    until_none.trace(machine(32, 32))
    until_none.trace(machine(16, 32))
    with pytest.raises(VerificationFailure, match="ballot that not every instance reaches"):
        until_none.trace(WARPS)


def test_uniformity() -> None:
    @kernel
    def values(k: Builder, n: U32, x: Pointer[U32]) -> None:
        i = k.local_id()
        for value in (
            k.uniform(x[i]),
            k.ballot(n == 3),
            k.ballot(i == 3),
            k.shuffle(n, 1),
            k.shuffle(n, i),
            k.shuffle(i, 1),
            k.shuffle(i, i),
            k.atomic_max(x, 0, 1),
            k.atomic_compare_exchange(x, 0, 1, 2),
        ):
            x[0] = value

    def kinds(traced: Kernel, *, one_subgroup: bool) -> list[bool]:
        uniformity = Uniformity((), trust_loads=True, one_subgroup=one_subgroup)
        uniformity.visit(traced.block)
        stores = [op for op in walk(traced.block) if op.name == "store"]
        return [uniformity.is_varying(op.operands[2]) for op in stores]

    traced = values.trace(WARPS)
    assert kinds(traced, one_subgroup=False) == [
        False, False, True, False, True, True, True, True, True,
    ]  # fmt: skip
    assert kinds(traced, one_subgroup=True) == [
        False, False, False, False, True, False, True, True, True,
    ]  # fmt: skip


# --- what the interpreter finds


def stops(definition: Any, arguments: list[Any], message: str, machine: Machine = WARPS) -> None:
    for at_once in (1, 2):
        copies = [a.copy() for a in arguments]
        with pytest.raises(InterpreterError) as caught:
            interpret(definition.trace(machine), 2, copies, groups_at_once=at_once)
        assert str(caught.value) == f"{__file__}:{line_of(definition, '# here')}: {message}"


def test_non_uniform_value_is_reported() -> None:
    @kernel
    def promise(k: Builder, x: Pointer[U32], y: Pointer[U32]) -> None:
        y[k.workgroup_id()] = k.uniform(x[k.global_id()])  # here

    x, y = np.full(128, 7, np.uint32), np.zeros(2, np.uint32)
    x[64:] = 9
    interpret(promise.trace(WARPS), 2, [x, y], groups_at_once=2)
    assert y.tolist() == [7, 9]
    x[100] = 8
    message = "instance 36 of workgroup 1 has 8 where instance 0 has 9: the value is not uniform"
    stops(promise, [x, y], message)


def test_uniform_values_are_compared_bit_by_bit() -> None:
    @kernel
    def promise(k: Builder, x: Pointer[U32], y: Pointer[U32]) -> None:
        y[0] = k.uniform(k.bitcast(x[k.local_id()], f32)).cast(u32)  # here

    nan = np.full(64, 0x7FC0_0000, np.uint32)
    interpret(promise.trace(WARPS), 1, [nan, np.zeros(1, np.uint32)])
    zero = np.zeros(64, np.uint32)
    zero[5] = 0x8000_0000
    message = (
        "instance 5 of workgroup 0 has -0.0 where instance 0 has 0.0: the value is not uniform"
    )
    stops(promise, [np.concatenate([zero, zero]), np.zeros(1, np.uint32)], message)


def test_shuffle_from_a_missing_instance_is_reported() -> None:
    @kernel
    def shift(k: Builder, x: Pointer[U32]) -> None:
        i = k.global_id()
        x[i] = k.shuffle(x[i], k.lane_id() + 1)  # here

    x = np.arange(64, dtype=np.uint32)
    interpret(shift.trace(WARPS), 1, [x])
    assert x.tolist() == [*range(1, 32), 0, *range(33, 64), 32]
    message = "instance 15 of workgroup 0 takes the value of instance 16, and there are 16"
    stops(shift, [np.zeros(32, np.uint32)], message, machine(16, 32))


def test_lockstep_workgroups_may_diverge() -> None:
    """Only some of the workgroups that run together reach the barrier."""

    @kernel
    def halves(k: Builder, x: Pointer[U32], y: Pointer[U32]) -> None:
        room = k.shared(u32, 64)
        i = k.global_id()
        room[k.local_id()] = x[i]
        with k.if_(k.workgroup_id() % 2 == 1):
            k.barrier()
            with k.range(0, k.workgroup_id()):
                room[k.local_id()] = room[k.local_id()] + k.ballot(x[i] == x[i]) * 0 + 1
                k.barrier()
        y[i] = room[k.local_id()]

    x, y = np.arange(256, dtype=np.uint32), np.zeros(256, np.uint32)
    interpret(halves.trace(WARPS), 4, [x, y], groups_at_once=4)
    groups = np.arange(256) // 64
    assert y.tolist() == (x + np.where(groups % 2 == 1, groups, 0)).tolist()


def test_a_race_between_instances_of_different_rows() -> None:
    """Shared memory of workgroups that run together is told apart, and so are its races."""

    @kernel
    def neighbour(k: Builder, x: Pointer[U32], y: Pointer[U32]) -> None:
        room = k.shared(u32, 64)
        room[k.local_id()] = x[k.global_id()]
        with k.if_(k.workgroup_id() == 0):
            k.barrier()
        y[k.global_id()] = room[(k.local_id() + 1) % 64]  # here

    message = (
        "instance 0 of workgroup 1 loads from the shared memory of line "
        f"{line_of(neighbour, 'k.shared')} what another instance stored; a barrier is needed "
        "between"
    )
    x = np.arange(128, dtype=np.uint32)
    stops(neighbour, [x, np.zeros_like(x)], message)


def test_shared_memory_in_bytes() -> None:
    """Instances that write different bytes of a word do not race."""

    @kernel
    def scatter(k: Builder, y: Pointer[U32]) -> None:
        room = k.shared(u32, 16)
        octets = room.cast(u8)
        octets[k.local_id()] = k.local_id()
        k.barrier()
        with k.if_(k.local_id() < 16):
            y[k.workgroup_id() * 16 + k.local_id()] = room[k.local_id()]

    y = np.zeros(48, np.uint32)
    interpret(scatter.trace(WARPS), 3, [y], groups_at_once=2)
    assert y.tobytes() == bytes(range(64)) * 3

"""Subgroups that diverge and meet at named barriers: results and mistakes."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from quod.codegen.llvm import emitter as llvm
from quod.codegen.ptx import emitter as ptx
from quod.codegen.ptx import inline
from quod.codegen.ptx.interpreter import interpret_ptx
from quod.codegen.ptx.machine import ptx_machine
from quod.device.protocol import AnyDevice
from quod.errors import KernelError
from quod.kernel import (
    U32,
    Builder,
    KernelDefinition,
    Machine,
    Pointer,
    Value,
    function,
    kernel,
    u32,
)
from quod.kernel.errors import InterpreterError, TraceError, VerificationFailure
from quod.kernel.interpreter.interpreter import interpret
from quod.kernel.ir.nodes import Kernel
from quod.kernel.ir.parse import parse
from quod.kernel.ir.text import to_text
from quod.kernel.verifier.verify import verify
from tests.conftest import open_for_test
from tests.kernel.refusals import line_of
from tests.support.devices import present
from tests.support.ptx_assembler import ARCHITECTURES, assemble

LANES = 160
WORKERS = LANES - 32
MACHINE = ptx_machine(LANES)
FULL, FREE = (1, 2), (3, 4)


def meet(k: Builder, slot: Value, numbers: tuple[int, int], *, waits: bool) -> None:
    """At the barrier of a place in a ring of two."""
    for place, number in enumerate(numbers):
        with k.if_(slot == place):
            (k.named_barrier if waits else k.named_barrier_arrive)(number, LANES)


@kernel(workgroup=LANES)
def ring(k: Builder, rounds: U32, x: Pointer[U32], y: Pointer[U32]) -> None:
    """One subgroup brings rows of x to a ring of two; the others add what another one's is."""
    room, lane = k.shared(u32, 2 * WORKERS), k.local_id()
    with k.if_(k.subgroup_id() < 1) as producer, k.range(0, rounds) as loop:
        slot = loop.index % 2
        meet(k, slot, FREE, waits=True)
        for part in range(4):
            at = lane + 32 * part
            room[slot * WORKERS + at] = x[loop.index * WORKERS + at]
        meet(k, slot, FULL, waits=False)
    with producer.otherwise():
        worker = lane - 32
        for number in FREE:
            k.named_barrier_arrive(number, LANES)
        with k.range(0, rounds, carry=k.constant(0, u32)) as loop:
            slot = loop.index % 2
            meet(k, slot, FULL, waits=True)
            # Subgroups exchange what they have meanwhile.
            shuffled = k.shuffle(room[slot * WORKERS + (worker ^ 77)], k.lane_id() ^ 1)
            with k.if_(loop.index + 2 < rounds):
                meet(k, slot, FREE, waits=False)
            loop.next(loop.carried + shuffled)
        y[k.workgroup_id() * WORKERS + worker] = loop.results
    k.barrier()


@kernel(workgroup=128)
def in_turns(k: Builder, rounds: U32, y: Pointer[U32]) -> None:
    """Two halves of a workgroup change one place in turns."""
    room = k.shared(u32, 1)
    with k.if_(k.local_id() == 0):
        room[0] = k.constant(1, u32)
    k.barrier()
    with k.if_(k.local_id() < 64) as first:
        with k.range(0, rounds):
            k.named_barrier(1, 128)
            with k.if_(k.local_id() == 5):
                room[0] = room[0] * 3
            k.named_barrier_arrive(2, 128)
        k.named_barrier(1, 128)
    with first.otherwise():
        k.named_barrier_arrive(1, 128)
        with k.range(0, rounds):
            k.named_barrier(2, 128)
            with k.if_(k.local_id() == 77):
                room[0] = room[0] + 1
            k.named_barrier_arrive(1, 128)
    k.barrier()
    y[k.global_id()] = room[0]


def _halved(k: Builder, x: Value) -> Value:
    """Some instances of a subgroup wait for others behind more places than the kernel has."""
    with k.if_((k.local_id() & 1) == 0) as even:
        half = x
        for _ in range(8):
            with k.range(0, half & 3, carry=half) as loop:
                loop.next(loop.carried >> 1)
            half = loop.results
        even.yield_(half)
    with even.otherwise():
        even.yield_(x)
    return even.results


@kernel(workgroup=64)
def calling(k: Builder, x: Pointer[U32]) -> None:
    """Both roles call a function between barriers."""
    room, local = k.shared(u32, 32), k.local_id()
    with k.if_(k.subgroup_id() == 0) as first:
        room[local] = k.call("halved", _halved, x[local])
        k.named_barrier_arrive(1, 64)
    with first.otherwise():
        other = k.call("halved", _halved, x[local])
        k.named_barrier(1, 64)
        x[local] = other + room[k.lane_id() ^ 1]


@pytest.fixture(scope="module", params=present("emulated", "emulated:ptx", "cuda"))
def device(request: pytest.FixtureRequest) -> Any:
    with open_for_test(request.param) as opened:
        yield opened


@pytest.mark.parametrize("rounds", [2, 3, 7])
def test_ring_buffer_with_named_barriers(device: AnyDevice, rounds: int) -> None:
    many = 200 if device.kind == "cuda" else 2
    x = np.random.default_rng(2).integers(0, 1 << 32, rounds * WORKERS, np.uint32)
    y = np.zeros(many * WORKERS, np.uint32)
    device.launch(device.compile(ring), many, rounds, x, y)
    sums = x.reshape(rounds, WORKERS).sum(axis=0, dtype=np.uint32)
    expected = sums[np.arange(WORKERS) ^ 1 ^ 77]
    assert (y.reshape(many, WORKERS) == expected).all()


def test_ping_pong_with_named_barriers(device: AnyDevice) -> None:
    many, rounds = (200, 50) if device.kind == "cuda" else (2, 5)
    y = np.zeros(many * 128, np.uint32)
    device.launch(device.compile(in_turns), many, rounds, y)
    expected = 1
    for _ in range(rounds):
        expected = (3 * expected + 1) % (1 << 32)
    assert (y == expected).all()


@pytest.mark.parametrize("definition", [ring, in_turns])
def test_text_round_trips_and_assembles(definition: KernelDefinition) -> None:
    machine = ptx_machine(definition.workgroup or 0)
    text = to_text(definition.trace(machine))
    assert "named_barrier [number = 1, count = " in text
    assert to_text(parse(text)) == text
    for arch in ARCHITECTURES:
        machine = ptx_machine(definition.workgroup or 0, arch)
        assert assemble(ptx.emit(definition.trace(machine), machine), arch)[0]
    with pytest.raises(KernelError, match=r"LLVM has no rule .* write k\.barrier\(\)"):
        llvm.emit(definition.trace(machine), machine)


# --- what is refused

Body = Callable[[Builder, Value, Value], None]


def traced(body: Body) -> Kernel:
    def made(k: Builder, x: Pointer[U32]) -> None:
        body(k, k.shared(u32, LANES), x)

    return kernel(made).trace(MACHINE)


def where_data_says(k: Builder, room: Value, x: Value) -> None:
    with k.if_(x[k.subgroup_id()] == 1):
        k.named_barrier(1, 32)  # here


def within_a_subgroup(k: Builder, room: Value, x: Value) -> None:
    with k.if_(k.local_id() < 48):
        k.named_barrier(1, 32)  # here


def in_a_loop_of_their_own(k: Builder, room: Value, x: Value) -> None:
    with k.range(0, k.subgroup_id()):
        k.named_barrier(1, LANES)  # here


def too_few(k: Builder, room: Value, x: Value) -> None:
    with k.if_(k.subgroup_id() == 2):
        k.named_barrier(1, 64)  # here


def different_counts(k: Builder, room: Value, x: Value) -> None:
    with k.if_(k.subgroup_id() == 2) as branch:
        k.named_barrier(1, 64)
    with branch.otherwise():
        k.named_barrier_arrive(1, 160)  # here


def part_of_a_subgroup(k: Builder, room: Value, x: Value) -> None:
    k.named_barrier(1, 48)  # here


def with_others(k: Builder, room: Value, x: Value) -> None:
    with k.if_(k.subgroup_id() < 2):
        k.named_barrier(1, 64)
    with k.if_(k.subgroup_id() == 1):
        k.named_barrier(1, 64)  # here


def nobody(k: Builder, room: Value, x: Value) -> None:
    with k.if_(k.subgroup_id() > 7):
        k.named_barrier(1, 32)  # here


def nobody_waits(k: Builder, room: Value, x: Value) -> None:
    k.named_barrier_arrive(2, LANES)  # here


@function
def meets(k: Builder, value: Value) -> Value:
    k.named_barrier(1, LANES)
    return value + 1


def in_a_function(k: Builder, room: Value, x: Value) -> None:
    x[0] = meets(k, x[0])


def barrier_of_all(k: Builder, room: Value, x: Value) -> None:
    with k.if_(k.subgroup_id() < 2):
        k.named_barrier(1, 64)
        k.barrier()  # here


def shuffle_within(k: Builder, room: Value, x: Value) -> None:
    with k.if_(k.subgroup_id() < 2):
        k.named_barrier(1, 64)
    with k.if_(k.local_id() < 2):
        x[0] = k.shuffle(x[0], 0)  # here


def of_the_workgroup(k: Builder, room: Value, x: Value) -> None:
    k.named_barrier(1, LANES)
    k.cluster_barrier()  # here


def shuffle_without_roles(k: Builder, room: Value, x: Value) -> None:
    with k.if_(k.subgroup_id() < 2):
        x[0] = k.shuffle(x[0], 0)  # here


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (where_data_says, "named_barrier under the if of line"),
        (within_a_subgroup, "of which it is not known before which subgroups take it"),
        (in_a_loop_of_their_own, "named_barrier under the for of line"),
        (too_few, "the named barrier 1 is of 64 instances, and 32 come to it"),
        (different_counts, "the named barrier 1 is of 160 instances here, and of 64 on line"),
        (part_of_a_subgroup, "a named barrier is of whole subgroups of 32, not of 48 instances"),
        (with_others, "come to the named barrier 1 here come to it elsewhere with others"),
        (nobody, "no instance comes to this named_barrier"),
        (nobody_waits, "nobody waits at the named barrier 2"),
        (barrier_of_all, "a barrier that not every instance reaches"),
        (shuffle_within, "a shuffle that not every instance reaches"),
        (shuffle_without_roles, "a shuffle that not every instance reaches"),
        (of_the_workgroup, "cluster_barrier needs the whole workgroup, but its subgroups have"),
    ],
)
def test_invalid_named_barriers_are_rejected(body: Body, message: str) -> None:
    with pytest.raises(VerificationFailure, match=re.escape(message)) as caught:
        traced(body)
    assert caught.value.location.line == line_of(body, "# here")


def test_invalid_barrier_arguments_are_rejected() -> None:
    with pytest.raises(VerificationFailure, match="named_barrier stands in the function meets"):
        traced(in_a_function)
    for number, count, message in (
        (0, 32, "the number of a named barrier"),
        (16, 32, "the number of a named barrier"),
        (1, 0, "the instances of a named barrier"),
    ):
        with pytest.raises(TraceError, match=message):
            traced(lambda k, room, x, n=number, c=count: k.named_barrier(n, c))  # type: ignore[misc]
    text = to_text(traced(lambda k, room, x: k.named_barrier(1, LANES)))
    for wrong in ("number = 16", 'number = "1"'):
        with pytest.raises(VerificationFailure, match="has a number from 1 to 15"):
            verify(parse(text.replace("number = 1", wrong)), MACHINE)
    with pytest.raises(VerificationFailure, match="needs named barriers, which the machine"):

        @kernel
        def elsewhere(k: Builder, x: Pointer[U32]) -> None:
            k.named_barrier(1, 8)

        elsewhere.trace(Machine("llvm", 8, frozenset(), subgroup_size=8))


# --- what is found while they run


def waits_for_ever(k: Builder, room: Value, x: Value) -> None:
    """Each half waits for what the other one does behind its own wait."""
    with k.if_(k.subgroup_id() < 2) as half:
        k.named_barrier(1, LANES)  # here
        k.named_barrier_arrive(2, LANES)
    with half.otherwise():
        k.named_barrier(2, LANES)
        k.named_barrier_arrive(1, LANES)


def comes_again(k: Builder, room: Value, x: Value) -> None:
    with k.if_(k.subgroup_id() < 2) as half:
        k.named_barrier_arrive(1, LANES)
        k.named_barrier_arrive(1, LANES)  # here
        k.named_barrier_arrive(2, LANES)
    with half.otherwise():
        k.named_barrier(2, LANES)
        k.named_barrier(1, LANES)


def one_round_less(k: Builder, room: Value, x: Value) -> None:
    with k.if_(k.subgroup_id() < 2) as half, k.range(0, 2):
        k.named_barrier(1, LANES)  # here
    with half.otherwise():
        k.named_barrier(1, LANES)


def at_the_end(k: Builder, room: Value, x: Value) -> None:
    with k.if_(k.subgroup_id() < 2) as half:
        k.named_barrier(1, LANES)
        k.named_barrier(1, LANES)  # here
    with half.otherwise():
        k.named_barrier(1, LANES)
    k.barrier()


def not_behind(k: Builder, room: Value, x: Value) -> None:
    with k.if_(k.subgroup_id() < 2) as half:
        room[k.local_id()] = k.local_id()
        k.named_barrier_arrive(1, LANES)
    with half.otherwise():
        x[k.local_id()] = room[k.local_id() - 64]  # here
        k.named_barrier(1, LANES)


def unset_meanwhile(k: Builder, room: Value, x: Value) -> None:
    """Those that load did not wait for those that store, though another barrier came between."""
    with k.if_(k.subgroup_id() < 2) as half:
        k.named_barrier(2, 64)
        room[k.local_id()] = k.local_id()
    with half.otherwise():
        k.named_barrier(3, 96)
        x[k.local_id()] = room[k.local_id() % 32]  # here


@pytest.mark.parametrize(
    ("body", "message", "both"),
    [
        (waits_for_ever, "waits for ever at the named barrier 1, to which 64 instances", True),
        (comes_again, "again before the others have", True),
        (one_round_less, "waits for ever at the named barrier 1, to which 64 instances", True),
        (at_the_end, "waits for ever at the", True),
        (not_behind, "what", False),
        (unset_meanwhile, "loads from", False),
    ],
)
def test_barrier_mistakes_are_detected(body: Body, message: str, both: bool) -> None:
    traced_kernel = traced(body)
    with pytest.raises(InterpreterError, match=message) as caught:
        interpret(traced_kernel, 1, [np.zeros(LANES, np.uint32)])
    assert caught.value.location.line == line_of(body, "# here")
    with pytest.raises(InterpreterError, match=message if both else "shared memory"):
        interpret_ptx(ptx.emit(traced_kernel, MACHINE), 1, [np.zeros(LANES, np.uint32)])


def test_declared_uniform_values_are_checked_in_all_warps() -> None:
    def differs(k: Builder, room: Value, x: Value) -> None:
        bound = k.uniform(x[k.subgroup_id()])
        with k.range(0, bound), k.if_(k.subgroup_id() < 2):
            k.named_barrier(1, 64)

    traced_kernel = traced(differs)
    interpret(traced_kernel, 1, [np.full(LANES, 3, np.uint32)])
    words = np.full(LANES, 3, np.uint32)
    words[3] = 4
    with pytest.raises(InterpreterError, match=r"instance 96 .* has 4 where instance 0 has 3"):
        interpret(traced_kernel, 1, [words])


def test_error_ends_all_warps() -> None:
    before = threading.active_count()
    with pytest.raises(InterpreterError):
        interpret(traced(waits_for_ever), 1, [np.zeros(LANES, np.uint32)])
    assert threading.active_count() == before


def test_subgroup_values_are_uniform_in_one_subgroup_workgroups() -> None:
    """A sum over the subgroup is that of all; the interpreter takes it so as the verifier does."""
    machine = ptx_machine(32)

    @kernel
    def alone(k: Builder, x: Pointer[U32]) -> None:
        with k.if_(k.subgroup_sum(k.lane_id()) == 496):
            k.named_barrier(1, 32)
            x[k.local_id()] = k.local_id() + 1

    traced_kernel, (x, y) = alone.trace(machine), np.zeros((2, 32), np.uint32)
    interpret(traced_kernel, 1, [x])
    interpret_ptx(ptx.emit(traced_kernel, machine), 1, [y])
    assert (x == y).all()
    assert x[31] == 32


def test_functions_between_barriers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines of a function's text are not barriers of the kernel."""
    monkeypatch.setattr(inline, "INLINE_OPS", 0)
    machine = ptx_machine(64)
    traced_kernel = calling.trace(machine)
    text = ptx.emit(traced_kernel, machine)
    assert text.count("call (") == 2
    actual, expected = (np.arange(64, dtype=np.uint32) for _ in range(2))
    interpret(traced_kernel, 1, [expected])
    interpret_ptx(text, 1, [actual])
    assert (actual == expected).all()

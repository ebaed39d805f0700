"""Mistakes of roles with tiles: rejected by the verifier, or found by both interpreters."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pytest

from quod.codegen.ptx import emitter as ptx
from quod.codegen.ptx.interpreter import interpret_ptx
from quod.kernel import F32, U16, U32, U64, Builder, Pointer, Value, kernel, u32, u64
from quod.kernel.errors import InterpreterError, TraceError, VerificationFailure
from quod.kernel.interpreter.interpreter import interpret
from quod.kernel.ir.nodes import Kernel
from quod.kernel.ir.parse import parse
from quod.kernel.ir.text import to_text
from quod.kernel.verifier.verify import verify
from tests.kernel.refusals import line_of
from tests.kernel.role_ring import (
    CONSUMERS,
    DEPTH,
    LANES,
    MACHINE,
    Ring,
    operands,
    zeros,
)

# --- what is refused

Body = Callable[[Builder, Ring, Value], None]


def traced(body: Body, *, arrivals: int = 4 * CONSUMERS) -> Kernel:
    """A kernel with a ring that has been made ready."""

    def made(
        k: Builder, maps: Pointer[U64], a: Pointer[U16], b: Pointer[U16], steps: U32,
        c: Pointer[F32],
    ) -> None:  # fmt: skip
        ring = Ring(k, maps, a, b, steps)
        ring.begin(arrivals)
        body(k, ring, c)

    return kernel(workgroup=LANES)(made).trace(MACHINE)


def produce(k: Builder, ring: Ring) -> None:
    with k.range(0, ring.steps) as loop:
        ring.await_free(loop.index)
        ring.copy(loop.index)


def consume(k: Builder, ring: Ring, step: Value) -> None:
    """All of a step but what a body does wrong."""
    ring.await_full(step)
    k.mma_wait(0, ring.multiply(step, k.constant(0, u32), zeros(k)))
    ring.release(step)


def divided(
    k: Builder, ring: Ring, consumer: Callable[[Value], None],
    producer: Callable[[Builder, Ring], None] = produce,
) -> None:  # fmt: skip
    with k.if_(k.subgroup_id() < 4) as first, k.if_(k.subgroup_id() == 0):
        producer(k, ring)
    with first.otherwise(), k.range(0, ring.steps) as loop:
        consumer(loop.index)


def one_consumer(k: Builder, ring: Ring, c: Value) -> None:
    with k.if_(k.subgroup_id() >= 8):
        ring.release(k.constant(0, u32))


def of_another_count(k: Builder, ring: Ring, c: Value) -> None:
    bars = k.shared(u64, 2)
    k.mbarrier_init(bars, 0, 8)
    k.mbarrier_init(bars, 1, 4)  # here
    ring.release(k.constant(0, u32))


def with_others(k: Builder, ring: Ring, c: Value) -> None:
    with k.if_(k.subgroup_id() >= 4):
        ring.release(k.constant(0, u32))
    with k.if_(k.subgroup_id() >= 8):
        k.mbarrier_arrive(ring.free, 1)  # here


def in_two_ways(k: Builder, ring: Ring, c: Value) -> None:
    with k.if_(k.subgroup_id() >= 4):
        ring.release(k.constant(0, u32))
        k.mbarrier_expect(ring.free, 1, 16)  # here


def part_of_a_warpgroup(k: Builder, ring: Ring, c: Value) -> None:
    k.mbarrier_arrive(ring.free, 0)
    with k.if_(k.subgroup_id() < 2):
        k.mma_begin()  # here


def a_warpgroup_of_two_roles(k: Builder, ring: Ring, c: Value) -> None:
    with k.if_(k.subgroup_id() >= 4):
        k.mma_begin()  # here
    with k.if_(k.subgroup_id() == 4):
        k.mbarrier_arrive(ring.free, 0)


def where_data_says(k: Builder, ring: Ring, c: Value) -> None:
    k.mbarrier_arrive(ring.full, 0)
    with k.if_(c[k.subgroup_id()] == 1.0):
        k.mbarrier_wait(ring.free, 0, 0)  # here


def of_a_cluster(k: Builder, ring: Ring, c: Value) -> None:
    k.mbarrier_arrive(ring.full, 0)
    k.cluster_barrier()  # here


def registers_of_some(k: Builder, ring: Ring, c: Value) -> None:
    with k.if_(k.subgroup_id() < 2):
        k.registers(40)  # here


def registers_sometimes(k: Builder, ring: Ring, c: Value) -> None:
    with k.if_(ring.steps > 1):
        k.registers(40)  # here


def registers_twice(k: Builder, ring: Ring, c: Value) -> None:
    with k.if_(k.subgroup_id() < 4):
        k.registers(40)
    k.registers(32)  # here


def registers_beyond(k: Builder, ring: Ring, c: Value) -> None:
    with k.if_(k.subgroup_id() < 4) as first:
        k.registers(40)
    with first.otherwise():
        k.registers(240)  # here


def registers_behind_a_wait(k: Builder, ring: Ring, c: Value) -> None:
    """Others would get these before they arrive."""
    with k.if_(k.subgroup_id() < 4) as first:
        k.mbarrier_wait(ring.free, 0, 0)
        k.registers(40)  # here
    with first.otherwise():
        k.registers(232)
        ring.release(k.constant(0, u32))


def registers_behind_a_barrier(k: Builder, ring: Ring, c: Value) -> None:
    with k.if_(k.subgroup_id() >= 4):
        k.registers(232)
    k.barrier()
    with k.if_(k.subgroup_id() < 4):
        k.registers(40)  # here


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (registers_behind_a_wait, "registers are given up here after a wait"),
        (registers_behind_a_barrier, "registers are given up here after a wait"),
        (of_another_count, "this mbarrier has 4 arrivals, and another in the same array has 8"),
        (with_others, "also arrive at this array's mbarriers elsewhere, with other instances"),
        (in_two_ways, "or by another op; let each arrive in one role"),
        (part_of_a_warpgroup, "mma_begin needs all 128 instances of a warpgroup"),
        (a_warpgroup_of_two_roles, "subgroups of this one have different roles elsewhere"),
        (where_data_says, "mbarrier_wait under the if of line"),
        (of_a_cluster, "cluster_barrier needs the whole workgroup"),
        (registers_of_some, "registers needs all 128 instances of a warpgroup"),
        (registers_sometimes, "registers are set under the if of line"),
        (registers_twice, "some instances set their registers twice"),
        (registers_beyond, "have 66560 registers in all, and a workgroup of 384 begins with 168"),
    ],
)
def test_invalid_roles_are_rejected(body: Body, message: str) -> None:
    with pytest.raises(VerificationFailure, match=re.escape(message)) as caught:
        traced(body)
    assert caught.value.location.line == line_of(body, "# here")


def test_invalid_role_arguments_are_rejected() -> None:
    with pytest.raises(VerificationFailure, match="expects 8 arrivals and gets 4"):
        traced(one_consumer)
    for count, message in ((20, "24 to 256"), (264, "24 to 256"), (44, "a multiple of 8, not 44")):
        with pytest.raises(TraceError, match=f"the registers of an instance.*{message}"):
            traced(lambda k, ring, c, n=count: k.registers(n))  # type: ignore[misc]
    for arrivals, message in ((0, "the arrivals of an mbarrier"), (1 << 20, "1 to 1048575 arr")):
        with pytest.raises(TraceError, match=message):
            traced(one_consumer, arrivals=arrivals)
    text = to_text(traced(lambda k, ring, c: k.registers(160)))
    with pytest.raises(VerificationFailure, match="24 to 256 registers, a multiple of 8, not 161"):
        verify(parse(text.replace("count = 160", "count = 161")), MACHINE)
    with pytest.raises(VerificationFailure, match="a phase of an mbarrier has 1 to"):
        verify(parse(text.replace("count = 8", "count = 0")), MACHINE)

    @kernel(workgroup=LANES)
    def clustered(k: Builder, x: Pointer[U32]) -> None:
        k.cluster(2)
        bars = k.shared(u64, 1)
        k.mbarrier_init(bars, 0, 12)  # here
        k.barrier()
        k.mbarrier_arrive(bars, 0)

    with pytest.raises(VerificationFailure, match="which a kernel with clusters cannot have"):
        clustered.trace(MACHINE)


# --- what is found while they run


def nobody_waits(k: Builder, ring: Ring, c: Value) -> None:
    def consumer(step: Value) -> None:
        k.mma_wait(0, ring.multiply(step, k.constant(0, u32), zeros(k)))
        ring.release(step)

    divided(k, ring, consumer)


def one_waits(k: Builder, ring: Ring, c: Value) -> None:
    """The other one waits for the wrong tiles: the right ones are there, and it does not know."""

    def consumer(step: Value) -> None:
        with k.if_(k.subgroup_id() < 8) as branch:
            ring.await_full(step)
        with branch.otherwise():
            ring.await_full(step ^ 1)
        k.mma_wait(0, ring.multiply(step, k.constant(0, u32), zeros(k)))
        ring.release(step)

    divided(k, ring, consumer)


def never_free(k: Builder, ring: Ring, c: Value) -> None:
    def producer(k: Builder, ring: Ring) -> None:
        with k.range(0, ring.steps) as loop:
            with k.if_(loop.index < 2):
                ring.await_free(loop.index)
            ring.copy(loop.index)

    divided(k, ring, lambda step: consume(k, ring, step), producer)


def released_too_early(k: Builder, ring: Ring, c: Value) -> None:
    def consumer(step: Value) -> None:
        ring.await_full(step)
        sums = ring.multiply(step, k.constant(0, u32), zeros(k))
        ring.release(step)
        k.mma_wait(0, sums)

    divided(k, ring, consumer)


def released_before(k: Builder, ring: Ring, c: Value) -> None:
    def consumer(step: Value) -> None:
        ring.await_full(step)
        ring.release(step)
        k.mma_wait(0, ring.multiply(step, k.constant(0, u32), zeros(k)))

    divided(k, ring, consumer)


def seen_too_late(k: Builder, ring: Ring, c: Value) -> None:
    """Nobody waits for one consumer, which may find a phase ended that it does not mean."""

    def consumer(step: Value) -> None:
        with k.if_(k.subgroup_id() < 8) as branch:
            ring.await_full(step)
        with branch.otherwise():
            ring.await_full(step)
            ring.release(step)

    divided(k, ring, consumer)


def the_other_phase(k: Builder, ring: Ring, c: Value) -> None:
    def producer(k: Builder, ring: Ring) -> None:
        with k.range(0, ring.steps) as loop:
            k.mbarrier_wait(ring.free, ring.stage(loop.index), loop.index >> 1)
            ring.copy(loop.index)

    divided(k, ring, lambda step: consume(k, ring, step), producer)


def a_round_more(k: Builder, ring: Ring, c: Value) -> None:
    divided(k, ring, lambda step: consume(k, ring, step))
    with k.if_(k.subgroup_id() >= 4):
        ring.await_full(ring.steps)


def arrives_twice(k: Builder, ring: Ring, c: Value) -> None:
    def consumer(step: Value) -> None:
        consume(k, ring, step)
        ring.release(step)

    divided(k, ring, consumer)


def one_arrives_twice(k: Builder, ring: Ring, c: Value) -> None:
    """The other one does not, and its copies come in time for the wrong reason."""

    def consumer(step: Value) -> None:
        with k.if_(k.subgroup_id() < 8) as branch:
            consume(k, ring, step)
            ring.release(step)
        with branch.otherwise(), k.if_(step > 100):
            ring.release(step)

    divided(k, ring, consumer)


def expected_twice(k: Builder, ring: Ring, c: Value) -> None:
    def producer(k: Builder, ring: Ring) -> None:
        with k.range(0, ring.steps) as loop:
            k.mbarrier_expect(ring.full, ring.stage(loop.index), 16)
            ring.copy(loop.index)

    divided(k, ring, lambda step: consume(k, ring, step), producer)


def seen_instead(k: Builder, ring: Ring, c: Value) -> None:
    """Waiting for the first phase alone may end with the third one."""
    bars, back = k.shared(u64, 1), k.shared(u64, 1)
    k.mbarrier_init(bars, 0, 4)
    k.mbarrier_init(back, 0, 4)
    k.barrier()
    subgroup = k.subgroup_id()
    with k.if_(subgroup < 4):
        for phase in range(3):
            k.mbarrier_arrive(bars, 0)
            k.mbarrier_wait(back, 0, phase)
    with k.if_((subgroup >= 4) & (subgroup < 8)):
        for phase in range(3):
            k.mbarrier_wait(bars, 0, phase)
            k.mbarrier_arrive(back, 0)
    with k.if_(subgroup >= 8):
        k.mbarrier_wait(bars, 0, 0)


def seen_too_late_at_last(k: Builder, ring: Ring, c: Value) -> None:
    """One waits for no phase, and does not tell those who end the first, which nobody waits for."""
    with k.if_(k.subgroup_id() < 4):
        k.registers(40)
    with k.if_(k.subgroup_id() >= 4):
        k.mbarrier_wait(ring.full, 0, 1)
    with k.if_(k.subgroup_id() < 4):
        k.mbarrier_expect(ring.full, 0, 0)


def run(traced_kernel: Kernel, *, as_text: bool, steps: int = 5) -> None:
    a, b, wanted = operands(steps)
    maps = np.zeros((2, 16), np.uint64)
    for row, x, address in zip(maps, (a, b), ADDRESSES.values(), strict=True):
        row[:5] = steps * DEPTH, len(x), 1, len(x), address
    arguments = [maps, a.view(np.uint16), b.view(np.uint16), steps, np.zeros_like(wanted)]
    if not as_text:
        interpret(traced_kernel, 1, arguments)
        return
    module = ptx.translate(traced_kernel, MACHINE)
    dynamic = module.dynamic_shared_bytes
    interpret_ptx(module.text, 1, arguments, dynamic_shared=dynamic, addresses=ADDRESSES)


TOO_MANY = "expects bytes twice in one phase of an mbarrier|which has all its arrivals"
TOO_EARLY = "changes in the .* what another instance loaded|over a tile that a product"

ADDRESSES = {1: 1 << 40, 2: 1 << 41}
"""Those of A and B, the second and third arguments."""


@pytest.mark.parametrize("as_text", [False, True], ids=["traced", "text"])
@pytest.mark.parametrize(
    ("body", "message"),
    [
        (nobody_waits, "multiplies what is not in .*shared memory .*yet"),
        (one_waits, "multiplies what was stored to .*shared memory"),
        (never_free, TOO_MANY),
        (released_too_early, TOO_EARLY),
        (released_before, f"{TOO_EARLY}|multiplies what is not in shared memory"),
        (seen_too_late, "before all who wait for the one before have seen its end"),
        (the_other_phase, "8 of 8 arrivals are missing, and 0 bytes have come of 0"),
        (a_round_more, "waits for ever: 0 bytes have come of 0"),
        (arrives_twice, "which lacks 0 of 8 arrivals|before the others have arrived"),
        (one_arrives_twice, "may arrive at an mbarrier again before the others have arrived"),
        (expected_twice, TOO_MANY),
        (
            seen_too_late_at_last,
            "may end phase 0 of an mbarrier before all who wait for the one be",
        ),
        (seen_instead, "may take the end of phase 0 of an mbarrier for that of phase 2"),
    ],
)
def test_role_mistakes_are_detected(body: Body, message: str, as_text: bool) -> None:
    traced_kernel = traced(body, arrivals=4 if body is seen_too_late else 4 * CONSUMERS)
    with pytest.raises(InterpreterError, match=message) as caught:
        run(traced_kernel, as_text=as_text)
    assert str(caught.value.location.file).startswith("PTX") == as_text

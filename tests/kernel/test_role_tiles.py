"""Roles of warpgroups with tiles: a producer that copies, consumers that multiply, mistakes."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from quod.codegen.ptx import emitter as ptx
from quod.codegen.ptx.interpreter import interpret_ptx
from quod.codegen.ptx.machine import ptx_machine
from quod.device.tensor_map import TiledMemory
from quod.kernel import F32, U16, U32, U64, Builder, Pointer, Value, f16, f32, kernel, u32, u64
from quod.kernel.builder_tiles import TiledArray, TileOperand
from quod.kernel.errors import InterpreterError, TraceError, VerificationFailure
from quod.kernel.interpreter import interpret
from quod.kernel.ir import Kernel
from quod.kernel.parse import parse
from quod.kernel.text import to_text
from quod.kernel.verify import verify
from tests.conftest import open_for_test
from tests.device.kernels import in_roles
from tests.kernel.refusals import line_of
from tests.support.ptx_assembler import assemble, opcodes, sass

LANES, ROWS, COLUMNS, DEPTH, STAGES = 384, 64, 64, 64, 2
CONSUMERS = 2
WORDS = 32
"""Of a line of a tile."""
MACHINE = ptx_machine(LANES, "sm_90a")


class Ring:
    """Tiles of A and B in stages, with the mbarriers that say which are full and which free."""

    def __init__(self, k: Builder, maps: Value, a: Value, b: Value, steps: Value) -> None:
        self.k, self.steps = k, steps
        self.rows = CONSUMERS * ROWS
        self.room_a = k.shared(u32, STAGES * self.rows * WORDS, alignment=1024)
        self.room_b = k.shared(u32, STAGES * COLUMNS * WORDS, alignment=1024)
        self.full, self.free = k.shared(u64, STAGES), k.shared(u64, STAGES)
        one, depth = k.constant(1, u32), steps * DEPTH
        self.maps = (maps, k.pointer_add(maps, 16))
        heights = (k.constant(self.rows, u32), k.constant(COLUMNS, u32))
        self.arrays = [
            TiledArray(memory, tensor_map, depth, height, one)
            for memory, tensor_map, height in zip((a, b), self.maps, heights, strict=True)
        ]

    def begin(self, arrivals: int = 4 * CONSUMERS) -> None:
        for stage in range(STAGES):
            self.k.mbarrier_init(self.full, stage)
            self.k.mbarrier_init(self.free, stage, arrivals)
        self.k.barrier()

    def stage(self, step: Value) -> Value:
        return step & (STAGES - 1)

    def copy(self, step: Value) -> None:
        k, stage = self.k, self.stage(step)
        k.mbarrier_expect(self.full, stage, (self.rows + COLUMNS) * 4 * WORDS)
        start = (step * DEPTH, 0, 0)
        at = (self.full, stage)
        k.copy_tile(self.room_a, stage * (self.rows * WORDS), at, self.arrays[0], start, self.rows)
        k.copy_tile(self.room_b, stage * (COLUMNS * WORDS), at, self.arrays[1], start, COLUMNS)

    def await_free(self, step: Value) -> None:
        """Rounds before the first one are over."""
        self.k.mbarrier_wait(self.free, self.stage(step), (step >> (STAGES - 1)) ^ 1)

    def await_full(self, step: Value) -> None:
        self.k.mbarrier_wait(self.full, self.stage(step), step >> (STAGES - 1))

    def release(self, step: Value) -> None:
        self.k.mbarrier_arrive(self.free, self.stage(step))

    def multiply(self, step: Value, group: Value, sums: tuple[Value, ...]) -> tuple[Value, ...]:
        """Begins the products of a step, by the rows of a consumer."""
        k, stage = self.k, self.stage(step)
        k.mma_begin()
        for at in range(0, DEPTH // 2, 8):
            left = TileOperand(self.room_a, (stage * self.rows + group * ROWS) * WORDS + at)
            over = TileOperand(self.room_b, stage * (COLUMNS * WORDS) + at)
            sums = k.mma_tiles(f16, left, over, sums)
        k.mma_commit()
        return sums

    def store(self, c: Value, group: Value, sums: tuple[Value, ...]) -> None:
        local = self.k.local_id()
        row = group * ROWS + (local >> 5 & 3) * 16 + (local >> 2 & 7)
        for at, value in enumerate(sums):
            below, column = at // 2 % 2 * 8, at // 4 * 8 + at % 2
            c[(row + below) * COLUMNS + (local & 3) * 2 + column] = value


def zeros(k: Builder) -> tuple[Value, ...]:
    return (k.constant(0.0, f32),) * (COLUMNS // 2)


@kernel(workgroup=LANES)
def multiplied(
    k: Builder, maps: Pointer[U64], a: Pointer[U16], b: Pointer[U16], steps: U32, c: Pointer[F32]
) -> None:
    """C = A B^T, of 128 by 64; one subgroup copies, two warpgroups have 64 rows each."""
    ring = Ring(k, maps, a, b, steps)
    ring.begin()
    with k.if_(k.subgroup_id() < 4) as producer:
        k.registers(40)
        with k.if_(k.subgroup_id() == 0):
            for tensor_map in ring.maps:
                k.tensor_map_acquire(tensor_map)
            with k.range(0, steps) as loop:
                ring.await_free(loop.index)
                ring.copy(loop.index)
    with producer.otherwise():
        k.registers(232)
        group = k.shuffle((k.local_id() >> 7) - 1, k.constant(0, u32))
        with k.range(0, steps, carry=list(zeros(k))) as loop:
            ring.await_full(loop.index)
            sums = k.mma_wait(0, ring.multiply(loop.index, group, tuple(loop.carried)))
            ring.release(loop.index)
            loop.next(list(sums))
        ring.store(c, group, tuple(loop.results))


@pytest.fixture(scope="module", params=["emulated", "cuda"])
def device(request: pytest.FixtureRequest) -> Any:
    with open_for_test(request.param) as opened:
        if not opened.machine(LANES).has("warpgroups"):
            pytest.skip("a GPU without warpgroups")
        yield opened


def operands(steps: int) -> tuple[Any, Any, Any]:
    """Small whole numbers, whose product is exact."""
    random = np.random.default_rng(7)
    a, b = (
        random.integers(-8, 9, (rows, steps * DEPTH)).astype(np.float16)
        for rows in (CONSUMERS * ROWS, COLUMNS)
    )
    return a, b, (a.astype(np.float64) @ b.astype(np.float64).T).astype(np.float32)


@pytest.mark.parametrize("steps", [1, 2, 5])
def test_a_product_of_roles(device: Any, steps: int) -> None:
    a, b, wanted = operands(steps)
    memory = [device.upload(x.view(np.uint16)) for x in (a, b)]
    maps = device.tensor_maps(
        tuple(
            TiledMemory(one.address, 1, len(x), steps * DEPTH, len(x))
            for one, x in zip(memory, (a, b), strict=True)
        )
    )
    c = device.upload(np.full(wanted.shape, np.nan, np.float32))
    compiled = device.compile(multiplied)
    device.launch(compiled, 1, maps, *memory, steps, c)
    found = np.zeros_like(wanted)
    device.download(c, found)
    assert np.array_equal(found, wanted)
    if device.kind == "cuda":
        # What each begins with, so that the others' are there to be had.
        assert compiled.registers == 168


def test_text_and_assembler() -> None:
    traced = multiplied.trace(MACHINE)
    text = to_text(traced)
    assert "mbarrier_init" in text
    assert "[count = 8]" in text
    assert to_text(parse(text)) == text
    module = ptx.translate(traced, MACHINE)
    assert module.moves_registers
    for line in (
        ".minnctapersm 1", "setmaxnreg.dec.sync.aligned.u32 40;",
        "setmaxnreg.inc.sync.aligned.u32 232;",
    ):  # fmt: skip
        assert module.text.count(line) == 1
    cubin, log = assemble(module.text, "sm_90a")
    # Linked code moves no registers; nothing else is left out.
    assert set(re.findall(r"C75\d\d", log)) == {"C7504"}
    assert opcodes(sass(cubin))["HGMMA"] == DEPTH // 16
    assert re.search(r"@%p\d+ mbarrier.arrive.shared::cta.b64 _, ", module.text)


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


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (of_another_count, "an mbarrier has 4 arrivals here, and one of the same array 8 on line"),
        (with_others, "arrive at the mbarriers of the array elsewhere with others"),
        (in_two_ways, "or in another way; let each arrive in one role"),
        (part_of_a_warpgroup, "mma_begin is of whole warpgroups, 128 instances each"),
        (a_warpgroup_of_two_roles, "subgroups of one have roles of their own elsewhere"),
        (where_data_says, "mbarrier_wait under the if of line"),
        (of_a_cluster, "cluster_barrier is of the whole workgroup"),
        (registers_of_some, "registers is of whole warpgroups"),
        (registers_sometimes, "registers under the if of line"),
        (registers_twice, "some instances are given registers twice"),
        (registers_beyond, "have 66560 registers in all, and a workgroup of 384 begins with 168"),
    ],
)
def test_what_is_refused(body: Body, message: str) -> None:
    with pytest.raises(VerificationFailure, match=re.escape(message)) as caught:
        traced(body)
    assert caught.value.location.line == line_of(body, "# here")


def test_other_refusals() -> None:
    with pytest.raises(VerificationFailure, match="has 8 arrivals, and 4 come to it"):
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

    with pytest.raises(VerificationFailure, match="workgroups of a cluster have no roles"):
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
        with k.if_(k.subgroup_id() < 8) as one:
            ring.await_full(step)
        with one.otherwise():
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
        with k.if_(k.subgroup_id() < 8) as one:
            ring.await_full(step)
        with one.otherwise():
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
        with k.if_(k.subgroup_id() < 8) as one:
            consume(k, ring, step)
            ring.release(step)
        with one.otherwise(), k.if_(step > 100):
            ring.release(step)

    divided(k, ring, consumer)


def expected_twice(k: Builder, ring: Ring, c: Value) -> None:
    def producer(k: Builder, ring: Ring) -> None:
        with k.range(0, ring.steps) as loop:
            k.mbarrier_expect(ring.full, ring.stage(loop.index), 16)
            ring.copy(loop.index)

    divided(k, ring, lambda step: consume(k, ring, step), producer)


def run(made: Kernel, steps: int = 5) -> None:
    a, b, wanted = operands(steps)
    maps = np.zeros(32, np.uint64)
    interpret(made, 1, [maps, a.view(np.uint16), b.view(np.uint16), steps, np.zeros_like(wanted)])


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (nobody_waits, "multiplies what is not in the shared memory of line"),
        (one_waits, "multiplies what was stored to the shared memory of line"),
        (never_free, "expects bytes twice in one phase|copies over a tile|what another instance"),
        (released_too_early, "changes in the shared memory of line .* what another instance loade"),
        (released_before, "changes in the shared memory of line .* what another instance loaded"),
        (seen_too_late, "before all who wait for the one before have seen its end"),
        (the_other_phase, "8 of 8 arrivals are missing, and 0 bytes have come of 0"),
        (a_round_more, "waits for ever: 0 bytes have come of 0"),
        (arrives_twice, "arrives 8 times in phase 0 of an mbarrier, which lacks 0 of 8 arrivals"),
        (one_arrives_twice, "may arrive at an mbarrier again before the others have arrived"),
        (expected_twice, "expects bytes twice in one phase of an mbarrier"),
    ],
)
def test_mistakes_are_found(body: Body, message: str) -> None:
    made = traced(body, arrivals=4 if body is seen_too_late else 4 * CONSUMERS)
    with pytest.raises(InterpreterError, match=message):
        run(made)


def test_mbarriers_are_known_after_a_barrier() -> None:
    @kernel(workgroup=64)
    def unknown(k: Builder, x: Pointer[U32]) -> None:
        bars = k.shared(u64, 1)
        k.mbarrier_init(bars, 0, 2)
        k.mbarrier_arrive(bars, 0)

    made = unknown.trace(ptx_machine(64, "sm_90a"))
    with pytest.raises(InterpreterError, match="an mbarrier that others do not know of"):
        interpret(made, 1, [np.zeros(1, np.uint32)])


def test_what_an_mbarrier_tells() -> None:
    """Stores before an arrival are there after the wait; those behind it are not."""

    def made(k: Builder, x: Value, *, late: bool) -> None:
        room, bars, local = k.shared(u32, 32), k.shared(u64, 1), k.local_id()
        k.mbarrier_init(bars, 0)
        k.barrier()
        with k.if_(k.subgroup_id() == 0) as one:
            if not late:
                room[local] = local + 5
            k.mbarrier_arrive(bars, 0)
            if late:
                room[local] = local + 5
        with one.otherwise():
            k.mbarrier_wait(bars, 0, 0)
            x[local - 32] = room[local ^ 33]

    def told(k: Builder, x: Pointer[U32]) -> None:
        made(k, x, late=False)

    def untold(k: Builder, x: Pointer[U32]) -> None:
        made(k, x, late=True)

    x = np.zeros(32, np.uint32)
    machine = ptx_machine(64, "sm_90a")
    interpret(kernel(workgroup=64)(told).trace(machine), 1, [x])
    assert (x == (np.arange(32) ^ 1) + 5).all()
    with pytest.raises(InterpreterError, match=r"loads from the shared memory .* what"):
        interpret(kernel(workgroup=64)(untold).trace(machine), 1, [x])


# --- registers


@pytest.mark.parametrize("name", ["emulated", "emulated:ptx", "cuda"])
def test_registers_change_no_result(name: str) -> None:
    with open_for_test(name) as opened:
        x = np.zeros(256, np.uint32)
        opened.launch(opened.compile(in_roles), 1, x)
    local = np.arange(128, LANES)
    assert np.array_equal(x, local % 128 * 3 + local)


@pytest.mark.parametrize("arch", ["sm_80", "sm_90", "sm_90a", "sm_100a", "sm_120", "sm_120a"])
def test_where_registers_move(arch: str) -> None:
    machine = ptx_machine(LANES, arch)
    module = ptx.translate(in_roles.trace(machine), machine)
    moves = arch.endswith("a")
    assert module.moves_registers == moves
    assert ("setmaxnreg" in module.text) == moves
    assert (".minnctapersm" in module.text) == moves
    assert assemble(module.text, arch)[0]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (".minnctapersm 1", "", "is left out, as the entry has no .minnctapersm"),
        ("u32 240", "u32 248", "have 66560 registers in all, and there are 168 for each of 384"),
        ("inc.sync.aligned.u32 240", "inc.sync.aligned.u32 160", "has 168 registers, and is to"),
        ("u32 24;", "u32 20;", "gives an instance no multiple of 8 registers from 24 to 256"),
        ("dec.sync.aligned", "dec.sync", "moves no registers in a way that is known here"),
    ],
)
def test_what_texts_may_not_ask(old: str, new: str, message: str) -> None:
    text = ptx.emit(in_roles.trace(MACHINE), MACHINE)
    assert text.count(old) == 1
    with pytest.raises(InterpreterError, match=message):
        interpret_ptx(text.replace(old, new), 1, [np.zeros(256, np.uint32)])


def test_warps_come_together_for_registers() -> None:
    text = ptx.emit(in_roles.trace(MACHINE), MACHINE)
    for old, new in (
        ("%r2, 4;", "%r2, 3;"), ("%r1, 128;", "%r1, 96;"), ("%r1, 127;", "%r1, 31;"),
        ("u32 240;", "u32 176;"),
    ):  # fmt: skip
        assert text.count(old) == 1
        text = text.replace(old, new)
    with pytest.raises(InterpreterError, match="of which some warps have not come"):
        interpret_ptx(text, 1, [np.zeros(288, np.uint32)])

"""Roles of warpgroups with tiles: one that copies, others that multiply; mbarriers."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from quod.codegen.ptx import emitter as ptx
from quod.codegen.ptx.interpreter import interpret_ptx
from quod.codegen.ptx.machine import ptx_machine
from quod.device.memory.tensor_map import TiledMemory
from quod.kernel import F32, U16, U32, U64, Builder, Pointer, Value, kernel, u32, u64
from quod.kernel.errors import InterpreterError
from quod.kernel.interpreter.interpreter import interpret
from quod.kernel.ir.parse import parse
from quod.kernel.ir.text import to_text
from tests.kernel.role_ring import (
    DEPTH,
    LANES,
    MACHINE,
    Ring,
    operands,
    zeros,
)
from tests.support.ptx_assembler import assemble, opcodes, sass
from tests.support.tilings import IN_TEXTS_TOO


@kernel(workgroup=LANES)
def multiplied(
    k: Builder, maps: Pointer[U64], a: Pointer[U16], b: Pointer[U16], steps: U32, c: Pointer[F32]
) -> None:
    """C = A B^T, of 128 by 64; one subgroup copies, two warpgroups have 64 rows each."""
    ring = Ring(k, maps, a, b, steps)
    ring.begin()
    with k.if_(k.subgroup_id() < 4) as producer:
        k.registers(40)
        with k.if_(k.subgroup_id() == 0), k.range(0, steps) as loop:
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


@IN_TEXTS_TOO
@pytest.mark.parametrize("steps", [1, 2, 5])
def test_warp_specialised_product(tiling: Any, steps: int) -> None:
    a, b, wanted = operands(steps)
    memory = [tiling.upload(x.view(np.uint16)) for x in (a, b)]
    maps = tiling.tensor_maps(
        tuple(
            TiledMemory(buffer.address, 1, len(x), steps * DEPTH, len(x))
            for buffer, x in zip(memory, (a, b), strict=True)
        )
    )
    c = tiling.upload(np.full(wanted.shape, np.nan, np.float32))
    compiled = tiling.compile(multiplied)
    tiling.launch(compiled, 1, maps, *memory, steps, c)
    products = np.zeros_like(wanted)
    tiling.download(c, products)
    assert np.array_equal(products, wanted)
    if tiling.kind == "cuda":
        # What each begins with, so that the others' are there to be had.
        assert compiled.registers == 168


def test_text_round_trips_and_assembles() -> None:
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
    lines = module.text.splitlines()
    arrivals = [number for number, line in enumerate(lines) if " mbarrier.arrive." in line]
    assert len(arrivals) == 2
    for number in arrivals:
        assert lines[number].startswith("  @%p")
        # What the others of the warp did is told too.
        before = (line.strip() for line in reversed(lines[:number]))
        assert next(line for line in before if line[:3] not in ("mov", "set")) == (
            "bar.warp.sync 0xffffffff;"
        )


def test_mbarriers_require_a_barrier_after_initialisation() -> None:
    @kernel(workgroup=64)
    def unknown(k: Builder, x: Pointer[U32]) -> None:
        bars = k.shared(u64, 1)
        k.mbarrier_init(bars, 0, 2)
        k.mbarrier_arrive(bars, 0)

    traced_kernel = unknown.trace(ptx_machine(64, "sm_90a"))
    with pytest.raises(InterpreterError, match="an mbarrier that others do not know of"):
        interpret(traced_kernel, 1, [np.zeros(1, np.uint32)])


def test_mbarriers_initialised_in_a_loop() -> None:
    @kernel(workgroup=64)
    def made(k: Builder, x: Pointer[U32]) -> None:
        room, bars, local = k.shared(u32, 64), k.shared(u64, 4), k.local_id()
        room[local] = local
        k.barrier()
        with k.range(0, 4) as loop:
            k.mbarrier_init(bars, loop.index)
        k.barrier()
        with k.if_(k.subgroup_id() == 0) as branch, k.range(0, 4) as loop:
            k.mbarrier_arrive(bars, loop.index)
        with branch.otherwise():
            with k.range(0, 4) as loop:
                k.mbarrier_wait(bars, loop.index, 0)
            x[local - 32] = room[local ^ 32]

    traced = made.trace(machine := ptx_machine(64, "sm_90a"))
    for run in (interpret, interpret_ptx):
        x = np.ones(32, np.uint32)
        run(ptx.emit(traced, machine) if run is interpret_ptx else traced, 1, [x])
        assert np.array_equal(x, np.arange(32))


def test_mbarrier_orders_memory() -> None:
    """Stores before an arrival are there after the wait; those behind it are not."""

    def made(k: Builder, x: Value, *, late: bool) -> None:
        room, bars, local = k.shared(u32, 32), k.shared(u64, 1), k.local_id()
        k.mbarrier_init(bars, 0)
        k.barrier()
        with k.if_(k.subgroup_id() == 0) as branch:
            if not late:
                room[local] = local + 5
            k.mbarrier_arrive(bars, 0)
            if late:
                room[local] = local + 5
        with branch.otherwise():
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

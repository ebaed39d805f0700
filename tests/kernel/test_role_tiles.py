"""Roles of warpgroups with tiles: a producer that copies, consumers that multiply, mistakes."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from quod.codegen.ptx import emitter as ptx
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
        k.copy_tile(
            self.room_a, stage * (self.rows * WORDS), at, self.arrays[0], start, self.rows
        )
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
        k, local = self.k, self.k.local_id()
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

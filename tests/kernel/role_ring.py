"""A product by roles: a ring of tiles that one copies and others multiply."""

from __future__ import annotations

from typing import Any

import numpy as np

from quod.codegen.ptx.machine import ptx_machine
from quod.kernel import Builder, Value, f16, f32, u32, u64
from quod.kernel.builder.tiles import TiledArray, TileOperand

LANES, ROWS, COLUMNS, DEPTH, STAGES = 384, 64, 64, 64, 2
CONSUMERS = 2
WORDS = 32
"""Words of a line of a tile."""
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
        for tensor_map in self.maps:
            self.k.tensor_map_acquire(tensor_map)
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
            operand_a = TileOperand(self.room_a, (stage * self.rows + group * ROWS) * WORDS + at)
            operand_b = TileOperand(self.room_b, stage * (COLUMNS * WORDS) + at)
            sums = k.mma_tiles(f16, operand_a, operand_b, sums)
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


def operands(steps: int) -> tuple[Any, Any, Any]:
    """Small whole numbers, whose product is exact."""
    random = np.random.default_rng(7)
    a, b = (
        random.integers(-8, 9, (rows, steps * DEPTH)).astype(np.float16)
        for rows in (CONSUMERS * ROWS, COLUMNS)
    )
    return a, b, (a.astype(np.float64) @ b.astype(np.float64).T).astype(np.float32)

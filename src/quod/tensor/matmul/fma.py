"""The f32 matrix product on a GPU's FMA units, with asynchronous tile copies.

The tiles of several steps of K are in a ring in shared memory: while one tile is multiplied, the
next ones are copied. Sums are in registers. The structure follows CUTLASS, "Efficient GEMM in
CUDA"; the order of a subgroup's instances is that of Scott Gray's SGEMM (maxas, 2014).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from quod.kernel import Builder, Value, f32, u32
from quod.tensor.matmul.fma_tiles import VECTOR, FmaRing, pitch_of
from quod.tensor.matmul.plan import FmaPlan
from quod.tensor.matmul.tiles import Edges, log2

Store = Callable[[Value, Value, Sequence[Value]], None]


class _Position:
    """The position of an instance in the tile of its workgroup."""

    def __init__(self, k: Builder, plan: FmaPlan) -> None:
        # A subgroup has `down` x `right` instances.
        (rows, columns), (own_rows, own_columns) = plan.part, plan.own
        down, right = rows // own_rows, columns // own_columns
        self.group_stride = down * VECTOR, right * VECTOR
        """The distance between an instance's groups of four rows, and of four columns."""
        # 16-byte loads take half the bank cycles if lanes l ^ 1 or l ^ 2 load the same address.
        lane, group = k.lane_id(), k.subgroup_id()
        index_of_8, index_of_4 = lane >> 1 & 7, lane & 1 | lane >> 4 << 1
        row_index, column_index = (
            (index_of_8, index_of_4) if down == 8 else (index_of_4, index_of_8)
        )
        parts_across = plan.tile[1] // columns
        parts = plan.tile[0] // rows * parts_across
        part = group & (parts - 1)
        # The first row and column of the instance in the tile.
        self.row = (part >> log2(parts_across)) * rows + row_index * VECTOR
        self.column = (part & (parts_across - 1)) * columns + column_index * VECTOR
        self.slice = group >> log2(parts)
        """The index of the slice of each step of K that the instance processes."""


def _in_turn(rows: int, columns: int) -> Iterator[tuple[int, int]]:
    """Yield (row, column) of an instance's products for one k, in boustrophedon order.

    Consecutive products share an operand register, which is then read only once.
    """
    for long_index in range(max(rows, columns)):
        short_indices = range(min(rows, columns))
        for short_index in short_indices if long_index % 2 == 0 else reversed(short_indices):
            yield (long_index, short_index) if rows >= columns else (short_index, long_index)


def multiply_by_fma(k: Builder, plan: FmaPlan, of_a: Edges, of_b: Edges, store: Store) -> None:
    """Multiply the workgroup's tile of C; each instance has a part of it in registers."""
    k.resident_workgroups(plan.resident)
    size_of_a = pitch_of(plan.tile[0], along=of_a.along) * plan.depth
    stage_size = size_of_a + pitch_of(plan.tile[1], along=of_b.along) * plan.depth
    buffer = k.shared(f32, max(stage_size * plan.stages, plan.summed))
    a = FmaRing(k, of_a, plan, plan.tile[0], plan.a_vector, buffer, 0)
    b = FmaRing(k, of_b, plan, plan.tile[1], plan.b_vector, buffer, size_of_a)
    position, slice_depth = _Position(k, plan), plan.depth // plan.slices
    pointer_a = k.pointer_add(buffer, position.slice * (slice_depth * a.pitch) + position.row)
    pointer_b = k.pointer_add(buffer, position.slice * (slice_depth * b.pitch) + position.column)

    def load(stage: Value, depth_index: int) -> list[Value]:
        """Load the instance's rows of A, then its columns of B, for one k."""
        return [
            *a.fragment(
                pointer_a, stage * stage_size, depth_index, plan.own[0], position.group_stride[0]
            ),
            *b.fragment(
                pointer_b, stage * stage_size, depth_index, plan.own[1], position.group_stride[1]
            ),
        ]

    def multiply(fragments: Sequence[Value], sums: Sequence[Value]) -> list[Value]:
        """Return the sums plus the products of the instance's rows and columns for one k."""
        new_sums = list(sums)
        for row, column in _in_turn(*plan.own):
            index = row * plan.own[1] + column
            new_sums[index] = k.fma(
                fragments[row], fragments[plan.own[0] + column], new_sums[index]
            )
        return new_sums

    def copy(step: Value, stage: Value) -> None:
        """Start the copies of a step's tiles of A and B to a stage."""
        a.copy(step * plan.depth, stage * stage_size)
        b.copy(step * plan.depth, stage * stage_size)
        k.copy_async_commit()

    def arrive() -> None:
        """Wait until the oldest tiles are complete and the multiplied ones are free again."""
        k.copy_async_wait(plan.stages - 2)
        k.barrier()

    zero, last_stage = k.constant(0, u32), plan.stages - 1
    for step in range(plan.stages - 1):
        copy(k.constant(step, u32), k.constant(step, u32))
    arrive()
    sums = [k.constant(0.0, f32)] * (plan.own[0] * plan.own[1])
    first_fragments = load(zero, 0) if plan.ahead else []
    steps = (of_a.depth + (plan.depth - 1)) // plan.depth
    initial = first_fragments, sums, zero, k.constant(last_stage, u32)
    with k.range(0, steps, carry=initial) as loop:
        fragments, sums, stage, free_stage = loop.carried
        next_stage = k.select(stage == last_stage, 0, stage + 1)
        for depth_index in range(slice_depth):
            is_last = depth_index == slice_depth - 1
            if not plan.ahead:
                fragments = load(stage, depth_index)
            if is_last:
                arrive()
            next_fragments = []
            if plan.ahead:
                next_fragments = load(next_stage, 0) if is_last else load(stage, depth_index + 1)
            if depth_index == 0:
                # Issue all copies together, as a copy waits for earlier shared memory accesses.
                copy(loop.index + (plan.stages - 1), free_stage)
            sums = multiply(fragments, sums)
            fragments = next_fragments
        loop.next((fragments, sums, next_stage, stage))
    _put(k, plan, position, buffer, loop.results[1], of_a.first, of_b.first, store)


def _put(
    k: Builder, plan: FmaPlan, position: _Position, buffer: Value, sums: Sequence[Value],
    row: Value, column: Value, store: Store,
) -> None:  # fmt: skip
    """Store the sums. With several slices, add their sums first, in a fixed order.

    Each slice adds and stores an equal share of the vectors. The call has barriers.
    """
    per_row = plan.own[1] // VECTOR
    vectors = [tuple(sums[index : index + VECTOR]) for index in range(0, len(sums), VECTOR)]

    def store_vector(
        row_index: int | Value, column_index: int | Value, values: Sequence[Value]
    ) -> None:
        row_offset = row_index // VECTOR * position.group_stride[0] + row_index % VECTOR
        store(
            row + (position.row + row_offset),
            column + (position.column + column_index * position.group_stride[1]),
            values,
        )

    if plan.slices == 1:
        for vector_index, values in enumerate(vectors):
            store_vector(vector_index // per_row, vector_index % per_row, values)
        return
    lanes = plan.lanes // plan.slices
    lane, vectors_per_slice = k.local_id() & (lanes - 1), len(vectors) // plan.slices
    # Copies of zeros may still be pending in the memory of the sums.
    k.copy_async_wait(0)
    k.barrier()
    for vector_index, values in enumerate(vectors):
        start = (position.slice * len(vectors) + vector_index) * lanes + lane
        k.store(buffer, start * VECTOR, *values)
    k.barrier()
    for vector_index in range(vectors_per_slice):
        vector = position.slice * vectors_per_slice + vector_index
        total: tuple[Value, ...] = ()
        for slice_index in range(plan.slices):
            start = (vector + slice_index * len(vectors)) * lanes + lane
            values = k.load(buffer, start * VECTOR, VECTOR)
            total = tuple(x + y for x, y in zip(total, values, strict=True)) if total else values
        store_vector(vector >> log2(per_row), vector & (per_row - 1), total)

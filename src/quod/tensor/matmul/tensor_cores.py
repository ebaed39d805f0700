"""The matrix product on tensor cores, with asynchronous tile copies and matrix loads (ldmatrix).

The tiles of several steps of K are in a ring in shared memory: while one tile is multiplied, the
next ones are copied. The structure follows CUTLASS, "Efficient GEMM in CUDA", and its multistage
main loop.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from quod.kernel import Builder, Value, u32, u64
from quod.kernel.ir.types import Type, loaded_type
from quod.tensor.matmul.plan import CorePlan
from quod.tensor.matmul.tiles import Edges

Values = tuple[Value, ...]

_WORDS = 4
"""Words of a copy, and of a matrix row: eight 16-bit elements."""
_ELEMENTS = 8
"""Elements of a copy."""
_MATRIX = 16
"""Rows and columns of one matrix load: four 8 x 8 matrices."""


class Ring:
    """A ring of tiles of one operand, each `width` of the long axis by `depth` of K.

    A line of a tile is contiguous in memory: it is along the long axis if the operand is `along`
    it, else along K. The 16-byte copies are swizzled within a line, so that neither copies nor
    matrix loads, which read the same access of eight lines, have bank conflicts.
    """

    def __init__(
        self, k: Builder, element: Type, operand: Edges, plan: CorePlan, width: int, base: Value, *,
        is_first: bool,
    ) -> None:  # fmt: skip
        """Allocate the tiles of A (`is_first`) or B.

        base: The subgroup's first index on the long axis, within the tile.
        """
        self._k, self._operand, self._along = k, operand, operand.along
        self._element, self._width = element, width
        lines, length = (plan.depth, width) if self._along else (width, plan.depth)
        self._pitch = length // 2
        self._accesses_per_line = length // _ELEMENTS
        self._size = lines * self._pitch
        self._buffer = k.shared(u32, self._size * plan.stages)
        self._stages, self._depth = plan.stages, plan.depth
        self._assign_copies(plan.lanes)
        self._starts = self._matrices(base, plan, is_first)

    def _assign_copies(self, lanes: int) -> None:
        """Compute the addresses that this instance copies in each step."""
        k = self._k
        # An instance copies the same index of lines that are `_line_stride` lines from each other.
        self._line_stride = lanes // self._accesses_per_line
        self._count = self._size // (self._pitch * self._line_stride)
        line, self._access = (
            k.local_id() // self._accesses_per_line, k.local_id() % self._accesses_per_line
        )  # fmt: skip
        self._lines = [line + copy_index * self._line_stride for copy_index in range(self._count)]
        self._targets = [
            line * self._pitch
            + self._swizzle(line + copy_index * self._line_stride % 8, self._access) * _WORDS
            for copy_index in range(self._count)
        ]
        self._depth_access = self._operand.behind(self._access, _ELEMENTS)
        self._sources = [self._source(line) for line in self._lines]

    def _swizzle(self, line: Value, access: Value) -> Value:
        """Return the swizzled index of an access, so that adjacent lines use different banks."""
        if self._accesses_per_line >= 8:
            return access ^ line % 8
        return access ^ line // (8 // self._accesses_per_line) % self._accesses_per_line

    def _source(self, line: Value) -> Value:
        """Return the source pointer of a line's first copy, with indices clamped to the matrix."""
        k, operand = self._k, self._operand
        pitch = operand.extent if self._along else operand.depth
        if self._along:
            long_index = k.minimum(
                operand.first + self._access * _ELEMENTS, operand.extent - _ELEMENTS
            )
        else:
            line = k.minimum(operand.first + line, operand.extent - 1)
            long_index = self._depth_access * _ELEMENTS
        words = line.cast(u64) * (pitch // 2).cast(u64) + (long_index // 2).cast(u64)
        return k.pointer_add(operand.pointer.cast(u32), words)

    def copy(self, step: Value) -> None:
        """Start the copies of a step of K, with zeros beyond its end."""
        k, start = self._k, self._operand.begin(step, self._depth)
        stage = step % self._stages * self._size
        pitch = (self._operand.extent // 2).cast(u64)
        for copy_index, (line, target, source) in enumerate(
            zip(self._lines, self._targets, self._sources, strict=True)
        ):
            depth_index = start + (line if self._along else self._depth_access * _ELEMENTS)
            source_offset = start.cast(u64) * pitch if self._along else start // 2
            target_offset = stage + target + copy_index * self._line_stride * self._pitch
            in_range = depth_index < self._operand.depth
            k.copy_async(self._buffer, target_offset, source, source_offset, _WORDS, where=in_range)

    def _matrices(self, first_index: Value, plan: CorePlan, is_first: bool) -> list[Value]:
        """Return the word offset of this instance's matrix row, for each 16 elements of a line.

        The four 8 x 8 matrices of a load are ordered along the rows of A first, then along K; those
        of B along K first.
        """
        lane = self._k.lane_id()
        first_bit, second_bit = lane // 8 % 2, lane // 16
        axis_block, depth_block = (first_bit, second_bit) if is_first else (second_bit, first_bit)
        if self._along:
            line, access = lane % 8 + depth_block * 8, first_index // _ELEMENTS + axis_block
            count = (plan.part[0] if is_first else plan.part[1]) // _MATRIX
        else:
            line, access, count = (
                first_index + lane % 8 + axis_block * 8,
                depth_block,
                plan.depth // _MATRIX,
            )
        return [
            line * self._pitch + self._swizzle(lane % 8, access + 2 * matrix_index) * _WORDS
            for matrix_index in range(count)
        ]

    def matrices(self, stage: Value, depth_block: int, line_block: int) -> Values:
        """Load a 16 x 16 matrix of the subgroup, by its indices in K and on the long axis."""
        index_in_line, line_group = (
            (line_block, depth_block) if self._along else (depth_block, line_block)
        )
        offset = (
            stage * self._size + self._starts[index_in_line] + line_group * _MATRIX * self._pitch
        )
        return self._k.load_matrices(self._buffer, offset, transposed=self._along)


def multiply_in_cores(
    k: Builder, elements: tuple[Type, Type], plan: CorePlan, of_a: Edges, of_b: Edges,
    store: Callable[[Value, Value, Sequence[Value]], None], ring_of_b: Callable[..., Ring] = Ring,
) -> None:  # fmt: skip
    """Multiply the workgroup's tile of C; each subgroup has a part of it in registers.

    Sizes of A and B count 16-bit units: two 8-bit elements are one unit, and an f32 is two; lines
    of both are then along K. Tensor cores use 10 fraction bits of an f32 (tf32).
    """
    element, other = elements
    k.resident_workgroups(plan.resident)
    rows, columns = plan.part
    subgroups_across = plan.tile[1] // columns
    own_row, own_column = (
        k.subgroup_id() // subgroups_across * rows, k.subgroup_id() % subgroups_across * columns
    )  # fmt: skip
    a = Ring(k, element, of_a, plan, plan.tile[0], own_row, is_first=True)
    b = ring_of_b(k, other, of_b, plan, plan.tile[1], own_column, is_first=False)
    row_blocks, column_blocks, blocks_of_8 = rows // _MATRIX, columns // _MATRIX, columns // 8

    def load(stage: Value, depth_block: int) -> list[Values]:
        """Load the matrices of A, then those of B, for 16 of K."""
        return [
            *(a.matrices(stage, depth_block, index) for index in range(row_blocks)),
            *(b.matrices(stage, depth_block, index) for index in range(column_blocks)),
        ]

    def multiply(fragments: Sequence[Values], sums: Sequence[Values]) -> list[Values]:
        """Return the sums plus the products of the fragments that `load` returned."""
        return [
            k.mma(
                element, fragments[row], fragments[row_blocks + column // 2][column % 2 * 2 :][:2],
                sums[row * blocks_of_8 + column], other=other,
            )
            for row in range(row_blocks)
            for column in range(blocks_of_8)
        ]  # fmt: skip

    def copy(step: Value) -> None:
        a.copy(step)
        b.copy(step)
        k.copy_async_commit()

    def arrive() -> None:
        """Wait until the oldest tiles are complete and the multiplied ones are free again."""
        k.copy_async_wait(plan.stages - 2)
        k.barrier()

    for step in range(plan.stages - 1):
        copy(k.constant(step, u32))
    arrive()
    zero = k.constant(0, loaded_type(element))
    zero_sums: list[Values] = [(zero,) * 4] * (row_blocks * blocks_of_8)
    sums, products = zero_sums, zero_sums
    steps = (of_a.depth + (plan.depth - 1)) // plan.depth
    with k.range(0, steps, carry=(load(k.constant(0, u32), 0), sums)) as loop:
        fragments, sums = loop.carried
        stage, next_stage = loop.index % plan.stages, (loop.index + 1) % plan.stages
        for depth_block in range(plan.depth // _MATRIX):
            is_last = depth_block == plan.depth // _MATRIX - 1
            if is_last:
                arrive()
            # The next factors are loaded before these are multiplied.
            next_fragments = load(next_stage, 0) if is_last else load(stage, depth_block + 1)
            if depth_block == 0:
                copy(loop.index + (plan.stages - 1))
            if plan.promoted:
                # Tensor cores accumulate with fewer bits than f32.
                products = multiply(fragments, products if depth_block else zero_sums)
            else:
                sums = multiply(fragments, sums)
            fragments = next_fragments
        if plan.promoted:
            sums = [_add(*pair) for pair in zip(sums, products, strict=True)]
        loop.next((fragments, sums))
    _, sums = loop.results
    lane = k.lane_id()
    # In an 8 x 8 block of an accumulator, lane i has row i // 4 and columns i % 4 * 2 and the next.
    row, column = of_a.first + own_row + lane // 4, of_b.first + own_column + lane % 4 * 2
    for index, values in enumerate(sums):
        row_offset, column_offset = index // blocks_of_8 * _MATRIX, index % blocks_of_8 * 8
        store(row + row_offset, column + column_offset, values[:2])
        store(row + (row_offset + 8), column + column_offset, values[2:])


def _add(a: Values, b: Values) -> Values:
    return tuple([x + y for x, y in zip(a, b, strict=True)])

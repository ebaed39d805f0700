"""Gradients of attention on tensor cores, with lines streamed through a ring of tiles.

For the gradient of queries, a workgroup owns rows of queries and streams keys and values. For the
gradients of keys and values, it owns rows of keys and values and streams queries. Products of rows
and lines stay in registers as the left factors of the next products, as in
`flash_attention.tensor_cores`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from quod.kernel import Builder, Value, f16, f32, u32
from quod.kernel.ir.types import Type
from quod.tensor.flash_attention.plan import CoreTilePlan
from quod.tensor.flash_attention.tensor_cores import MATRIX, HeadMatrix, Tiles, Values

Blocks = list[Values]
"""MMA fragments of 16 rows, one for each eight lines or elements."""
Numbers = Callable[[Value], tuple[Value, Value]]
"""A function of a query that returns the base-2 logarithm of its sum, and its sum(dy * y)."""


class _Gradients:
    """Two matrices of rows, 16 per subgroup, and two matrices of streamed lines."""

    def __init__(
        self, k: Builder, element: Type, plan: CoreTilePlan, row_matrices: Sequence[HeadMatrix],
        line_matrices: Sequence[HeadMatrix], first_row: Value, factor: Value,
    ) -> None:  # fmt: skip
        self._k, self._element, self._plan = k, element, plan
        self._first, self._factor = first_row, factor
        self._subgroup_row = k.subgroup_id() * MATRIX
        rows, self._lines = plan.tile
        self._row_tiles = [Tiles(k, matrix, plan, rows, 1) for matrix in row_matrices]
        self._line_tiles = [
            Tiles(k, matrix, plan, self._lines, plan.stages) for matrix in line_matrices
        ]
        self._row_offset = self._row_tiles[0].left(self._subgroup_row)
        self._line_offset = self._line_tiles[0].right()
        self._transposed_offset = self._line_tiles[0].left(k.constant(0, u32))
        self._depth = plan.size // MATRIX

    @property
    def row(self) -> Value:
        """The first of this instance's two rows; the second is row + 8."""
        return self._first + self._subgroup_row + (self._k.lane_id() >> 2)

    @property
    def zeros(self) -> Blocks:
        """Initial sums over lines: zeros."""
        return [(self._k.constant(0.0, f32),) * 4] * (2 * self._depth)

    def begin(self, line: Callable[[Value], Value]) -> None:
        """Start the copies of the rows and of the first tiles of lines.

        line: Given a step, returns the first line of its tile.
        """
        self._k.resident_workgroups(self._plan.resident)
        for tiles in self._row_tiles:
            tiles.copy(self._first, 0)
        for step in range(self._plan.stages - 1):
            self._copy(line, self._k.constant(step, u32))

    def _copy(self, line: Callable[[Value], Value], step: Value) -> None:
        """Start the copies of a step's tiles of lines."""
        stage = step & (self._plan.stages - 1)
        for tiles in self._line_tiles:
            tiles.copy(line(step), stage)
        self._k.copy_async_commit()

    def arrive(self, line: Callable[[Value], Value], step: Value) -> Value:
        """Wait for a step's tiles, start the copies of a later step, and return the stage."""
        self._k.copy_async_wait(self._plan.stages - 2)
        self._k.barrier()
        self._copy(line, step + (self._plan.stages - 1))
        return step & (self._plan.stages - 1)

    def products(self, which: int, stage: Value) -> Blocks:
        """Multiply the rows and the streamed lines of matrix `which`, 0 or 1."""
        blocks: Blocks = [(self._k.constant(0.0, f32),) * 4] * (self._lines // 8)
        for depth_index in range(self._depth):
            row_matrix = self._row_tiles[which].matrices(self._row_offset, 0, depth_index, 0)
            for line_block in range(self._lines // MATRIX):
                line_matrix = self._line_tiles[which].matrices(
                    self._line_offset, stage, depth_index, line_block
                )
                self._multiply(row_matrix, line_matrix, blocks, 2 * line_block)
        return blocks

    def add(self, weights: Blocks, which: int, stage: Value, sums: Blocks) -> Blocks:
        """Return sums plus weights times the streamed lines of matrix `which`."""
        pack = self._k.pack_f16 if self._element is f16 else self._k.pack_bf16
        totals = list(sums)
        for line_block in range(self._lines // MATRIX):
            packed_weights: Values = tuple(
                pack(*weights[2 * line_block + word // 2][word % 2 * 2 :][:2]) for word in range(4)
            )
            for element_block in range(self._depth):
                tiles = self._line_tiles[which]
                line_matrix = tiles.matrices(
                    self._transposed_offset, stage, element_block, line_block, transposed=True
                )
                self._multiply(packed_weights, line_matrix, totals, 2 * element_block)
        return totals

    def _multiply(self, left: Values, right: Values, sums: Blocks, first_sum: int) -> None:
        """Add the product of 16 rows and 16 columns to the two sums from `first_sum` on."""
        for column_half in range(2):
            column_pair = right[2 * column_half :][:2]
            sums[first_sum + column_half] = self._k.mma(
                self._element, left, column_pair, sums[first_sum + column_half]
            )

    def line(self, block: int, element: int) -> Value:
        """Return the line, within the tile, of an element of a fragment."""
        return (self._k.lane_id() & 3) * 2 + (block * 8 + element % 2)

    def weight(self, logit: Value, log: Value) -> Value:
        """Return the softmax weight of a logit: 2**(logit * factor - log)."""
        return self._k.exp2(self._k.fma(logit, self._factor, -log), flush_subnormals=True)


def of_queries(
    k: Builder, element: Type, plan: CoreTilePlan, row_matrices: Sequence[HeadMatrix],
    line_matrices: Sequence[HeadMatrix], first_row: Value, seen: Callable[[Value], Value],
    numbers: Numbers,
    factor: Value,
) -> tuple[Value, Blocks]:  # fmt: skip
    """Return the instance's first row, and sums of ds k.

    row_matrices: q and dy.
    line_matrices: Keys and values, as many as the last query sees.
    first_row: The first query of the workgroup.
    seen: Returns the number of keys that a query sees.
    """
    work = _Gradients(k, element, plan, row_matrices, line_matrices, first_row, factor)
    zero, start = k.constant(0.0, f32), k.constant(0, u32)
    last_query = row_matrices[0].count - 1
    work.begin(lambda step: step * plan.keys)
    row_statistics = [
        numbers(k.minimum(work.row + row_offset, last_query)) for row_offset in (0, 8)
    ]

    def step(step_index: Value, sums: Blocks, *, masked: bool) -> Blocks:
        stage = work.arrive(lambda step: step * plan.keys, step_index)
        logits, slopes = work.products(0, stage), work.products(1, stage)
        counts = [seen(work.row + row_offset) for row_offset in (0, 8)] if masked else []
        logit_gradients: Blocks = []
        for block, pair in enumerate(zip(logits, slopes, strict=True)):
            block_slopes = []
            for position, (logit, slope) in enumerate(zip(*pair, strict=True)):
                log, product = row_statistics[position // 2]
                logit_gradient = work.weight(logit, log) * (slope - product)
                if masked:
                    visible = (
                        step_index * plan.keys + work.line(block, position) < counts[position // 2]
                    )
                    logit_gradient = k.select(visible, logit_gradient, zero)
                block_slopes.append(logit_gradient)
            logit_gradients.append(tuple(block_slopes))
        return work.add(logit_gradients, 0, stage, sums)

    def loop(first_step: Value, end_step: Value, sums: Blocks, *, masked: bool) -> Blocks:
        with k.range(first_step, end_step, carry=sums) as steps:
            steps.next(step(steps.index, steps.carried, masked=masked))
        return list(steps.results)

    unmasked_steps = seen(first_row) // plan.keys
    sums = loop(start, unmasked_steps, work.zeros, masked=False)
    steps = (line_matrices[0].count + (plan.keys - 1)) // plan.keys
    return work.row, loop(unmasked_steps, steps, sums, masked=True)


def of_keys(
    k: Builder, element: Type, plan: CoreTilePlan, row_matrices: Sequence[HeadMatrix],
    line_matrices: Sequence[HeadMatrix], first_row: Value, seen: Callable[[Value], Value],
    numbers: Numbers,
    factor: Value, span: tuple[Value, Value],
) -> tuple[Value, Blocks, Blocks]:  # fmt: skip
    """Return the instance's first row, and sums of ds^T q and p^T dy.

    row_matrices: Keys and values.
    line_matrices: q and dy, of all heads that share the keys, one head after the other.
    first_row: The first key of the workgroup.
    span: The first query of a head that sees any of the keys, and the number of queries of a head.
    """
    work = _Gradients(k, element, plan, row_matrices, line_matrices, first_row, factor)
    first_query, queries = span
    zero, count = k.constant(0.0, f32), line_matrices[0].count
    tiles = (queries - first_query + (plan.keys - 1)) // plan.keys
    divisor = k.maximum(tiles, 1)
    heads = count // k.maximum(queries, 1)

    def query(step: Value) -> Value:
        return first_query + step % divisor * plan.keys

    def line(step: Value) -> Value:
        return step // divisor * queries + query(step)

    work.begin(line)
    rows = [work.row + row_offset for row_offset in (0, 8)]
    with k.range(k.constant(0, u32), tiles * heads, carry=(work.zeros, work.zeros)) as steps:
        stage = work.arrive(line, steps.index)
        logits, slopes = work.products(0, stage), work.products(1, stage)
        weights: Blocks = []
        logit_gradients: Blocks = []
        for block, pair in enumerate(zip(logits, slopes, strict=True)):
            block_lines = [work.line(block, element) for element in range(2)]
            query_indices = [query(steps.index) + line_offset for line_offset in block_lines]
            key_counts = [
                k.select(query_index < queries, seen(query_index), 0)
                for query_index in query_indices
            ]
            line_statistics = [
                numbers(k.minimum(line(steps.index) + line_offset, count - 1))
                for line_offset in block_lines
            ]
            block_weights, block_slopes = [], []
            for position, (logit, slope) in enumerate(zip(*pair, strict=True)):
                log, product = line_statistics[position % 2]
                visible = rows[position // 2] < key_counts[position % 2]
                block_weights.append(k.select(visible, work.weight(logit, log), zero))
                block_slopes.append(block_weights[-1] * (slope - product))
            weights.append(tuple(block_weights))
            logit_gradients.append(tuple(block_slopes))
        key_sums, value_sums = steps.carried
        steps.next(
            (work.add(logit_gradients, 0, stage, key_sums), work.add(weights, 1, stage, value_sums))
        )
    key_sums, value_sums = steps.results
    return rows[0], key_sums, value_sums

"""Gradients of attention by warpgroups, with lines streamed through a ring of tiles.

For the gradient of queries, a workgroup owns rows of queries and streams keys and values; for the
gradients of keys and values it is the reverse, as in `backward.tensor_cores`. The products of rows
and lines stay in registers as left factors of the next products. Products are asynchronous: one of
a tile's two products runs while weights are computed from the other, and the sums of a tile run
while the next tile's products start (after FlashAttention-3, Shah et al., 2024).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from quod.frozen import frozen
from quod.kernel import Builder, Value, f32, u32
from quod.kernel.ir.types import Type
from quod.kernel.ops.tile import LOG2_WARPGROUP, MATRIX_DEPTH, MATRIX_ROWS
from quod.tensor.flash_attention.plan import WarpgroupGradientPlan
from quod.tensor.flash_attention.warpgroups import HeadOf, HeadTiles, packing
from quod.tensor.matmul.mma_fragments import QUAD, lane_of

Values = tuple[Value, ...]
Pair = tuple[HeadOf, HeadOf]

_MASKED_LOG = 1e38
"""A base-2 logarithm of a sum that makes every weight 0."""


class _Gradients:
    """Two matrices of rows, 64 per warpgroup, and two matrices of streamed lines."""

    def __init__(
        self, k: Builder, element: Type, plan: WarpgroupGradientPlan, row_heads: Pair,
        line_heads: Pair,
        first_row: Value, factor: Value,
    ) -> None:  # fmt: skip
        self._k, self._element, self._plan = k, element, plan
        self._first, self._factor = first_row, factor
        rows, self._lines = plan.tile
        for head in (*row_heads, *line_heads):
            k.tensor_map_acquire(head.array.tensor_map)
        self._row_tiles = [HeadTiles(k, plan.size, row_head, rows, 1) for row_head in row_heads]
        self._line_tiles = [
            HeadTiles(k, plan.size, line_head, self._lines, plan.stages) for line_head in line_heads
        ]
        # Shuffled from the first instance, so that the assembler sees that it is uniform in a
        # subgroup.
        self._warpgroup_row = (
            k.shuffle(k.local_id() >> LOG2_WARPGROUP, k.constant(0, u32)) * MATRIX_ROWS
        )
        self.row = (
            first_row + self._warpgroup_row + ((k.local_id() >> 5 & 3) * 16 + (lane_of(k) >> 2))
        )
        """The first of this instance's two rows; the second is row + 8."""
        self.first_line = (lane_of(k) & (QUAD - 1)) * 2
        """The first of the instance's lines; it has two of every eight lines."""

    @property
    def sums(self) -> Values:
        """Initial sums over lines: zeros."""
        return (self._k.constant(0.0, f32),) * (self._plan.size // 2)

    def begin(self, locate: Callable[[Value], tuple[Value, Value]], steps: Value) -> None:
        """Start the copies of the rows and of the first tiles of lines, and wait for the rows.

        locate: Given a step, returns the head and the first line of its tiles.
        """
        for tiles in self._row_tiles:
            tiles.copy(self._first, 0)
        for step in range(self._plan.stages - 1):
            self.copy(locate, self._k.constant(step, u32), steps)
        self._k.barrier()
        for tiles in self._row_tiles:
            tiles.wait(0, 0)

    def copy(
        self, locate: Callable[[Value], tuple[Value, Value]], step: Value, steps: Value
    ) -> None:
        """Start the copies of a step's tiles, if there is such a step."""
        stage = step & (self._plan.stages - 1)
        with self._k.if_(step < steps):
            head, first_line = locate(step)
            for tiles in self._line_tiles:
                tiles.copy(first_line, stage, head)

    def products(self, which: int, step: Value) -> Values:
        """Start the products of the rows and the streamed lines of matrix `which`, 0 or 1."""
        k, plan = self._k, self._plan
        tiles = self._line_tiles[which]
        stage = step & (plan.stages - 1)
        tiles.wait(stage, step >> (plan.stages.bit_length() - 1))
        k.mma_begin()
        products: Values = (k.constant(0.0, f32),) * (self._lines // 2)
        for depth_index in range(plan.size // MATRIX_DEPTH):
            matrix = self._row_tiles[which].rows(0, depth_index, self._warpgroup_row)
            products = k.mma_tiles(self._element, matrix, tiles.rows(stage, depth_index), products)
        k.mma_commit()
        return products

    def add(
        self, weights: Sequence[Value], which: int, step: Value, sums: Sequence[Value]
    ) -> Values:
        """Start adding weights times the streamed lines of matrix `which` to sums."""
        k, pack = self._k, packing(self._k, self._element)
        stage, totals = step & (self._plan.stages - 1), tuple(sums)
        packed_weights = [pack(*weights[index : index + 2]) for index in range(0, len(weights), 2)]
        k.mma_begin()
        for index in range(self._lines // MATRIX_DEPTH):
            right = self._line_tiles[which].columns(stage, index)
            totals = k.mma_rows(
                self._element, packed_weights[4 * index : 4 * index + 4], right, totals
            )
        k.mma_commit()
        return totals

    def weights(self, logits: Sequence[Value], logs: Callable[[int], Value]) -> list[Value]:
        """Return the weights of logits, given the base-2 logarithm of each logit's sum."""
        k = self._k
        return [
            k.exp2(k.fma(logit, self._factor, -logs(index)), flush_subnormals=True)
            for index, logit in enumerate(logits)
        ]

    def where(
        self, any_masked: Value, is_visible: Callable[[int], Value], weights: Sequence[Value]
    ) -> Sequence[Value]:
        """Return weights, with 0 where `is_visible(index)` is false.

        any_masked: False if the caller knows that all pairs are visible.
        """
        k, zero = self._k, self._k.constant(0.0, f32)
        with k.if_(any_masked) as branch:
            branch.yield_(
                [k.select(is_visible(index), weight, zero) for index, weight in enumerate(weights)]
            )
        with branch.otherwise():
            branch.yield_(list(weights))
        masked: Sequence[Value] = branch.results
        return masked


def _row(index: int) -> int:
    """Return which of an instance's two rows, 0 or 1, an accumulator belongs to."""
    return index // 2 % 2


def _line(index: int) -> int:
    """Return the line of an accumulator, relative to the instance's first line."""
    return index // 4 * 8 + index % 2


def of_queries(
    k: Builder, element: Type, plan: WarpgroupGradientPlan, row_heads: Pair, line_heads: Pair,
    first_row: Value,
    count: Value, seen: Callable[[Value], Value], numbers: Callable[[Value], tuple[Value, Value]],
    factor: Value,
) -> tuple[Value, Values]:  # fmt: skip
    """Return the instance's first row, and sums of ds k.

    row_heads: q and dy, of `count` queries.
    line_heads: Keys and values, as many as the last query sees.
    first_row: The first query of the workgroup.
    seen: Returns the number of keys that a query sees.
    numbers: Given a query, returns the base-2 logarithm of its sum, and sum(dy * y).
    """
    work = _Gradients(k, element, plan, row_heads, line_heads, first_row, factor)
    lines, last_query = plan.lines, count - 1
    stop = seen(k.minimum(first_row + (plan.tile[0] - 1), last_query))
    steps = (stop + (lines - 1)) // lines

    def locate(step: Value) -> tuple[Value, Value]:
        return line_heads[0].head, step * lines

    work.begin(locate, steps)
    row_statistics = [
        numbers(k.minimum(work.row + row_offset, last_query)) for row_offset in (0, 8)
    ]
    counts = [seen(work.row + row_offset) for row_offset in (0, 8)]
    seen_by_all = seen(first_row)
    with k.range(k.constant(0, u32), steps, carry=list(work.sums)) as loop:
        step, sums = loop.index, tuple(loop.carried)
        logits, slopes = work.products(0, step), work.products(1, step)
        # This also completes the previous step's sums, so after the barrier its tiles are free.
        logits = k.mma_wait(1, logits)
        k.barrier()
        work.copy(locate, step + (plan.stages - 1), steps)
        weights = work.weights(logits, lambda index: row_statistics[_row(index)][0])
        first_key = step * lines + work.first_line
        masked_weights = work.where(
            (step + 1) * lines > seen_by_all,
            lambda index: first_key + _line(index) < counts[_row(index)],
            weights,
        )
        slopes = k.mma_wait(0, slopes)
        logit_gradients = [
            weight * (slope - row_statistics[_row(index)][1])
            for index, (weight, slope) in enumerate(zip(masked_weights, slopes, strict=True))
        ]
        loop.next(list(work.add(logit_gradients, 0, step, sums)))
    return work.row, k.mma_wait(0, loop.results)


@frozen(eq=False)
class QueryRange:
    """The queries that see any key of a workgroup.

    head: The first query head that shares the keys.
    heads: The number of query heads that share the keys.
    begin: The first query of a head that sees any of the keys.
    queries: The number of queries of a head.
    keys: The number of keys of the sequence.
    """

    head: Value
    heads: Value
    begin: Value
    queries: Value
    keys: Value


def of_keys(
    k: Builder, element: Type, plan: WarpgroupGradientPlan, row_heads: Pair, line_heads: Pair,
    first_row: Value,
    span: QueryRange, seen: Callable[[Value], Value] | None,
    numbers: Callable[[Value, Value], tuple[Value, Value]], factor: Value,
) -> tuple[Value, Values, Values]:  # fmt: skip
    """Return the instance's first row, and sums of ds^T q and p^T dy.

    row_heads: Keys and values.
    line_heads: q and dy, of all heads that share the keys, one head after the other.
    first_row: The first key of the workgroup.
    seen: Returns the number of keys that a query sees; None if all queries see all keys.
    numbers: Given a head and a query, returns the base-2 logarithm of its sum, and sum(dy * y).
    """
    work = _Gradients(k, element, plan, row_heads, line_heads, first_row, factor)
    rows, lines = plan.tile
    tiles = (span.queries - span.begin + (lines - 1)) // lines
    divisor = k.maximum(tiles, 1)
    steps = tiles * span.heads

    def locate(step: Value) -> tuple[Value, Value]:
        return span.head + step // divisor, span.begin + step % divisor * lines

    # Logarithms and sum(dy * y) of the queries of two steps. Per step, the first `lines` instances
    # load a logarithm each, the next `lines` a sum.
    statistics = k.shared(f32, 2 * 2 * lines)
    line_of_instance = k.local_id() & (lines - 1)

    def load_statistics(step: Value) -> Value:
        head, line = locate(step)
        query = line + line_of_instance
        log, product = numbers(head, k.minimum(query, span.queries - 1))
        log = k.select(query < span.queries, log, k.constant(_MASKED_LOG, f32))
        return k.select(k.local_id() < lines, log, product)

    def store_statistics(step: Value, value: Value) -> None:
        with k.if_(k.local_id() < 2 * lines):
            statistics[(step & 1) * (2 * lines) + k.local_id()] = value

    work.begin(locate, steps)
    start = k.constant(0, u32)
    with k.if_(steps > 0):
        store_statistics(start, load_statistics(start))
    with k.range(start, steps, carry=(list(work.sums), list(work.sums))) as loop:
        step = loop.index
        key_sums, value_sums = loop.carried
        logits, slopes = work.products(0, step), work.products(1, step)
        next_statistics = load_statistics(k.minimum(step + 1, steps - 1))
        # This also completes the previous step's sums, so after the barrier its tiles are free.
        logits = k.mma_wait(1, logits)
        k.barrier()
        work.copy(locate, step + (plan.stages - 1), steps)
        own_statistics = (step & 1) * (2 * lines) + work.first_line
        logs = [k.load(statistics, own_statistics + block * 8, 2) for block in range(lines // 8)]
        weights: Sequence[Value] = work.weights(logits, lambda at: logs[at // 4][at % 2])
        if seen is not None:
            query = locate(step)[1]
            weights = work.where(
                seen(query) < k.minimum(first_row + rows, span.keys),
                _inside(work, seen, query),
                weights,
            )
        value_sums = work.add(weights, 1, step, value_sums)
        slopes = k.mma_wait(1, slopes)
        products = [
            k.load(statistics, own_statistics + (lines + block * 8), 2)
            for block in range(lines // 8)
        ]
        logit_gradients = [
            weight * (slope - products[at // 4][at % 2])
            for at, (weight, slope) in enumerate(zip(weights, slopes, strict=True))
        ]
        key_sums = work.add(logit_gradients, 0, step, key_sums)
        store_statistics(step + 1, next_statistics)
        loop.next((list(key_sums), list(value_sums)))
    key_sums, value_sums = loop.results
    totals = k.mma_wait(0, [*key_sums, *value_sums])
    return work.row, totals[: len(key_sums)], totals[len(key_sums) :]


def _inside(
    work: _Gradients, seen: Callable[[Value], Value], query: Value
) -> Callable[[int], Value]:
    """Return a function that is true if the query of a value sees the key of its row."""

    def inside(at: int) -> Value:
        return work.row + 8 * _row(at) < seen(query + work.first_line + _line(at))

    return inside

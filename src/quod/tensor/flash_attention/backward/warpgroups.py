"""Gradients of attention by warpgroups, with lines streamed through a ring of tiles.

For the gradient of queries, the workgroup's own rows are queries, and keys are streamed; for those
of keys and values it is the reverse, as in `backward.tensor_cores`. The products of rows and lines
are first factors, in registers, of the next products. The products of a tile run while weights are
computed from other products, and sums of a tile run while the next tile's products start (after
FlashAttention-3, Shah et al., 2024).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from quod.frozen import frozen
from quod.kernel import Builder, Value, f32, u32
from quod.kernel.ir.types import Type
from quod.kernel.ops.tile import MATRIX_DEPTH, MATRIX_ROWS
from quod.tensor.flash_attention.plan import WarpgroupGradientPlan
from quod.tensor.flash_attention.warpgroups import HeadOf, HeadTiles, packing
from quod.tensor.matmul.mma_fragments import QUAD, lane_of

Values = tuple[Value, ...]
Pair = tuple[HeadOf, HeadOf]

_NEVER = 1e38
"""A base-2 logarithm of a sum that makes every weight 0."""


class _Gradients:
    """Two operands of own rows, 64 to a warpgroup, and two operands of streamed lines."""

    def __init__(
        self, k: Builder, element: Type, plan: WarpgroupGradientPlan, held: Pair, passing: Pair,
        first: Value, factor: Value,
    ) -> None:  # fmt: skip
        self._k, self._element, self._plan = k, element, plan
        self._first, self._factor = first, factor
        rows, self._lines = plan.tile
        for head in (*held, *passing):
            k.tensor_map_acquire(head.array.tensor_map)
        self._own = [HeadTiles(k, plan.size, each, rows, 1) for each in held]
        self._passing = [
            HeadTiles(k, plan.size, each, self._lines, plan.stages) for each in passing
        ]
        # Shuffled from the first instance, so that the assembler sees that it is uniform in a
        # subgroup.
        self._down = k.shuffle(k.local_id() >> 7, k.constant(0, u32)) * MATRIX_ROWS
        self.row = first + self._down + ((k.local_id() >> 5 & 3) * 16 + (lane_of(k) >> 2))
        """The first of this instance's two rows; the second is row + 8."""
        self.beside = (lane_of(k) & (QUAD - 1)) * 2
        """The first of the instance's lines, of which it has two in every eight."""

    @property
    def sums(self) -> Values:
        """Initial sums over lines: zeros."""
        return (self._k.constant(0.0, f32),) * (self._plan.size // 2)

    def begin(self, place: Callable[[Value], tuple[Value, Value]], steps: Value) -> None:
        """Start the copies of own rows and the first tiles, and wait for the own rows.

        `place(step)` returns the head and the first line of a step.
        """
        for tiles in self._own:
            tiles.copy(self._first, 0)
        for number in range(self._plan.stages - 1):
            self.copy(place, self._k.constant(number, u32), steps)
        self._k.barrier()
        for tiles in self._own:
            tiles.wait(0, 0)

    def copy(
        self, place: Callable[[Value], tuple[Value, Value]], step: Value, steps: Value
    ) -> None:
        """Start the copies of a step's tiles, if there is such a step."""
        stage = step & (self._plan.stages - 1)
        with self._k.if_(step < steps):
            head, line = place(step)
            for tiles in self._passing:
                tiles.copy(line, stage, head)

    def products(self, which: int, step: Value) -> Values:
        """Start the products of own rows and streamed lines of operand `which`."""
        k, plan = self._k, self._plan
        tiles = self._passing[which]
        stage = step & (plan.stages - 1)
        tiles.wait(stage, step >> (plan.stages.bit_length() - 1))
        k.mma_begin()
        products: Values = (k.constant(0.0, f32),) * (self._lines // 2)
        for at in range(plan.size // MATRIX_DEPTH):
            matrix = self._own[which].rows(0, at, self._down)
            products = k.mma_tiles(self._element, matrix, tiles.rows(stage, at), products)
        k.mma_commit()
        return products

    def add(
        self, weights: Sequence[Value], which: int, step: Value, sums: Sequence[Value]
    ) -> Values:
        """Start adding weights times the streamed lines of operand `which` to sums."""
        k, pack = self._k, packing(self._k, self._element)
        stage, totals = step & (self._plan.stages - 1), tuple(sums)
        words = [pack(*weights[at : at + 2]) for at in range(0, len(weights), 2)]
        k.mma_begin()
        for at in range(self._lines // MATRIX_DEPTH):
            right = self._passing[which].columns(stage, at)
            totals = k.mma_rows(self._element, words[4 * at : 4 * at + 4], right, totals)
        k.mma_commit()
        return totals

    def weights(self, logits: Sequence[Value], logs: Callable[[int], Value]) -> list[Value]:
        """Return the weights of logits, given the base-2 logarithm of each logit's sum."""
        k = self._k
        return [
            k.exp2(k.fma(logit, self._factor, -logs(at)), normal=True)
            for at, logit in enumerate(logits)
        ]

    def where(
        self, some: Value, inside: Callable[[int], Value], weights: Sequence[Value]
    ) -> Sequence[Value]:
        """Return weights, with 0 where `inside` is false; `some` is true if any may be."""
        k, zero = self._k, self._k.constant(0.0, f32)
        with k.if_(some) as partly:
            partly.give([k.select(inside(at), weight, zero) for at, weight in enumerate(weights)])
        with partly.otherwise():
            partly.give(list(weights))
        masked: Sequence[Value] = partly.results
        return masked


def _row(at: int) -> int:
    """Return which of an instance's two rows a value belongs to."""
    return at // 2 % 2


def _line(at: int) -> int:
    """Return the line of a value, relative to the instance's first line."""
    return at // 4 * 8 + at % 2


def of_queries(
    k: Builder, element: Type, plan: WarpgroupGradientPlan, held: Pair, passing: Pair, first: Value,
    count: Value, seen: Callable[[Value], Value], numbers: Callable[[Value], tuple[Value, Value]],
    factor: Value,
) -> tuple[Value, Values]:  # fmt: skip
    """Return the instance's first row, and sums of ds k.

    held: q and dy, of `count` queries.
    passing: Keys and values, as many as the last query sees.
    numbers: For a query, the base-2 logarithm of its sum, and sum(dy * y).
    """
    work = _Gradients(k, element, plan, held, passing, first, factor)
    lines, last = plan.lines, count - 1
    stop = seen(k.minimum(first + (plan.tile[0] - 1), last))
    steps = (stop + (lines - 1)) // lines

    def place(step: Value) -> tuple[Value, Value]:
        return passing[0].head, step * lines

    work.begin(place, steps)
    of_rows = [numbers(k.minimum(work.row + below, last)) for below in (0, 8)]
    counts = [seen(work.row + below) for below in (0, 8)]
    seen_by_all = seen(first)
    with k.range(k.constant(0, u32), steps, carry=list(work.sums)) as loop:
        step, sums = loop.index, tuple(loop.carried)
        logits, slopes = work.products(0, step), work.products(1, step)
        # This also completes the previous step's sums, so after the barrier its tiles are free.
        logits = k.mma_wait(1, logits)
        k.barrier()
        work.copy(place, step + (plan.stages - 1), steps)
        weights = work.weights(logits, lambda at: of_rows[_row(at)][0])
        at_line = step * lines + work.beside
        weights_ = work.where(
            (step + 1) * lines > seen_by_all,
            lambda at: at_line + _line(at) < counts[_row(at)],
            weights,
        )
        slopes = k.mma_wait(0, slopes)
        changes = [
            weight * (slope - of_rows[_row(at)][1])
            for at, (weight, slope) in enumerate(zip(weights_, slopes, strict=True))
        ]
        loop.next(list(work.add(changes, 0, step, sums)))
    return work.row, k.mma_wait(0, loop.results)


@frozen(eq=False)
class QueryRange:
    """The queries that see some keys.

    head: The first head of queries.
    heads: The heads of queries that share the keys.
    begin: The first query of a head that sees any of the keys.
    queries: The queries of a head.
    keys: The keys of the sequence.
    """

    head: Value
    heads: Value
    begin: Value
    queries: Value
    keys: Value


def of_keys(
    k: Builder, element: Type, plan: WarpgroupGradientPlan, held: Pair, passing: Pair, first: Value,
    span: QueryRange, seen: Callable[[Value], Value] | None,
    numbers: Callable[[Value, Value], tuple[Value, Value]], factor: Value,
) -> tuple[Value, Values, Values]:  # fmt: skip
    """Return the instance's first row, and sums of ds^T q and p^T dy.

    held: Keys and values.
    passing: q and dy, with the heads that share the keys one after the other.
    seen: The number of keys that a query sees; None if all queries see all keys.
    numbers: For a head and a query, the base-2 logarithm of its sum, and sum(dy * y).
    """
    work = _Gradients(k, element, plan, held, passing, first, factor)
    rows, lines = plan.tile
    tiles = (span.queries - span.begin + (lines - 1)) // lines
    divisor = k.maximum(tiles, 1)
    steps = tiles * span.heads

    def place(step: Value) -> tuple[Value, Value]:
        return span.head + step // divisor, span.begin + step % divisor * lines

    # The numbers of the queries of a step and of the next one; each instance loads one of them.
    of_lines = k.shared(f32, 2 * 2 * lines)
    own_line = k.local_id() & (lines - 1)

    def fetched(step: Value) -> Value:
        head, line = place(step)
        query = line + own_line
        log, product = numbers(head, k.minimum(query, span.queries - 1))
        log = k.select(query < span.queries, log, k.constant(_NEVER, f32))
        return k.select(k.local_id() < lines, log, product)

    def put(step: Value, value: Value) -> None:
        with k.if_(k.local_id() < 2 * lines):
            of_lines[(step & 1) * (2 * lines) + k.local_id()] = value

    work.begin(place, steps)
    start = k.constant(0, u32)
    with k.if_(steps > 0):
        put(start, fetched(start))
    with k.range(start, steps, carry=(list(work.sums), list(work.sums))) as loop:
        step = loop.index
        of_k, of_v = loop.carried
        logits, slopes = work.products(0, step), work.products(1, step)
        following = fetched(k.minimum(step + 1, steps - 1))
        # This also completes the previous step's sums, so after the barrier its tiles are free.
        logits = k.mma_wait(1, logits)
        k.barrier()
        work.copy(place, step + (plan.stages - 1), steps)
        own_numbers = (step & 1) * (2 * lines) + work.beside
        logs = [k.load(of_lines, own_numbers + block * 8, 2) for block in range(lines // 8)]
        weights: Sequence[Value] = work.weights(logits, lambda at: logs[at // 4][at % 2])
        if seen is not None:
            query = place(step)[1]
            weights = work.where(
                seen(query) < k.minimum(first + rows, span.keys),
                _inside(work, seen, query),
                weights,
            )
        of_v = work.add(weights, 1, step, of_v)
        slopes = k.mma_wait(1, slopes)
        products = [
            k.load(of_lines, own_numbers + (lines + block * 8), 2) for block in range(lines // 8)
        ]
        changes = [
            weight * (slope - products[at // 4][at % 2])
            for at, (weight, slope) in enumerate(zip(weights, slopes, strict=True))
        ]
        of_k = work.add(changes, 0, step, of_k)
        put(step + 1, following)
        loop.next((list(of_k), list(of_v)))
    of_k, of_v = loop.results
    totals = k.mma_wait(0, [*of_k, *of_v])
    return work.row, totals[: len(of_k)], totals[len(of_k) :]


def _inside(
    work: _Gradients, seen: Callable[[Value], Value], query: Value
) -> Callable[[int], Value]:
    """Return a function that is true if the query of a value sees the key of its row."""

    def inside(at: int) -> Value:
        return work.row + 8 * _row(at) < seen(query + work.beside + _line(at))

    return inside

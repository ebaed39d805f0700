"""Gradients of attention on tensor cores, with lines streamed through a ring of tiles.

For the gradient of queries, the workgroup's own rows are queries, and keys are streamed; for those
of keys and values it is the reverse. Products of rows and lines stay in registers as the first
factors of the next products, as in `flash_attention.tensor_cores`.
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
"""The base-2 logarithm of a query's sum, and its sum(dy * y)."""


class _Gradients:
    """Two operands of own rows, 16 to a subgroup, and two operands of streamed lines."""

    def __init__(
        self, k: Builder, element: Type, plan: CoreTilePlan, held: Sequence[HeadMatrix],
        passing: Sequence[HeadMatrix], first: Value, factor: Value,
    ) -> None:  # fmt: skip
        self._k, self._element, self._plan = k, element, plan
        self._first, self._factor = first, factor
        self._down = k.subgroup_id() * MATRIX
        rows, self._lines = plan.tile
        self._own = [Tiles(k, each, plan, rows, 1) for each in held]
        self._passing = [Tiles(k, each, plan, self._lines, plan.stages) for each in passing]
        self._of_rows = self._own[0].left(self._down)
        self._of_lines = self._passing[0].right()
        self._of_turned = self._passing[0].left(k.constant(0, u32))
        self._depth = plan.size // MATRIX

    @property
    def row(self) -> Value:
        """The first of this instance's two rows; the second is row + 8."""
        return self._first + self._down + (self._k.lane_id() >> 2)

    @property
    def zeros(self) -> Blocks:
        """Initial sums over lines: zeros."""
        return [(self._k.constant(0.0, f32),) * 4] * (2 * self._depth)

    def begin(self, line: Callable[[Value], Value]) -> None:
        """Start the copies of own rows and of the first tiles; a step's begins at `line(step)`."""
        self._k.resident_workgroups(self._plan.resident)
        for tiles in self._own:
            tiles.copy(self._first, 0)
        for step in range(self._plan.stages - 1):
            self._copy(line, self._k.constant(step, u32))

    def _copy(self, line: Callable[[Value], Value], step: Value) -> None:
        stage = step & (self._plan.stages - 1)
        for tiles in self._passing:
            tiles.copy(line(step), stage)
        self._k.copy_async_commit()

    def arrive(self, line: Callable[[Value], Value], step: Value) -> Value:
        """Wait for a step's tile, start the copy of a later one, and return the tile's stage."""
        self._k.copy_async_wait(self._plan.stages - 2)
        self._k.barrier()
        self._copy(line, step + (self._plan.stages - 1))
        return step & (self._plan.stages - 1)

    def products(self, which: int, stage: Value) -> Blocks:
        """Multiply the own rows of operand `which` with the streamed lines of operand `which`."""
        blocks: Blocks = [(self._k.constant(0.0, f32),) * 4] * (self._lines // 8)
        for at in range(self._depth):
            left = self._own[which].matrices(self._of_rows, 0, at, 0)
            for number in range(self._lines // MATRIX):
                right = self._passing[which].matrices(self._of_lines, stage, at, number)
                self._multiply(left, right, blocks, 2 * number)
        return blocks

    def add(self, weights: Blocks, which: int, stage: Value, sums: Blocks) -> Blocks:
        """Return sums plus weights times the streamed lines of operand `which`."""
        pack = self._k.pack_f16 if self._element is f16 else self._k.pack_bf16
        totals = list(sums)
        for number in range(self._lines // MATRIX):
            words: Values = tuple(
                pack(*weights[2 * number + word // 2][word % 2 * 2 :][:2]) for word in range(4)
            )
            for at in range(self._depth):
                tiles = self._passing[which]
                right = tiles.matrices(self._of_turned, stage, at, number, turned=True)
                self._multiply(words, right, totals, 2 * at)
        return totals

    def _multiply(self, left: Values, right: Values, sums: Blocks, place: int) -> None:
        for half in range(2):
            column_pair = right[2 * half :][:2]
            sums[place + half] = self._k.mma(self._element, left, column_pair, sums[place + half])

    def line(self, block: int, number: int) -> Value:
        """Return the line, within the tile, of a number of a fragment."""
        return (self._k.lane_id() & 3) * 2 + (block * 8 + number % 2)

    def weight(self, logit: Value, log: Value) -> Value:
        """Return the softmax weight of a logit: 2**(logit * factor - log)."""
        return self._k.exp2(self._k.fma(logit, self._factor, -log), normal=True)


def of_queries(
    k: Builder, element: Type, plan: CoreTilePlan, held: Sequence[HeadMatrix],
    passing: Sequence[HeadMatrix], first: Value, seen: Callable[[Value], Value], numbers: Numbers,
    factor: Value,
) -> tuple[Value, Blocks]:  # fmt: skip
    """Return the instance's first row, and sums of ds k.

    held: q and dy.
    passing: Keys and values, as many as the last query sees.
    """
    work = _Gradients(k, element, plan, held, passing, first, factor)
    zero, start = k.constant(0.0, f32), k.constant(0, u32)
    last = held[0].count - 1
    work.begin(lambda step: step * plan.keys)
    of_rows = [numbers(k.minimum(work.row + below, last)) for below in (0, 8)]

    def step(number: Value, sums: Blocks, *, masked: bool) -> Blocks:
        stage = work.arrive(lambda step: step * plan.keys, number)
        logits, slopes = work.products(0, stage), work.products(1, stage)
        counts = [seen(work.row + below) for below in (0, 8)] if masked else []
        changes: Blocks = []
        for block, pair in enumerate(zip(logits, slopes, strict=True)):
            block_changes = []
            for at, (logit, slope) in enumerate(zip(*pair, strict=True)):
                log, product = of_rows[at // 2]
                change = work.weight(logit, log) * (slope - product)
                if masked:
                    inside = number * plan.keys + work.line(block, at) < counts[at // 2]
                    change = k.select(inside, change, zero)
                block_changes.append(change)
            changes.append(tuple(block_changes))
        return work.add(changes, 0, stage, sums)

    def loop(begin: Value, end: Value, sums: Blocks, *, masked: bool) -> Blocks:
        with k.range(begin, end, carry=sums) as steps:
            steps.next(step(steps.index, steps.carried, masked=masked))
        return list(steps.results)

    unmasked_steps = seen(first) // plan.keys
    sums = loop(start, unmasked_steps, work.zeros, masked=False)
    steps = (passing[0].count + (plan.keys - 1)) // plan.keys
    return work.row, loop(unmasked_steps, steps, sums, masked=True)


def of_keys(
    k: Builder, element: Type, plan: CoreTilePlan, held: Sequence[HeadMatrix],
    passing: Sequence[HeadMatrix], first: Value, seen: Callable[[Value], Value], numbers: Numbers,
    factor: Value, span: tuple[Value, Value],
) -> tuple[Value, Blocks, Blocks]:  # fmt: skip
    """Return the instance's first row, and sums of ds^T q and p^T dy.

    held: Keys and values.
    passing: q and dy, with the heads that share the keys one after the other.
    span: The first query of a head that sees any of the keys, and the number of queries of a head.
    """
    work = _Gradients(k, element, plan, held, passing, first, factor)
    begin, queries = span
    zero, count = k.constant(0.0, f32), passing[0].count
    tiles = (queries - begin + (plan.keys - 1)) // plan.keys
    divisor = k.maximum(tiles, 1)
    heads = count // k.maximum(queries, 1)

    def query(step: Value) -> Value:
        return begin + step % divisor * plan.keys

    def line(step: Value) -> Value:
        return step // divisor * queries + query(step)

    work.begin(line)
    rows = [work.row + below for below in (0, 8)]
    with k.range(k.constant(0, u32), tiles * heads, carry=(work.zeros, work.zeros)) as steps:
        stage = work.arrive(line, steps.index)
        logits, slopes = work.products(0, stage), work.products(1, stage)
        weights: Blocks = []
        changes: Blocks = []
        for block, pair in enumerate(zip(logits, slopes, strict=True)):
            places = [work.line(block, at) for at in range(2)]
            query_indices = [query(steps.index) + place for place in places]
            sees = [k.select(each < queries, seen(each), 0) for each in query_indices]
            of_lines = [
                numbers(k.minimum(line(steps.index) + place, count - 1)) for place in places
            ]
            block_weights, changed = [], []
            for at, (logit, slope) in enumerate(zip(*pair, strict=True)):
                log, product = of_lines[at % 2]
                inside = rows[at // 2] < sees[at % 2]
                block_weights.append(k.select(inside, work.weight(logit, log), zero))
                changed.append(block_weights[-1] * (slope - product))
            weights.append(tuple(block_weights))
            changes.append(tuple(changed))
        of_k, of_v = steps.carried
        steps.next((work.add(changes, 0, stage, of_k), work.add(weights, 1, stage, of_v)))
    of_k, of_v = steps.results
    return rows[0], of_k, of_v

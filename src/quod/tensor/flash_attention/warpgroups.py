"""Attention by warpgroups: one warpgroup copies tiles by the TMA unit, the others multiply.

Within a warpgroup, the exponentials of one tile of keys overlap with the product of the previous
tile's weights and values. The multiplying warpgroups do not wait for each other. Source: Shah et
al., "FlashAttention-3" (2024), algorithms 1 and 2. A running maximum is raised only if a logit
exceeds it by a threshold, as in FlashAttention-4.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any, NamedTuple

from quod.frozen import frozen
from quod.kernel import Builder, Value, f16, f32, i32, u32, u64
from quod.kernel.builder.tiles import TiledArray, TileOperand
from quod.kernel.ir.types import Type
from quod.kernel.ops.tile import (
    LINE,
    LOG2_WARPGROUP,
    MATRIX_DEPTH,
    MATRIX_ROWS,
    SUBGROUP,
    WARPGROUP,
)
from quod.tensor.flash_attention.plan import WarpgroupPlan
from quod.tensor.matmul.mma_fragments import QUAD, lane_of, transposed
from quod.tensor.rows.exponentials import LEAST

Values = tuple[Value, ...]

_WORDS = LINE // 4
"""Words of a line of shared memory."""
_SLAB = LINE // 2
"""Elements of a line of shared memory; a head has one or two slabs of such lines."""
STAGES = 2
"""Tiles of keys, and of values, in shared memory."""
_SUBGROUPS_PER_WARPGROUP = WARPGROUP // SUBGROUP
_RAISE_THRESHOLD = 8.0
"""A logit, to base 2, may exceed the running maximum by so much before the maximum is raised."""
_PARTIAL_MAXIMA = 4
"""Maxima that are computed independently, so that their latencies overlap."""


@frozen(eq=False)
class HeadOf:
    """A head of a tensor: the tiled array of all heads, and the index of the head."""

    array: TiledArray
    head: Value


@frozen(eq=False)
class SoftmaxState:
    """The online softmax of an instance's two queries.

    maxima: The running maxima of logits.
    denominators: The sums of weights.
    value_sums: The sums of weighted values, in the layout of the accumulator.
    """

    maxima: list[Value]
    denominators: list[Value]
    value_sums: list[Value]


class Scaling(NamedTuple):
    """The scaling of sums after a running maximum was raised.

    is_raised: Whether the maximum of one of the instance's queries was raised.
    scales: The factors of both queries, 1 if a maximum was not raised.
    """

    is_raised: Value
    scales: Sequence[Value]


class HeadTiles:
    """A ring of `stages` tiles of a head, each of `lines` lines in slabs of 64 elements.

    releasing_subgroups: The number of subgroups that must release a stage before it is free; 0 if
        barriers order the copies.
    """

    def __init__(
        self,
        k: Builder,
        size: int,
        source: HeadOf,
        lines: int,
        stages: int,
        releasing_subgroups: int = 0,
    ) -> None:
        self._k, self._source, self._lines = k, source, lines
        self._slab = lines * _WORDS
        self._count = size // _SLAB
        self._size = self._slab * self._count
        self._buffer = k.shared(u32, self._size * stages, alignment=8 * LINE)
        self._copy_barrier = k.shared(u64, stages)
        for stage in range(stages):
            k.mbarrier_init(self._copy_barrier, stage)
        if releasing_subgroups:
            self._read_barrier = k.shared(u64, stages)
            for stage in range(stages):
                k.mbarrier_init(self._read_barrier, stage, releasing_subgroups)

    def copy(self, first_line: Value, stage: Value | int, head: Value | None = None) -> None:
        """Start the copy of the lines from `first_line` to a stage; `head` overrides the head."""
        k, stage_index = self._k, self._k.operand(stage, u32)
        head = self._source.head if head is None else head
        k.mbarrier_expect(self._copy_barrier, stage_index, 4 * self._size)
        for slab in range(self._count):
            coordinates = (slab * _SLAB, first_line, head)
            target = stage_index * self._size + slab * self._slab
            k.copy_tile(
                self._buffer,
                target,
                (self._copy_barrier, stage_index),
                self._source.array,
                coordinates,
                self._lines,
            )

    def wait(self, stage: Value | int, phase: Value | int) -> None:
        self._k.mbarrier_wait(self._copy_barrier, stage, phase)

    def release(self, stage: Value | int) -> None:
        """Report that this subgroup has read a stage."""
        self._k.mbarrier_arrive(self._read_barrier, stage)

    def wait_until_read(self, stage: Value | int, phase: Value) -> None:
        """Wait until all subgroups that read a stage have released it.

        In phase 0, before any copy, the call does not wait.
        """
        self._k.mbarrier_wait(self._read_barrier, stage, phase ^ 1)

    def rows(
        self, stage: Value | int, depth_index: int, first_line: Value | int = 0
    ) -> TileOperand:
        """Return the operand whose rows are the lines from `first_line`; 16 elements are summed."""
        slab, offset_in_slab = divmod(depth_index * MATRIX_DEPTH, _SLAB)
        word_offset = first_line * _WORDS + (slab * self._slab + offset_in_slab // 2)
        return TileOperand(self._buffer, self._k.operand(stage, u32) * self._size + word_offset)

    def columns(self, stage: Value, depth_index: int) -> TileOperand:
        """Return the operand whose columns are the elements of a head; 16 lines are summed."""
        word_offset = stage * self._size + depth_index * MATRIX_DEPTH * _WORDS
        return TileOperand(self._buffer, word_offset, True, self._slab)


class WarpgroupAttention:
    """The attention of one tile of queries, 64 queries to a multiplying warpgroup."""

    def __init__(
        self, k: Builder, element: Type, plan: WarpgroupPlan, heads: tuple[HeadOf, HeadOf, HeadOf],
        first_query: Value, seen: Callable[[Value], Value], count: Value, factor: Value,
    ) -> None:  # fmt: skip
        """Allocate the tiles of a workgroup in shared memory.

        heads: The heads of queries, keys and values.
        first_query: The first query of the tile.
        seen: Returns the number of keys that a query sees.
        count: The number of keys that the last query sees; memory has at least one key.
        factor: scale * log2(e).
        """
        self._k, self._element, self._plan, self._factor = k, element, plan, factor
        self._first, self._seen, self._count = first_query, seen, count
        rows, keys = plan.tile
        of_q, of_keys, of_values = self._heads = heads
        releasing_subgroups = plan.warpgroups * _SUBGROUPS_PER_WARPGROUP
        self._queries = HeadTiles(k, plan.size, of_q, rows, 1)
        self._keys = HeadTiles(k, plan.size, of_keys, keys, STAGES, releasing_subgroups)
        self._values = HeadTiles(k, plan.size, of_values, keys, STAGES, releasing_subgroups)
        # The first warpgroup copies; its index wraps and is not used. Shuffled from the first
        # instance, so that the assembler sees that it is uniform in a subgroup.
        warpgroup = (k.local_id() >> LOG2_WARPGROUP) - 1
        self._warpgroup_row = k.shuffle(warpgroup, k.constant(0, u32)) * MATRIX_ROWS
        # Each of the four subgroups has 16 rows; four adjacent lanes share a row.
        self.row = (
            first_query + self._warpgroup_row + ((k.local_id() >> 5 & 3) * 16 + (lane_of(k) >> 2))
        )
        """The first of this instance's two queries; the second is row + 8."""

    def attend(self, finish: Callable[[SoftmaxState], None]) -> None:
        """Let the first warpgroup copy, and the others multiply and call `finish`.

        The state's maxima are multiplied by the factor; they are -3.4e38 for a query that sees no
        key.
        """
        k, tile_count = self._k, self._tile_count()
        k.barrier()
        with k.if_(k.subgroup_id() < _SUBGROUPS_PER_WARPGROUP) as copies:
            k.registers(self._plan.registers[0])
            with k.if_(k.subgroup_id() == 0):
                self._copy_all(tile_count)
        with copies.otherwise():
            k.registers(self._plan.registers[1])
            finish(self._multiply(tile_count))

    def _tile_count(self) -> Value:
        """Return the number of tiles of keys, at least one; weights are zero if no key is seen."""
        k, keys = self._k, self._plan.keys
        return k.maximum((self._count + (keys - 1)) // keys, k.constant(1, u32))

    def _first_masked_step(self, last_tile: Value) -> Value:
        """Return the first step after step 0, which is always masked, whose tile needs a mask.

        It is at most `last_tile`, or 1 if there is only one tile.
        """
        k = self._k
        seen = self._seen(self._first) // self._plan.keys
        return k.maximum(k.minimum(seen, last_tile), k.constant(1, u32))

    # --- copies

    def _copy_all(self, tile_count: Value) -> None:
        """Copy the queries, then tiles of keys and values as stages become free.

        The values of a tile are copied after the keys of the next tile.
        """
        k = self._k
        for head in self._heads:
            k.tensor_map_acquire(head.array.tensor_map)
        self._queries.copy(self._first, 0)
        self._copy_tile(self._keys, k.constant(0, u32))
        with k.range(1, tile_count) as loop:
            self._copy_tile(self._keys, loop.index)
            self._copy_tile(self._values, loop.index - 1)
        self._copy_tile(self._values, tile_count - 1)

    def _copy_tile(self, tiles: HeadTiles, step: Value) -> None:
        stage = step & (STAGES - 1)
        tiles.wait_until_read(stage, step >> 1)
        tiles.copy(step * self._plan.keys, stage)

    # --- products

    def _multiply(self, tile_count: Value) -> SoftmaxState:
        """Process all tiles of keys in a multiplying warpgroup; return its softmax state."""
        k = self._k
        least, zero = k.constant(LEAST, f32), k.constant(0.0, f32)
        last_tile = tile_count - 1
        self._queries.wait(0, 0)
        first_tile = k.constant(0, u32)
        logits = k.mma_wait(0, self._start_logits(first_tile))
        self._keys.release(first_tile)
        state = SoftmaxState([least] * 2, [zero] * 2, [zero] * (self._plan.size // 2))
        weights, new_state, _ = self._softmax_weights(logits, first_tile, state, masked=True)
        carried: Any = (weights, new_state.maxima, new_state.denominators, state.value_sums)
        carried = self._steps(
            k.constant(1, u32), self._first_masked_step(last_tile), carried, masked=False
        )
        carried = self._steps(self._first_masked_step(last_tile), tile_count, carried, masked=True)
        weights, maxima, denominators, value_sums = carried
        value_sums = k.mma_wait(0, self._start_value_products(last_tile, weights, value_sums))
        return self._combine_lanes_of_row(maxima, denominators, value_sums)

    def _steps(self, first_step: Value, end_step: Value, carried: Any, *, masked: bool) -> Any:
        """Process the steps from `first_step` to `end_step` - 1.

        carried: The weights of the previous tile, the running maxima, the denominators, and the
            value sums without that tile.
        """
        k = self._k
        with k.range(first_step, end_step, carry=carried) as loop:
            (weights, maxima, denominators, value_sums), step = loop.carried, loop.index
            logits = self._start_logits(step)
            value_sums = self._start_value_products(step - 1, weights, value_sums)
            logits = k.mma_wait(1, logits)
            self._keys.release(step & (STAGES - 1))
            weights, new_state, scaling = self._softmax_weights(
                logits, step, SoftmaxState(maxima, denominators, []), masked=masked
            )
            value_sums = k.mma_wait(0, value_sums)
            self._values.release((step - 1) & (STAGES - 1))
            loop.next((
                weights, new_state.maxima, new_state.denominators,
                self._rescaled(value_sums, scaling),
            ))  # fmt: skip
        return loop.results

    def _combine_lanes_of_row(
        self, maxima: Sequence[Value], denominators: Sequence[Value], value_sums: Sequence[Value]
    ) -> SoftmaxState:
        """Sum the denominators of the four lanes that share queries, and scale the maxima."""
        k, least = self._k, self._k.constant(LEAST, f32)
        for distance in (1, 2):
            denominators = [
                denominator + k.shuffle(denominator, lane_of(k) ^ distance)
                for denominator in denominators
            ]
        maxima = [k.select(maximum == LEAST, least, maximum * self._factor) for maximum in maxima]
        return SoftmaxState(list(maxima), list(denominators), list(value_sums))

    def _start_logits(self, step: Value) -> Values:
        """Start the product of the queries and a tile of keys, which gives the logits."""
        k, stage = self._k, step & (STAGES - 1)
        self._keys.wait(stage, step >> 1)
        k.mma_begin()
        sums: Values = (k.constant(0.0, f32),) * (self._plan.keys // 2)
        for depth_index in range(self._plan.size // MATRIX_DEPTH):
            query_matrix = self._queries.rows(0, depth_index, self._warpgroup_row)
            sums = k.mma_tiles(
                self._element, query_matrix, self._keys.rows(stage, depth_index), sums
            )
        k.mma_commit()
        return sums

    def _start_value_products(
        self, step: Value, weights: list[Values], value_sums: Sequence[Value]
    ) -> Values:
        """Start the product of the weights and the values of a tile, added to `value_sums`."""
        k, stage = self._k, step & (STAGES - 1)
        self._values.wait(stage, step >> 1)
        k.mma_begin()
        totals = tuple(value_sums)
        for depth_index, tile_weights in enumerate(weights):
            totals = k.mma_rows(
                self._element, tile_weights, self._values.columns(stage, depth_index), totals
            )
        k.mma_commit()
        return totals

    def _softmax_weights(
        self, logits: Sequence[Value], step: Value, state: SoftmaxState, *, masked: bool
    ) -> tuple[list[Values], SoftmaxState, Scaling]:
        """Return weights packed as a left factor, the new state, and the scaling of earlier sums.

        Maxima are not multiplied by the factor; a weight is 2 ** ((x - maximum) * factor), at most
        2 ** _RAISE_THRESHOLD.
        """
        k, factor, zero = self._k, self._factor, self._k.constant(0.0, f32)
        halves = [
            [value for index, value in enumerate(logits) if index // 2 % 2 == row_half]
            for row_half in range(2)
        ]
        if masked:
            halves = [self._masked(row_half, half, step) for row_half, half in enumerate(halves)]
        raised = [
            self._raised(half, maximum) for half, maximum in zip(halves, state.maxima, strict=True)
        ]
        maxima = [maximum for maximum, _ in raised]
        powers: list[list[Value]] = []
        denominators, scales = [], []
        for half, old, maximum, denominator in zip(
            halves, state.maxima, maxima, state.denominators, strict=True
        ):
            scaled_maximum = maximum * factor
            if masked:
                scaled_maximum = k.select(maximum == LEAST, zero, scaled_maximum)
            # Exactly 1 if the maximum was not raised, as value sums are not scaled then.
            scale = k.exp2((old - maximum) * factor, flush_subnormals=True)
            weights = [
                k.exp2(k.fma(value, factor, -scaled_maximum), flush_subnormals=True)
                for value in half
            ]
            if masked:
                # Masked keys have weight 0, however small the factor is; NaN stays NaN.
                weights = [
                    k.select(value == LEAST, zero, power)
                    for value, power in zip(half, weights, strict=True)
                ]
            powers.append(weights)
            scales.append(scale)
            denominators.append(reduce(operator.add, weights, denominator * scale))
        pack = packing(k, self._element)
        # The four words of a left factor are two rows, of eight keys and of the next eight.
        packed_weights: list[Values] = [
            tuple(pack(*powers[word % 2][index * 4 + word // 2 * 2 :][:2]) for word in range(4))
            for index in range(self._plan.keys // MATRIX_DEPTH)
        ]
        new_state = SoftmaxState(maxima, denominators, state.value_sums)
        return packed_weights, new_state, Scaling(raised[0][1] | raised[1][1], scales)

    def _masked(self, row_half: int, logits: Sequence[Value], step: Value) -> list[Value]:
        """Replace the logits of keys that a query does not see by LEAST."""
        k, least = self._k, self._k.constant(LEAST, f32)
        first_key = step * self._plan.keys + (lane_of(k) & (QUAD - 1)) * 2
        visible = self._seen(self.row + 8 * row_half).cast(i32) - first_key.cast(i32)
        return [
            k.select(visible > index // 2 * 8 + index % 2, value, least)
            for index, value in enumerate(logits)
        ]

    def _raised(self, logits: Sequence[Value], maximum: Value) -> tuple[Value, Value]:
        """Return the running maximum, and whether it was raised."""
        k = self._k
        partial_maxima = [
            reduce(k.maximum, logits[first::_PARTIAL_MAXIMA], maximum)
            for first in range(_PARTIAL_MAXIMA)
        ]
        new_maximum = reduce(k.maximum, partial_maxima)
        for distance in (1, 2):
            new_maximum = k.maximum(new_maximum, k.shuffle(new_maximum, lane_of(k) ^ distance))
        # Before the first key that a query sees, the maximum is LEAST, however small the factor.
        exceeds = (new_maximum - maximum) * self._factor > _RAISE_THRESHOLD
        exceeds = exceeds | (maximum == LEAST)
        return k.select(exceeds, new_maximum, maximum), exceeds

    def _rescaled(self, value_sums: Sequence[Value], scaling: Scaling) -> list[Value]:
        """Scale value sums in subgroups of which a maximum was raised."""
        k = self._k
        with k.if_(k.any_lane(scaling.is_raised)) as branch:
            branch.yield_([
                value * scaling.scales[index // 2 % 2] for index, value in enumerate(value_sums)
            ])  # fmt: skip
        with branch.otherwise():
            branch.yield_(list(value_sums))
        return list(branch.results)

    def store(
        self, out: Value, queries: Value, state: SoftmaxState, inverses: Sequence[Value]
    ) -> None:
        """Store the rows of a head, each times a factor."""
        store_rows(self._k, self._element, out, (self.row, queries), state.value_sums, inverses)


def packing(k: Builder, element: Type) -> Callable[[Value, Value], Value]:
    """Return the function that packs two elements in a word."""
    return k.pack_f16 if element is f16 else k.pack_bf16


def store_rows(
    k: Builder, element: Type, out: Value, rows: tuple[Value, Value], sums: Sequence[Value],
    factors: Sequence[Value],
) -> None:  # fmt: skip
    """Store an instance's two rows of a head, each times a factor.

    rows: The instance's first row, the second being 8 further, and the number of rows.
    sums: The instance's accumulators of a product.
    """
    first_row, count = rows
    pack, lane = packing(k, element), lane_of(k)
    target, width = out.cast(u32), len(sums)
    for row_half, factor in enumerate(factors):
        row = first_row + 8 * row_half
        words = [
            pack(*[value * factor for value in sums[index : index + 2]])
            for index in range(2 * row_half, len(sums), 4)
        ]
        blocks = [
            (start, transposed(k, words[start : start + QUAD]))
            for start in range(0, len(words), QUAD)
        ]
        with k.if_(row < count):
            line = k.pointer_add(target, row.cast(u64) * width)
            for start, transposed_words in blocks:
                k.store(line, ((lane & (QUAD - 1)) + start) * 4, *transposed_words)

"""Attention by warpgroups: tiles copied by the TMA unit, and products concurrent with exponentials.

While the weights of a tile of keys are computed, queries are multiplied with the next tile, and the
weights of the tile before with its values (after FlashAttention-3, Shah et al., 2024, but without
warps that only copy, and with products one tile further ahead).
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

from quod.frozen import frozen
from quod.kernel import Builder, Value, f16, f32, i32, u32, u64
from quod.kernel.builder.tiles import TiledArray, TileOperand
from quod.kernel.ir.types import Type
from quod.kernel.ops.tile import LINE, MATRIX_DEPTH, MATRIX_ROWS
from quod.tensor.flash_attention.plan import WarpgroupPlan
from quod.tensor.matmul.mma_fragments import QUAD, lane_of, transposed
from quod.tensor.rows.exponentials import LEAST

Values = tuple[Value, ...]

_WORDS = LINE // 4
"""Words of a line of shared memory."""
_SLAB = LINE // 2
"""Elements of a line of shared memory; a head has one or two slabs of such lines."""
STAGES = 2


@frozen(eq=False)
class HeadOf:
    """A head of a tensor: the tiled array of all heads, and the index of the head."""

    array: TiledArray
    head: Value


@frozen(eq=False)
class SoftmaxState:
    """The results of an instance's two queries.

    tops: The greatest products.
    totals: The totals of weights.
    sums: The sums of values, in the layout of the accumulator.
    """

    tops: list[Value]
    totals: list[Value]
    sums: list[Value]


class HeadTiles:
    """Tiles of lines of a head, in slabs of 64 elements.

    With `readers`, a stage is free after so many subgroups have released it.
    """

    def __init__(
        self, k: Builder, size: int, of: HeadOf, lines: int, stages: int, readers: int = 0
    ) -> None:
        self._k, self._of, self._lines = k, of, lines
        self._slab = lines * _WORDS
        self._count = size // _SLAB
        self._size = self._slab * self._count
        self._room = k.shared(u32, self._size * stages, alignment=8 * LINE)
        self._arrived = k.shared(u64, stages)
        for stage in range(stages):
            k.mbarrier_init(self._arrived, stage)
        if readers:
            self._read = k.shared(u64, stages)
            for stage in range(stages):
                k.mbarrier_init(self._read, stage, readers)

    def copy(self, first: Value, stage: Value | int, head: Value | None = None) -> None:
        """Start the copy of the lines from `first` on, of another `head` if given."""
        k, at = self._k, self._k.operand(stage, u32)
        head = self._of.head if head is None else head
        k.mbarrier_expect(self._arrived, at, 4 * self._size)
        for slab in range(self._count):
            place = (slab * _SLAB, first, head)
            to = at * self._size + slab * self._slab
            k.copy_tile(self._room, to, (self._arrived, at), self._of.array, place, self._lines)

    def wait(self, stage: Value | int, phase: Value | int) -> None:
        self._k.mbarrier_wait(self._arrived, stage, phase)

    def release(self, stage: Value | int) -> None:
        """Report that this subgroup has read a stage."""
        self._k.mbarrier_arrive(self._read, stage)

    def wait_until_read(self, stage: Value | int, phase: Value) -> None:
        """Wait until all readers have released a stage; phase 0, before any copy, does not wait."""
        self._k.mbarrier_wait(self._read, stage, phase ^ 1)

    def rows(self, stage: Value | int, at: int, first: Value | int = 0) -> TileOperand:
        """Return the operand of 16 elements, the summed dimension, of the lines from `first` on."""
        slab, within = divmod(at * MATRIX_DEPTH, _SLAB)
        place = first * _WORDS + (slab * self._slab + within // 2)
        return TileOperand(self._room, self._k.operand(stage, u32) * self._size + place)

    def columns(self, stage: Value, at: int) -> TileOperand:
        """Return the operand of 16 lines, the summed dimension, with all their elements."""
        place = stage * self._size + at * MATRIX_DEPTH * _WORDS
        return TileOperand(self._room, place, True, self._slab)


class WarpgroupAttention:
    """Some queries of a head and the keys that they see, 64 queries to a warpgroup."""

    readers = 0
    """Subgroups that release tiles after reading; 0 if barriers order copies."""

    def __init__(
        self, k: Builder, element: Type, plan: WarpgroupPlan, heads: tuple[HeadOf, HeadOf, HeadOf],
        first: Value, seen: Callable[[Value], Value], count: Value, factor: Value,
    ) -> None:  # fmt: skip
        """Allocate the tiles of a workgroup.

        heads: The heads of queries, keys and values.
        first: The first query.
        seen: The number of keys that a query sees.
        count: The number of keys that the last query sees; memory has at least one key.
        """
        self._k, self._element, self._plan, self._factor = k, element, plan, factor
        self._first, self._seen, self._count = first, seen, count
        rows, keys = plan.tile
        of_q, of_keys, of_values = self._heads = heads
        if not self.readers:
            self._acquire()
        self._queries = HeadTiles(k, plan.size, of_q, rows, 1)
        self._keys = HeadTiles(k, plan.size, of_keys, keys, STAGES, self.readers)
        self._values = HeadTiles(k, plan.size, of_values, keys, STAGES, self.readers)
        # Shuffled from the first instance, so that the assembler sees that it is uniform in a
        # subgroup.
        self._own = k.shuffle(self._warpgroup(), k.constant(0, u32)) * MATRIX_ROWS
        self.row = first + self._own + ((k.local_id() >> 5 & 3) * 16 + (lane_of(k) >> 2))
        """The first of this instance's two queries; the second is row + 8."""

    def _acquire(self) -> None:
        """Acquire the tensor maps for the instances that copy."""
        for head in self._heads:
            self._k.tensor_map_acquire(head.array.tensor_map)

    def _warpgroup(self) -> Value:
        """Return the index of this instance's warpgroup among those with queries."""
        return self._k.local_id() >> 7

    def attend(self, finish: Callable[[SoftmaxState], None]) -> None:
        """Compute the results, and call `finish` in the instances that have queries."""
        finish(self.run())

    def _tiles(self) -> Value:
        """Return the number of tiles of keys, at least one; weights are zero if no key is seen."""
        k, keys = self._k, self._plan.keys
        return k.maximum((self._count + (keys - 1)) // keys, k.constant(1, u32))

    def _whole(self, last: Value) -> Value:
        """Return the first tile, from 1 to `last`, that has keys which not all queries see."""
        k = self._k
        seen = self._seen(self._first) // self._plan.keys
        return k.maximum(k.minimum(seen, last), k.constant(1, u32))

    def run(self) -> SoftmaxState:
        """Return the results of all keys.

        The greatest products are times the factor, and -3.4e38 if no key was seen.
        """
        k, plan, tiles = self._k, self._plan, self._tiles()
        self._queries.copy(self._first, 0)
        for step in range(STAGES):
            self._copy(self._keys, k.constant(step, u32), tiles)
            self._copy(self._values, k.constant(step, u32), tiles)
        k.barrier()
        self._queries.wait(0, 0)
        least, zero = k.constant(LEAST, f32), k.constant(0.0, f32)
        state = SoftmaxState([least] * 2, [zero] * 2, [zero] * (plan.size // 2))
        logits = k.mma_wait(0, self._products(k.constant(0, u32)))
        k.barrier()
        self._copy(self._keys, k.constant(STAGES, u32), tiles)
        # The first tile has no values before it, and the last one no keys after it.
        last = tiles - 1
        with k.if_(last > 0) as has_next:
            following = self._products(k.constant(1, u32))
            words, after, _ = self._weighed(logits, k.constant(0, u32), state, masked=True)
            following = k.mma_wait(0, following)
            k.barrier()
            self._copy(self._keys, k.constant(STAGES + 1, u32), tiles)
            unmasked_end = self._whole(last)
            carried = (following, words, after.tops, after.totals, state.sums)
            carried = self._loop(k.constant(1, u32), unmasked_end, tiles, carried, masked=False)
            logits_, words, tops, totals, sums = self._loop(
                unmasked_end, last, tiles, carried, masked=True
            )
            sums = self._add(last - 1, words, sums)
            words, after, scales = self._weighed(
                logits_, last, SoftmaxState(tops, totals, []), masked=True
            )
            sums = self._scaled(k.mma_wait(0, sums), scales)
            has_next.give((words, after.tops, after.totals, sums))
        with has_next.otherwise():
            words, after, _ = self._weighed(logits, last, state, masked=True)
            has_next.give((words, after.tops, after.totals, state.sums))
        words, tops, totals, sums = has_next.results
        sums = k.mma_wait(0, self._add(last, words, sums))
        return self._reduced(tops, totals, sums)

    def _reduced(
        self, tops: Sequence[Value], totals: Sequence[Value], sums: Sequence[Value]
    ) -> SoftmaxState:
        """Combine the results of the four instances that share queries."""
        k, least = self._k, self._k.constant(LEAST, f32)
        for distance in (1, 2):
            totals = [total + k.shuffle(total, lane_of(k) ^ distance) for total in totals]
        tops = [k.select(top == LEAST, least, top * self._factor) for top in tops]
        return SoftmaxState(list(tops), list(totals), list(sums))

    def _copy(self, tiles: HeadTiles, step: Value, count: Value) -> None:
        with self._k.if_(step < count):
            tiles.copy(step * self._plan.keys, step & (STAGES - 1))

    @staticmethod
    def _scaled(sums: Sequence[Value], scales: Sequence[Value]) -> list[Value]:
        return [value * scales[at // 2 % 2] for at, value in enumerate(sums)]

    def _loop(self, begin: Value, end: Value, tiles: Value, carried: Any, *, masked: bool) -> Any:
        """Process the steps that have a tile before and one after them.

        Steps carry the products of their tile, the weights of the tile before, the greatest
        products, totals and sums.
        """
        k = self._k
        with k.range(begin, end, carry=carried) as loop:
            (logits, words, tops, totals, sums), step = loop.carried, loop.index
            following = self._products(step + 1)
            sums = self._add(step - 1, words, sums)
            words, after, scales = self._weighed(
                logits, step, SoftmaxState(tops, totals, []), masked=masked
            )
            following, sums = k.mma_wait(0, following), k.mma_wait(0, sums)
            # All instances have read the keys of the next step and the values of the previous one.
            k.barrier()
            self._copy(self._keys, step + (STAGES + 1), tiles)
            self._copy(self._values, step + (STAGES - 1), tiles)
            loop.next((following, words, after.tops, after.totals, self._scaled(sums, scales)))
        return loop.results

    def _products(self, step: Value) -> Values:
        """Start the products of queries and a tile of keys."""
        k, stage = self._k, step & (STAGES - 1)
        self._keys.wait(stage, step >> 1)
        k.mma_begin()
        sums: Values = (k.constant(0.0, f32),) * (self._plan.keys // 2)
        for at in range(self._plan.size // MATRIX_DEPTH):
            query_matrix = self._queries.rows(0, at, self._own)
            sums = k.mma_tiles(self._element, query_matrix, self._keys.rows(stage, at), sums)
        k.mma_commit()
        return sums

    def _add(self, step: Value, words: list[Values], sums: Sequence[Value]) -> Values:
        """Start adding the values of a tile, times their weights."""
        k, stage = self._k, step & (STAGES - 1)
        self._values.wait(stage, step >> 1)
        k.mma_begin()
        totals = tuple(sums)
        for at, tile_weights in enumerate(words):
            totals = k.mma_rows(
                self._element, tile_weights, self._values.columns(stage, at), totals
            )
        k.mma_commit()
        return totals

    def _weighed(
        self, logits: Sequence[Value], step: Value, state: SoftmaxState, *, masked: bool
    ) -> tuple[list[Values], SoftmaxState, list[Value]]:
        """Return weights packed as a first factor, new maxima and totals, and the scales of sums.

        The factor is applied in the exponent alone: 2 ** (x * factor - top * factor).
        """
        k, factor = self._k, self._factor
        least, zero = k.constant(LEAST, f32), k.constant(0.0, f32)
        beside = step * self._plan.keys + (lane_of(k) & (QUAD - 1)) * 2
        powers: list[list[Value]] = []
        tops, totals, scales = [], [], []
        for half in range(2):
            half_logits = [value for at, value in enumerate(logits) if at // 2 % 2 == half]
            if masked:
                visible = self._seen(self.row + 8 * half).cast(i32) - beside.cast(i32)
                half_logits = [
                    k.select(visible > at // 2 * 8 + at % 2, value, least)
                    for at, value in enumerate(half_logits)
                ]
            top = reduce(k.maximum, half_logits, state.tops[half])
            for distance in (1, 2):
                top = k.maximum(top, k.shuffle(top, lane_of(k) ^ distance))
            begin = top * factor
            if masked:
                begin = k.select(top == LEAST, zero, begin)
            scale = k.exp2(k.fma(state.tops[half], factor, -begin), normal=True)
            weights = [k.exp2(k.fma(value, factor, -begin), normal=True) for value in half_logits]
            if masked:
                # Masked keys have weight 0, however small the factor is; NaN stays NaN.
                weights = [
                    k.select(value == LEAST, zero, power)
                    for value, power in zip(half_logits, weights, strict=True)
                ]
            powers.append(weights)
            tops.append(top)
            totals.append(reduce(operator.add, weights, state.totals[half] * scale))
            scales.append(scale)
        pack = packing(k, self._element)
        words: list[Values] = [
            tuple(pack(*powers[word % 2][at * 4 + word // 2 * 2 :][:2]) for word in range(4))
            for at in range(self._plan.keys // MATRIX_DEPTH)
        ]
        return words, SoftmaxState(tops, totals, state.sums), scales

    def store(
        self, out: Value, queries: Value, state: SoftmaxState, inverses: Sequence[Value]
    ) -> None:
        """Store the rows of a head, each times a factor."""
        store_rows(self._k, self._element, out, (self.row, queries), state.sums, inverses)


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
    for half, factor in enumerate(factors):
        row = first_row + 8 * half
        words = [
            pack(*[value * factor for value in sums[at : at + 2]])
            for at in range(2 * half, len(sums), 4)
        ]
        blocks = [
            (first, transposed(k, words[first : first + QUAD]))
            for first in range(0, len(words), QUAD)
        ]
        with k.if_(row < count):
            line = k.pointer_add(target, row.cast(u64) * width)
            for first, transposed_words in blocks:
                k.store(line, ((lane & (QUAD - 1)) + first) * 4, *transposed_words)

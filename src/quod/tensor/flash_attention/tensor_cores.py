"""Attention on tensor cores: keys and values by asynchronous copies, weights in registers.

The accumulator of a product of queries and keys has the layout of the next product's first factor,
so that weights never leave registers (FlashAttention-2, Dao, 2023).
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from functools import reduce
from itertools import product

from quod.frozen import frozen
from quod.kernel import Builder, Value, f16, f32, i32, u32, u64
from quod.kernel.ir.types import Type
from quod.tensor.flash_attention.plan import CoreTilePlan
from quod.tensor.rows.exponentials import LEAST

Values = tuple[Value, ...]

_WORDS = 4
"""Words of a copy, and of a matrix row: eight 16-bit elements."""
_ELEMENTS = 8
_FAR = 8.0
"""The most, to base 2, that a logit may exceed the running maximum before it is raised."""
MATRIX = 16
"""Rows and columns of one matrix load: four 8 x 8 matrices."""


@frozen(eq=False)
class HeadMatrix:
    """A matrix of a head in memory.

    pointer: The first element.
    size: Elements of a line.
    count: Lines that are copied; later ones are zeros.
    """

    pointer: Value
    size: Value
    count: Value


class Tiles:
    """Tiles of lines of a matrix in shared memory, in `stages` stages.

    Copies of eight elements are swizzled within a line (the copy's index XOR the line number), so
    that neither copies nor matrix loads have bank conflicts.
    """

    def __init__(
        self, k: Builder, matrix: HeadMatrix, plan: CoreTilePlan, lines: int, stages: int
    ) -> None:
        self._k, self._matrix = k, matrix
        self._pitch = plan.size // 2
        self._room = k.shared(u32, lines * self._pitch * stages)
        self._words = lines * self._pitch
        places = plan.size // _ELEMENTS
        # An instance copies the same index of lines that are `_apart` lines from each other.
        self._apart = plan.lanes // places
        self._count = lines // self._apart
        self._line = k.local_id() >> places.bit_length() - 1
        place = k.local_id() & places - 1
        self._target = self._line * self._pitch + (place ^ self._line & 7) * _WORDS
        self._inside = None if plan.exact else place * _ELEMENTS < matrix.size
        self._width = matrix.size >> 1
        element_offset = self._line * self._width + place * _WORDS
        self._source = k.pointer_add(matrix.pointer.cast(u32), element_offset)

    def copy(self, first: Value, stage: Value | int) -> None:
        """Start the copies of the lines from `first` on, with zeros beyond the last line."""
        k = self._k
        source = k.pointer_add(self._source, first.cast(u64) * self._width.cast(u64))
        for number in range(self._count):
            line = number * self._apart
            to = self._target + line * self._pitch + stage * self._words
            there = first + self._line + line < self._matrix.count
            there = there if self._inside is None else there & self._inside
            k.copy_async(self._room, to, source, self._width * line, _WORDS, where=there)

    def left(self, first_line: Value) -> Value:
        """Return the offset of the instance's matrix row in 16 lines of a first factor.

        It also serves lines that are summed over, as a transposed second factor.
        """
        lane = self._k.lane_id()
        line = first_line + (lane & 15)
        return line * self._pitch + (lane >> 4 ^ lane & 7) * _WORDS

    def right(self) -> Value:
        """Return the offset of the instance's matrix row, if lines are columns of a factor."""
        lane = self._k.lane_id()
        line = (lane & 7) + (lane >> 4) * 8
        return line * self._pitch + (lane >> 3 & 1 ^ lane & 7) * _WORDS

    def matrices(
        self, start: Value, stage: Value | int, across: int, down: int, *, turned: bool = False
    ) -> Values:
        """Load the words of the `down`-th 16 lines and their `across`-th 16 elements."""
        place = start + stage * self._words ^ across * 2 * _WORDS
        return self._k.load_matrices(
            self._room, place + down * MATRIX * self._pitch, transposed=turned
        )


@frozen(eq=False)
class SoftmaxState:
    """The results of a subgroup, for each 16 queries.

    tops: The greatest products of the instance's two queries.
    totals: The totals of weights of the instance's two queries.
    sums: The fragments of sums of values, one for each eight elements of a head.
    """

    tops: list[list[Value]]
    totals: list[list[Value]]
    sums: list[list[Values]]


def store(
    k: Builder, element: Type, plan: CoreTilePlan, target: HeadMatrix, row: Value,
    sums: Sequence[Values], scales: Sequence[Value],
) -> None:  # fmt: skip
    """Store 16 rows, scaled; an instance has the rows `row` and `row + 8`."""
    pack, width = k.pack_f16 if element is f16 else k.pack_bf16, target.size >> 1
    for half in range(2):
        row_index = row + 8 * half
        line = k.pointer_add(target.pointer.cast(u32), row_index.cast(u64) * width.cast(u64))
        with k.if_(row_index < target.count):
            for place, block in enumerate(sums):
                at = (k.lane_id() & 3) + place * 4
                word = pack(*[value * scales[half] for value in block[2 * half :][:2]])
                if plan.exact:
                    line[at] = word
                    continue
                with k.if_(at < width):
                    line[at] = word


class Attention:
    """Some queries of a head and the keys that they see, on the tensor cores of a workgroup."""

    def __init__(
        self, k: Builder, element: Type, plan: CoreTilePlan, of_q: HeadMatrix, of_keys: HeadMatrix,
        of_values: HeadMatrix, first: Value, seen: Callable[[Value], Value], factor: Value,
    ) -> None:  # fmt: skip
        """Allocate the tiles of a workgroup.

        first: The first query.
        seen: The number of keys that a query sees.
        of_keys, of_values: Keys and values, with as many lines as the last query sees.
        """
        self._k, self._element, self._plan, self._factor = k, element, plan, factor
        rows, keys = plan.tile
        self._first, self._seen, self._count = first, seen, of_keys.count
        self._own = k.subgroup_id() * plan.rows
        self._queries = Tiles(k, of_q, plan, rows, 1)
        self._keys = Tiles(k, of_keys, plan, keys, plan.stages)
        self._values = Tiles(k, of_values, plan, keys, plan.stages)
        self._of_queries, self._of_keys = self._queries.left(self._own), self._keys.right()
        self._of_values = self._values.left(k.constant(0, u32))
        self._down, self._depth = plan.rows // MATRIX, plan.size // MATRIX
        self._kept: list[list[Values]] = []

    def run(self) -> SoftmaxState:
        """Return the results of all keys.

        The greatest products are times the factor, and -3.4e38 if no key was seen.
        """
        k, plan, keys = self._k, self._plan, self._plan.keys
        k.resident_workgroups(plan.resident)
        self._queries.copy(self._first, 0)
        k.copy_async_commit()
        for step in range(plan.stages - 1):
            self._copy(k.constant(step, u32))
        if plan.kept:
            k.copy_async_wait(plan.stages - 1)
            k.barrier()
            self._kept = [self._matrices_of_queries(at) for at in range(self._depth)]
        least, zero = k.constant(LEAST, f32), k.constant(0.0, f32)
        state = SoftmaxState(
            [[least] * 2 for _ in range(self._down)], [[zero] * 2 for _ in range(self._down)],
            [[(zero,) * 4] * (2 * self._depth) for _ in range(self._down)],
        )  # fmt: skip
        # Tiles of keys that all queries see need no masks.
        unmasked_tiles = self._seen(self._first) // keys
        state = self._loop(k.constant(0, u32), unmasked_tiles, state, masked=False)
        state = self._loop(unmasked_tiles, (self._count + (keys - 1)) // keys, state, masked=True)
        totals = []
        for pair in state.totals:
            for distance in (1, 2):
                pair = [total + k.shuffle(total, k.lane_id() ^ distance) for total in pair]
            totals.append(pair)
        tops = [
            [k.select(top == LEAST, least, top * self._factor) for top in pair]
            for pair in state.tops
        ]
        return SoftmaxState(tops, totals, state.sums)

    def _loop(self, begin: Value, end: Value, state: SoftmaxState, *, masked: bool) -> SoftmaxState:
        with self._k.range(begin, end, carry=(state.tops, state.totals, state.sums)) as loop:
            following = self._step(loop.index, SoftmaxState(*loop.carried), masked=masked)
            loop.next((following.tops, following.totals, following.sums))
        return SoftmaxState(*loop.results)

    def _copy(self, step: Value) -> None:
        stage = step & (self._plan.stages - 1)
        for tiles in (self._keys, self._values):
            tiles.copy(step * self._plan.keys, stage)
        self._k.copy_async_commit()

    def _step(self, number: Value, state: SoftmaxState, *, masked: bool) -> SoftmaxState:
        """Return the results with a tile of keys added."""
        k, plan, keys = self._k, self._plan, self._plan.keys
        # The oldest tiles are copied, and the multiplied ones are free, for all instances.
        k.copy_async_wait(plan.stages - 2)
        k.barrier()
        self._copy(number + (plan.stages - 1))
        logits = self._products(number & (plan.stages - 1))
        if masked:
            logits = [self._masked(row, each, number) for row, each in enumerate(logits)]
        state = self._raised(state, logits)
        words, totals = [], []
        for blocks, tops, total in zip(logits, state.tops, state.totals, strict=True):
            row_words, added = self._weighed(blocks, tops, total, masked=masked)
            words.append(row_words)
            totals.append(added)
        sums = [list(each) for each in state.sums]
        stage = number & (plan.stages - 1)
        for at, across in product(range(keys // MATRIX), range(self._depth)):
            right = self._values.matrices(self._of_values, stage, across, at, turned=True)
            for left, blocks in zip(words, sums, strict=True):
                self._multiply(left[at], right, blocks, 2 * across)
        return SoftmaxState(state.tops, totals, sums)

    def _multiply(self, left: Values, right: Values, sums: list[Values], place: int) -> None:
        """Add the product of 16 rows and 16 columns to the two sums from `place` on."""
        for half in range(2):
            column_pair = right[2 * half :][:2]
            sums[place + half] = self._k.mma(self._element, left, column_pair, sums[place + half])

    def _matrices_of_queries(self, at: int) -> list[Values]:
        return [
            self._queries.matrices(self._of_queries, 0, at, number) for number in range(self._down)
        ]

    def _products(self, stage: Value) -> list[list[Values]]:
        """Multiply the queries with a tile of keys; indexed by 16 queries, then by eight keys."""
        columns = self._plan.keys // MATRIX
        zeros = (self._k.constant(0.0, f32),) * 4
        logits: list[list[Values]] = [[zeros] * (2 * columns) for _ in range(self._down)]
        for at in range(self._depth):
            left = self._kept[at] if self._plan.kept else self._matrices_of_queries(at)
            for number in range(columns):
                right = self._keys.matrices(self._of_keys, stage, at, number)
                for matrix, row in zip(left, logits, strict=True):
                    self._multiply(matrix, right, row, 2 * number)
        return logits

    def _masked(self, row: int, logits: list[Values], number: Value) -> list[Values]:
        """Mask the logits of 16 queries: LEAST for keys that are not seen."""
        k = self._k
        query = self._first + self._own + (row * MATRIX + (k.lane_id() >> 2))
        beside = (number * self._plan.keys + (k.lane_id() & 3) * 2).cast(i32)
        visible = [self._seen(query + below).cast(i32) - beside for below in (0, 8)]
        least = k.constant(LEAST, f32)
        return [
            tuple(
                k.select(visible[at // 2] > block * 8 + at % 2, value, least)
                for at, value in enumerate(values)
            )
            for block, values in enumerate(logits)
        ]

    def _raised(self, state: SoftmaxState, logits: list[list[Values]]) -> SoftmaxState:
        """Raise the maxima that a logit exceeds by far, and rescale sums only if one was raised.

        Weights are then at most 2**_FAR, a factor that sums and totals share.
        """
        k, factor = self._k, self._factor
        tops: list[list[Value]] = []
        raised = None
        for before, row_logits in zip(state.tops, logits, strict=True):
            pair = []
            for half, top in enumerate(before):
                new = reduce(
                    k.maximum, (x for block in row_logits for x in block[2 * half :][:2]), top
                )
                for distance in (1, 2):
                    new = k.maximum(new, k.shuffle(new, k.lane_id() ^ distance))
                far = (new - top) * factor > _FAR
                raised = far if raised is None else raised | far
                pair.append(k.select(far, new, top))
            tops.append(pair)
        assert raised is not None
        with k.if_(k.any_lane(raised)) as branch:
            totals, sums = [], []
            for row, pair in enumerate(tops):
                scales = [
                    k.exp2((before - top) * factor)
                    for before, top in zip(state.tops[row], pair, strict=True)
                ]
                totals.append(list(map(operator.mul, state.totals[row], scales)))
                block_scales = [scales[at // 2] for at in range(4)]
                sums.append(
                    [tuple(map(operator.mul, block, block_scales)) for block in state.sums[row]]
                )
            branch.give((totals, sums))
        with branch.otherwise():
            branch.give((state.totals, state.sums))
        totals, sums = branch.results
        return SoftmaxState(tops, totals, sums)

    def _weighed(
        self, logits: list[Values], tops: list[Value], totals: list[Value], *, masked: bool
    ) -> tuple[list[Values], list[Value]]:
        """Return the weights of 16 queries, packed as a first factor, and the new totals."""
        k, factor = self._k, self._factor
        zero = k.constant(0.0, f32)
        parts: list[list[Value]] = []
        added = []
        for half, top in enumerate(tops):
            half_logits = [value for block in logits for value in block[2 * half :][:2]]
            begin = top * factor
            if masked:
                begin = k.select(top == LEAST, zero, begin)
            powers = [k.exp2(k.fma(value, factor, -begin), normal=True) for value in half_logits]
            if masked:
                # Masked keys have weight 0, however small the factor is; NaN stays NaN.
                powers = [
                    k.select(value == LEAST, zero, power)
                    for value, power in zip(half_logits, powers, strict=True)
                ]
            parts.append(powers)
            added.append(reduce(operator.add, powers, totals[half]))
        pack = k.pack_f16 if self._element is f16 else k.pack_bf16
        words: list[Values] = [
            tuple(pack(*parts[word % 2][at * 4 + word // 2 * 2 :][:2]) for word in range(4))
            for at in range(self._plan.keys // MATRIX)
        ]
        return words, added

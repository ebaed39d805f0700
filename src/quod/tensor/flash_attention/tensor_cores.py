"""Attention on tensor cores: keys and values by asynchronous copies, weights in registers.

The accumulator of the product q k^T has the register layout of the left factor of the next product,
weights times values, so that weights never leave registers (FlashAttention-2, Dao, 2023).
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
_RAISE_THRESHOLD = 8.0
"""A logit, to base 2, may exceed the running maximum by so much before the maximum is raised."""
MATRIX = 16
"""Rows and columns of one matrix load: four 8 x 8 matrices."""


@frozen(eq=False)
class HeadMatrix:
    """The matrix of one head in device memory.

    pointer: The address of its first element.
    size: Elements of a line.
    count: The number of lines that are read; tiles have zeros in place of further lines.
    """

    pointer: Value
    size: Value
    count: Value


class Tiles:
    """A ring of `stages` tiles in shared memory, each with `lines` lines of a matrix.

    The 16-byte copies are swizzled within a line (index of the copy XOR number of the line), so
    that neither copies nor matrix loads have bank conflicts.
    """

    def __init__(
        self, k: Builder, matrix: HeadMatrix, plan: CoreTilePlan, lines: int, stages: int
    ) -> None:
        self._k, self._matrix = k, matrix
        self._pitch = plan.size // 2
        self._buffer = k.shared(u32, lines * self._pitch * stages)
        self._words = lines * self._pitch
        copies_per_line = plan.size // _ELEMENTS
        # An instance copies the same index of lines that are `_line_stride` lines from each other.
        self._line_stride = plan.lanes // copies_per_line
        self._count = lines // self._line_stride
        self._line = k.local_id() >> copies_per_line.bit_length() - 1
        copy_index = k.local_id() & copies_per_line - 1
        self._target = self._line * self._pitch + (copy_index ^ self._line & 7) * _WORDS
        self._inside = None if plan.exact else copy_index * _ELEMENTS < matrix.size
        self._width = matrix.size >> 1
        element_offset = self._line * self._width + copy_index * _WORDS
        self._source = k.pointer_add(matrix.pointer.cast(u32), element_offset)

    def copy(self, first_line: Value, stage: Value | int) -> None:
        """Start the copies of the lines from `first_line` on, with zeros beyond the last line."""
        k = self._k
        source = k.pointer_add(self._source, first_line.cast(u64) * self._width.cast(u64))
        for copy_number in range(self._count):
            line = copy_number * self._line_stride
            target = self._target + line * self._pitch + stage * self._words
            in_range = first_line + self._line + line < self._matrix.count
            in_range = in_range if self._inside is None else in_range & self._inside
            k.copy_async(self._buffer, target, source, self._width * line, _WORDS, where=in_range)

    def left(self, first_line: Value) -> Value:
        """Return the word offset of this instance's matrix row for a left factor of 16 lines.

        Lines that are summed over, as a transposed right factor, have the same offset.
        """
        lane = self._k.lane_id()
        line = first_line + (lane & 15)
        return line * self._pitch + (lane >> 4 ^ lane & 7) * _WORDS

    def right(self) -> Value:
        """Return the word offset of this instance's matrix row for a right factor.

        The lines are the columns of the factor.
        """
        lane = self._k.lane_id()
        line = (lane & 7) + (lane >> 4) * 8
        return line * self._pitch + (lane >> 3 & 1 ^ lane & 7) * _WORDS

    def matrices(
        self, start: Value, stage: Value | int, across: int, down: int, *, transposed: bool = False
    ) -> Values:
        """Load a 16 x 16 matrix: lines 16 * down to 16 * down + 15, from element 16 * across.

        start: The offset that `left` or `right` returned.
        transposed: Transpose the matrix.
        """
        offset = start + stage * self._words ^ across * 2 * _WORDS
        return self._k.load_matrices(
            self._buffer, offset + down * MATRIX * self._pitch, transposed=transposed
        )


@frozen(eq=False)
class SoftmaxState:
    """The online softmax of a subgroup, indexed by blocks of 16 queries.

    maxima: The running maxima of the logits of the instance's two queries.
    denominators: The sums of weights of the instance's two queries.
    value_sums: The accumulators of weighted values, one fragment for every eight elements of a
        head.
    """

    maxima: list[list[Value]]
    denominators: list[list[Value]]
    value_sums: list[list[Values]]


def store(
    k: Builder, element: Type, plan: CoreTilePlan, target: HeadMatrix, row: Value,
    sums: Sequence[Values], scales: Sequence[Value],
) -> None:  # fmt: skip
    """Store 16 scaled rows as 16-bit floats; an instance stores the rows `row` and `row + 8`."""
    pack, width = k.pack_f16 if element is f16 else k.pack_bf16, target.size >> 1
    for row_half in range(2):
        row_index = row + 8 * row_half
        line = k.pointer_add(target.pointer.cast(u32), row_index.cast(u64) * width.cast(u64))
        with k.if_(row_index < target.count):
            for block_index, block in enumerate(sums):
                word_index = (k.lane_id() & 3) + block_index * 4
                word = pack(*[value * scales[row_half] for value in block[2 * row_half :][:2]])
                if plan.exact:
                    line[word_index] = word
                    continue
                with k.if_(word_index < width):
                    line[word_index] = word


class Attention:
    """The attention of one tile of queries on tensor cores."""

    def __init__(
        self, k: Builder, element: Type, plan: CoreTilePlan, of_q: HeadMatrix, of_keys: HeadMatrix,
        of_values: HeadMatrix, first_query: Value, seen: Callable[[Value], Value], factor: Value,
    ) -> None:  # fmt: skip
        """Allocate the tiles of a workgroup in shared memory.

        of_keys, of_values: Keys and values; their `count` is the number of keys that the last query
            sees.
        first_query: The first query of the tile.
        seen: Returns the number of keys that a query sees.
        factor: scale * log2(e).
        """
        self._k, self._element, self._plan, self._factor = k, element, plan, factor
        rows, keys = plan.tile
        self._first, self._seen, self._count = first_query, seen, of_keys.count
        self._subgroup_row = k.subgroup_id() * plan.rows
        self._queries = Tiles(k, of_q, plan, rows, 1)
        self._keys = Tiles(k, of_keys, plan, keys, plan.stages)
        self._values = Tiles(k, of_values, plan, keys, plan.stages)
        self._query_offset, self._key_offset = (
            self._queries.left(self._subgroup_row),
            self._keys.right(),
        )
        self._value_offset = self._values.left(k.constant(0, u32))
        self._row_blocks, self._depth = plan.rows // MATRIX, plan.size // MATRIX
        self._query_registers: list[list[Values]] = []

    def run(self) -> SoftmaxState:
        """Return the softmax state after all keys.

        Its maxima are multiplied by the factor; they are -3.4e38 for a query that sees no key.
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
            self._query_registers = [
                self._load_queries(depth_index) for depth_index in range(self._depth)
            ]
        least, zero = k.constant(LEAST, f32), k.constant(0.0, f32)
        state = SoftmaxState(
            [[least] * 2 for _ in range(self._row_blocks)],
            [[zero] * 2 for _ in range(self._row_blocks)],
            [[(zero,) * 4] * (2 * self._depth) for _ in range(self._row_blocks)],
        )  # fmt: skip
        # Tiles of keys that all queries see need no masks.
        unmasked_tiles = self._seen(self._first) // keys
        state = self._loop(k.constant(0, u32), unmasked_tiles, state, masked=False)
        state = self._loop(unmasked_tiles, (self._count + (keys - 1)) // keys, state, masked=True)
        denominators = []
        for pair in state.denominators:
            for distance in (1, 2):
                pair = [
                    denominator + k.shuffle(denominator, k.lane_id() ^ distance)
                    for denominator in pair
                ]
            denominators.append(pair)
        maxima = [
            [k.select(maximum == LEAST, least, maximum * self._factor) for maximum in pair]
            for pair in state.maxima
        ]
        return SoftmaxState(maxima, denominators, state.value_sums)

    def _loop(self, begin: Value, end: Value, state: SoftmaxState, *, masked: bool) -> SoftmaxState:
        """Add the tiles of keys from `begin` to `end` - 1 to a state."""
        with self._k.range(
            begin, end, carry=(state.maxima, state.denominators, state.value_sums)
        ) as loop:
            new_state = self._step(loop.index, SoftmaxState(*loop.carried), masked=masked)
            loop.next((new_state.maxima, new_state.denominators, new_state.value_sums))
        return SoftmaxState(*loop.results)

    def _copy(self, step: Value) -> None:
        """Start the copies of a step's tiles of keys and values."""
        stage = step & (self._plan.stages - 1)
        for tiles in (self._keys, self._values):
            tiles.copy(step * self._plan.keys, stage)
        self._k.copy_async_commit()

    def _step(self, step: Value, state: SoftmaxState, *, masked: bool) -> SoftmaxState:
        """Return the softmax state with a tile of keys added."""
        k, plan, keys = self._k, self._plan, self._plan.keys
        # After the barrier, the step's tiles are complete and the previous step's tiles are free.
        k.copy_async_wait(plan.stages - 2)
        k.barrier()
        self._copy(step + (plan.stages - 1))
        logits = self._products(step & (plan.stages - 1))
        if masked:
            logits = [
                self._mask_logits(row, row_logits, step) for row, row_logits in enumerate(logits)
            ]
        state = self._raise_maxima(state, logits)
        weights, denominators = [], []
        for blocks, maxima, denominator in zip(
            logits, state.maxima, state.denominators, strict=True
        ):
            row_words, row_denominators = self._softmax_weights(
                blocks, maxima, denominator, masked=masked
            )
            weights.append(row_words)
            denominators.append(row_denominators)
        value_sums = [list(row) for row in state.value_sums]
        stage = step & (plan.stages - 1)
        for key_block, element_block in product(range(keys // MATRIX), range(self._depth)):
            value_matrix = self._values.matrices(
                self._value_offset, stage, element_block, key_block, transposed=True
            )
            for row_weights, blocks in zip(weights, value_sums, strict=True):
                self._multiply(row_weights[key_block], value_matrix, blocks, 2 * element_block)
        return SoftmaxState(state.maxima, denominators, value_sums)

    def _multiply(self, left: Values, right: Values, sums: list[Values], first_sum: int) -> None:
        """Add the product of 16 rows and 16 columns to the two sums from `first_sum` on."""
        for column_half in range(2):
            column_pair = right[2 * column_half :][:2]
            sums[first_sum + column_half] = self._k.mma(
                self._element, left, column_pair, sums[first_sum + column_half]
            )

    def _load_queries(self, depth_index: int) -> list[Values]:
        """Load the queries' matrices of 16 elements of a head, one for every 16 queries."""
        return [
            self._queries.matrices(self._query_offset, 0, depth_index, row_block)
            for row_block in range(self._row_blocks)
        ]

    def _products(self, stage: Value) -> list[list[Values]]:
        """Multiply the queries with a tile of keys; indexed by 16 queries, then by eight keys."""
        columns = self._plan.keys // MATRIX
        zeros = (self._k.constant(0.0, f32),) * 4
        logits: list[list[Values]] = [[zeros] * (2 * columns) for _ in range(self._row_blocks)]
        for depth_index in range(self._depth):
            query_matrices = (
                self._query_registers[depth_index]
                if self._plan.kept
                else self._load_queries(depth_index)
            )
            for key_block in range(columns):
                key_matrix = self._keys.matrices(self._key_offset, stage, depth_index, key_block)
                for matrix, row in zip(query_matrices, logits, strict=True):
                    self._multiply(matrix, key_matrix, row, 2 * key_block)
        return logits

    def _mask_logits(self, row: int, logits: list[Values], step: Value) -> list[Values]:
        """Mask the logits of 16 queries: LEAST for keys that are not seen."""
        k = self._k
        query = self._first + self._subgroup_row + (row * MATRIX + (k.lane_id() >> 2))
        first_key = (step * self._plan.keys + (k.lane_id() & 3) * 2).cast(i32)
        visible = [self._seen(query + row_offset).cast(i32) - first_key for row_offset in (0, 8)]
        least = k.constant(LEAST, f32)
        return [
            tuple(
                k.select(visible[element // 2] > block * 8 + element % 2, value, least)
                for element, value in enumerate(values)
            )
            for block, values in enumerate(logits)
        ]

    def _raise_maxima(self, state: SoftmaxState, logits: list[list[Values]]) -> SoftmaxState:
        """Raise a running maximum only if a logit exceeds it by more than the threshold.

        Sums are rescaled only if a maximum was raised. A weight is then at most
        2**_RAISE_THRESHOLD; the final division by the denominators cancels the excess.
        """
        k, factor = self._k, self._factor
        maxima: list[list[Value]] = []
        any_raised = None
        for old_pair, row_logits in zip(state.maxima, logits, strict=True):
            pair = []
            for row_half, maximum in enumerate(old_pair):
                new_maximum = reduce(
                    k.maximum,
                    (x for block in row_logits for x in block[2 * row_half :][:2]),
                    maximum,
                )
                for distance in (1, 2):
                    new_maximum = k.maximum(
                        new_maximum, k.shuffle(new_maximum, k.lane_id() ^ distance)
                    )
                exceeds = (new_maximum - maximum) * factor > _RAISE_THRESHOLD
                any_raised = exceeds if any_raised is None else any_raised | exceeds
                pair.append(k.select(exceeds, new_maximum, maximum))
            maxima.append(pair)
        assert any_raised is not None
        with k.if_(k.any_lane(any_raised)) as branch:
            denominators, value_sums = [], []
            for row, pair in enumerate(maxima):
                scales = [
                    k.exp2((old_maximum - maximum) * factor)
                    for old_maximum, maximum in zip(state.maxima[row], pair, strict=True)
                ]
                denominators.append(list(map(operator.mul, state.denominators[row], scales)))
                block_scales = [scales[element // 2] for element in range(4)]
                value_sums.append(
                    [
                        tuple(map(operator.mul, block, block_scales))
                        for block in state.value_sums[row]
                    ]
                )
            branch.yield_((denominators, value_sums))
        with branch.otherwise():
            branch.yield_((state.denominators, state.value_sums))
        denominators, value_sums = branch.results
        return SoftmaxState(maxima, denominators, value_sums)

    def _softmax_weights(
        self, logits: list[Values], maxima: list[Value], denominators: list[Value], *, masked: bool
    ) -> tuple[list[Values], list[Value]]:
        """Return the weights of 16 queries, packed as a left factor, and the new denominators."""
        k, factor = self._k, self._factor
        zero = k.constant(0.0, f32)
        row_powers: list[list[Value]] = []
        new_denominators = []
        for row_half, maximum in enumerate(maxima):
            half_logits = [value for block in logits for value in block[2 * row_half :][:2]]
            scaled_maximum = maximum * factor
            if masked:
                scaled_maximum = k.select(maximum == LEAST, zero, scaled_maximum)
            powers = [
                k.exp2(k.fma(value, factor, -scaled_maximum), flush_subnormals=True)
                for value in half_logits
            ]
            if masked:
                # Masked keys have weight 0, however small the factor is; NaN stays NaN.
                powers = [
                    k.select(value == LEAST, zero, power)
                    for value, power in zip(half_logits, powers, strict=True)
                ]
            row_powers.append(powers)
            new_denominators.append(reduce(operator.add, powers, denominators[row_half]))
        pack = k.pack_f16 if self._element is f16 else k.pack_bf16
        # The four words of a left factor are two rows, of eight keys and of the next eight.
        packed_weights: list[Values] = [
            tuple(
                pack(*row_powers[word % 2][key_block * 4 + word // 2 * 2 :][:2])
                for word in range(4)
            )
            for key_block in range(self._plan.keys // MATRIX)
        ]
        return packed_weights, new_denominators

"""Products of blocks with many rows of 8-bit activations on tensor cores.

The results equal those of `bytes_kernels` bit for bit. That kernel adds a row's groups in 32 sums,
sum i having the groups whose index is i modulo 32. It then adds sums in pairs: 16 apart, then 8, 4,
2 and 1. Here subgroup s has the four sums whose index is s modulo 8, for a tile of results, and
adds them in that order; the sums of the eight subgroups are added last. Integer sums of a run are
exact, and so are products of an 11-bit scale and a 6-bit factor, so both kernels round the same
values.
"""

from __future__ import annotations

from collections.abc import Sequence

from quod.kernel import Builder, Value, f32, i8, i32, u32
from quod.tensor.matmul.mma_fragments import lane_of
from quod.tensor.matmul.tiles import log2
from quod.tensor.quantised.bytes_kernels import LANES as CLASSES
from quod.tensor.quantised.bytes_kernels import products_of_bytes
from quod.tensor.quantised.packed import BYTES, PackedRun
from quod.tensor.quantised.types.table import QUANTISED_TYPES

_SUBGROUPS = 8
LANES = 32 * _SUBGROUPS
"""Instances of a workgroup."""
_HALF = 8
"""The distance between an instance's rows of an MMA matrix, and the number of its columns."""
_WORDS = BYTES // 4


def _multiply(
    k: Builder, m: Value, n: Value, blocks_per_row: Value, blocks: Value, words: Value,
    scales: Value, sums: Value, y: Value, *, form: str, tile: tuple[int, int],
) -> None:  # fmt: skip
    """Y = X times the transposed matrix, with X in bytes, as in `multiply_bytes`.

    tile: A workgroup's rows of activations, a multiple of 16, and of the matrix, a multiple of 8.
    """
    k.resident_workgroups(2)
    height, width = tile
    row_in_eight, quarter, subgroup = lane_of(k) >> 2, lane_of(k) & 3, k.local_id() >> 5
    tiles_of_rows = (m + (height - 1)) // height
    first_x, first_row = (
        k.workgroup_id() % tiles_of_rows * height,
        k.workgroup_id() // tiles_of_rows * width,
    )
    step = _Step(k, form, blocks_per_row, (blocks, words, scales, sums), quarter)
    # Rows beyond the last are clamped, and not stored.
    step.rows_of_x = [
        k.minimum(first_x + offset + row_in_eight, m - 1) for offset in range(0, height, _HALF)
    ]
    step.rows = [
        k.minimum(first_row + offset + row_in_eight, n - 1) for offset in range(0, width, _HALF)
    ]
    step.columns = [
        k.minimum(first_row + (first_element + offset) + 2 * quarter, n - 1)
        for first_element in range(0, width, _HALF)
        for offset in (0, 1)
    ]
    count = len(step.rows_of_x) * len(step.columns)
    # Two partial sums per result. An instance stores groups of four; those of adjacent instances
    # are adjacent.
    size = _SUBGROUPS * height * width
    partial_buffers = [k.shared(f32, size) for _ in range(2)]
    sums_offset = subgroup * (height * width) + lane_of(k) * 4

    def stored(buffer: Value, totals: Sequence[Value]) -> None:
        for offset in range(0, count, 4):
            k.store(buffer, sums_offset + 32 * offset, *totals[offset : offset + 4])

    def added(buffer: Value, values: Sequence[Value]) -> list[Value]:
        earlier = [
            v for offset in range(0, count, 4) for v in k.load(buffer, sums_offset + 32 * offset, 4)
        ]
        return [a + b for a, b in zip(earlier, values, strict=True)]

    zeros = (k.constant(0.0, f32),) * count
    with k.range(0, CLASSES // _SUBGROUPS) as outer:
        # The subgroup's four sums in the order s, s + 16, s + 8, s + 24.
        start = subgroup + (outer.index & 1) * 16 + (outer.index >> 1) * 8
        with k.range(0, (step.groups + (CLASSES - 1)) // CLASSES, carry=zeros) as loop:
            loop.next(step.added(start + loop.index * CLASSES, loop.carried))
        with k.if_((outer.index & 1) == 0) as first:
            stored(partial_buffers[0], loop.results)
        with first.otherwise():
            pairs = added(partial_buffers[0], loop.results)
            with k.if_(outer.index == 1) as second:
                stored(partial_buffers[1], pairs)
            with second.otherwise():
                stored(partial_buffers[0], added(partial_buffers[1], pairs))
    k.barrier()
    with k.range(k.local_id(), height * width // 4, LANES) as quads:
        subgroup_sums = [
            k.load(partial_buffers[0], index * (height * width) + quads.index * 4, 4)
            for index in range(_SUBGROUPS)
        ]
        # Derive row and column from the layout: groups of four results of each instance.
        lane, offset = quads.index & 31, (quads.index >> 5) * 4
        columns_per_row = len(step.columns)
        row = first_x + offset // columns_per_row * _HALF + (lane >> 2)
        column = first_row + offset % columns_per_row // 2 * _HALF + (lane & 3) * 2
        for result_index, values in enumerate(zip(*subgroup_sums, strict=True)):
            totals = list(values)
            while len(totals) > 1:
                half = len(totals) // 2
                totals = [a + b for a, b in zip(totals[:half], totals[half:], strict=True)]
            y_column = column + (result_index // 2 * _HALF + result_index % 2)
            with k.if_((y_column < n) & (row < m)):
                y[row * n + y_column] = totals[0]


class _Step:
    """The contribution of one group to an instance's sums.

    rows_of_x: The rows of X.
    rows: The rows of the matrix whose integers this instance loads for its MMA operand.
    columns: The rows of the matrix whose results, columns of Y, this instance accumulates.
    """

    rows_of_x: Sequence[Value]
    rows: Sequence[Value]
    columns: Sequence[Value]

    def __init__(
        self, k: Builder, form: str, blocks_per_row: Value,
        memory: tuple[Value, Value, Value, Value], quarter: Value,
    ) -> None:  # fmt: skip
        self._k, self._blocks_per_row = k, blocks_per_row
        self.decoder = QUANTISED_TYPES[form].packed_decoder()
        self._blocks, self._words, self._scales, self._sums = memory
        self._quarter = quarter
        self.groups = blocks_per_row * self.decoder.groups
        """Number of groups in a row."""

    def added(self, index: Value, partial_sums: Sequence[Value]) -> tuple[Value, ...]:
        """Return the partial sums plus the products of group `index`, for all rows.

        A group beyond the last adds zeros.
        """
        k, runs, totals = self._k, self.decoder.runs, list(partial_sums)
        exists, index = index < self.groups, k.minimum(index, self.groups - 1)
        block, group = index >> log2(self.decoder.groups), index & (self.decoder.groups - 1)
        x_runs = [(row * self.groups + index) * runs for row in self.rows_of_x]
        zero = k.constant(0.0, f32)
        row_scales = [
            [k.select(exists, scale, zero) for scale in k.load(self._scales, x_run, runs)]
            for x_run in x_runs
        ]
        sums = [
            [byte_sum.cast(f32) for byte_sum in k.load(self._sums, x_run, runs)] for x_run in x_runs
        ]
        decoded_rows, decoded_columns = (
            [
                self.decoder.decode(
                    k, self._blocks, row * self._blocks_per_row + block, group, self._quarter
                )
                for row in rows
            ]
            for rows in (self.rows, self.columns)
        )
        for run in range(runs):
            x_words = [
                k.load(self._words, (x_run + run) * _WORDS + self._quarter * 2, 2)
                for x_run in x_runs
            ]
            factors = [
                _Factors(k, decoded_column[run], exists) for decoded_column in decoded_columns
            ]
            # Two groups of eight rows of X make the 16 rows of an MMA.
            for tile in range(0, len(x_runs), 2):
                (low, high), (low_below, high_below) = x_words[tile : tile + 2]
                for row_group, decoded_row in enumerate(decoded_rows):
                    products = self._products((low, low_below, high, high_below), decoded_row[run])
                    for result in range(4):
                        row, column = tile + result // 2, 2 * row_group + result % 2
                        value = factors[column].value(
                            [product[result] for product in products], sums[row][run]
                        )
                        total_index = row * len(decoded_columns) + column
                        totals[total_index] = totals[total_index] + row_scales[row][run] * value
        return tuple(totals)

    def _products(self, x_words: tuple[Value, ...], run: PackedRun) -> list[Sequence[Value]]:
        """Return the instance's integer sums of 16 rows by 8 columns, one list per factor."""
        k, factor_count = self._k, max(1, len(run.factors))
        zero_word, zeros = k.constant(0, u32), [k.constant(0, i32)] * 4
        part_sums: list[Sequence[Value]] = []
        for factor_index in range(factor_count):
            words = run.integers
            if factor_count > 1:
                is_own_part = (self._quarter >> 1) == factor_index
                words = [k.select(is_own_part, word, zero_word) for word in words]
            part_sums.append(k.mma(i8, x_words, tuple(words), zeros))
        return part_sums


class _Factors:
    """The scales and minima that turn integer sums of a run into results."""

    def __init__(self, k: Builder, run: PackedRun, exists: Value) -> None:
        scale, self._factors, scaled_minimum = run.scale, run.factors, None
        if len(run.factors) == 1:
            # The product of scale and factor is exact, so the result is rounded once either way.
            scale, self._factors = run.scale * run.factors[0].cast(f32), []
        if run.minimum is not None and run.less is not None:
            scaled_minimum = k.select(
                exists, run.minimum * run.less.cast(f32), k.constant(0.0, f32)
            )
        self._scale, self._scaled_minimum = (
            k.select(exists, scale, k.constant(0.0, f32)),
            scaled_minimum,
        )

    def value(self, products: Sequence[Value], sum_of_x: Value) -> Value:
        """Return a run's result, from the sums for each factor and the sum of activations."""
        integer_sum = products[0]
        if self._factors:
            integer_sum = products[0] * self._factors[0] + products[1] * self._factors[1]
        value = self._scale * integer_sum.cast(f32)
        return value if self._scaled_minimum is None else value - self._scaled_minimum * sum_of_x


MULTIPLY_BYTES_ON_CORES = products_of_bytes("multiply_bytes_on_cores", _multiply)
"""The kernels by result type."""

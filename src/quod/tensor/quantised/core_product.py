"""The product of a Q4_K matrix by a vector on tensor cores, with exact integer sums.

The 4-bit values of a row become bytes; an element of the vector becomes four bytes (see
`core_vector`). An MMA adds the products of a run's 32 elements, which share a scale of six bits. So
a whole block is summed in integers, without error, and rounded once, to f32. One MMA multiplies the
minima of two blocks by the sums of the vector's elements.

A subgroup has one or more tiles of 16 rows, and takes two blocks of each row at a time. If a whole
row fits, all copies of blocks to shared memory start before the first product, else `stages` ahead.
"""

from __future__ import annotations

from collections.abc import Sequence

from quod.kernel import Builder, Value, f32, i8, i32, pointer, u8, u32
from quod.tensor.definitions import definition
from quod.tensor.matmul.kernel import TYPES
from quod.tensor.matmul.mma_fragments import lane_of
from quod.tensor.matmul.tiles import log2
from quod.tensor.quantised.core_layout import PITCH, ROWS, CoreLayout
from quod.tensor.quantised.core_vector import VectorBytes
from quod.tensor.quantised.decoders import each_byte
from quod.tensor.quantised.packed import BYTES
from quod.tensor.quantised.product import sum_of

Values = tuple[Value, ...]

_HALF = 8
"""The distance between an instance's two rows of an MMA matrix."""
_BLOCK = 36
"""Words of a block: 4 with its scales and minima, and 32 with its 4-bit values."""
_CHUNKS = 18
"""Copies of 16 bytes in two blocks."""
_PRELOADED_PAIRS = 1
"""The number of pairs of groups, of four in two blocks, loaded before the vector is ready."""


def _multiply(
    k: Builder, rows: Value, blocks_per_row: Value, blocks: Value, x: Value, y: Value, *,
    layout: CoreLayout,
) -> None:  # fmt: skip
    """y = the matrix, in blocks of Q4_K, times x."""
    k.resident_workgroups(layout.resident)
    first_row, slices = k.workgroup_id() * layout.rows, layout.slices
    subgroup = k.local_id() >> 5
    slice_ = subgroup & (slices - 1)
    group_row = (subgroup >> log2(slices)) * (layout.tiles * ROWS)
    ring = _Ring(k, layout, rows, blocks_per_row, blocks, first_row + group_row)
    vector = VectorBytes(k, layout, blocks_per_row, x, slice_)
    sum_buffer = k.shared(f32, slices * layout.rows)
    for stage in range(layout.stages):
        ring.copy(k.constant(stage, u32) * slices + slice_, stage)
        k.copy_async_commit()
    # The previous launch may store the vector, but not the blocks.
    k.launch_dependents()
    totals: Sequence[Value] = [k.constant(0.0, f32)] * (2 * layout.tiles)
    if layout.whole:
        k.copy_async_wait(layout.stages - 1)
        k.barrier()
        row_blocks = _Blocks(k, layout, ring, 0, held=_PRELOADED_PAIRS)
        k.dependency_wait()
        for stage in range(layout.stages):
            vector.convert(slice_ + stage * slices)
            k.copy_async_wait(layout.stages - 1 - stage)
            k.barrier()
            if stage:
                row_blocks = _Blocks(k, layout, ring, stage)
            totals = row_blocks.products(vector, totals)
            if stage + 1 < layout.stages:
                k.barrier()
    else:
        k.dependency_wait()
        steps = (((blocks_per_row + 1) >> 1) + (slices - 1)) >> log2(slices)
        with k.range(0, steps, carry=tuple(totals)) as loop:
            vector.convert(loop.index * slices + slice_)
            k.copy_async_wait(layout.stages - 1)
            k.barrier()
            ring_stage = loop.index & (layout.stages - 1)
            totals = _Blocks(k, layout, ring, ring_stage).products(vector, loop.carried)
            k.barrier()
            later_step = loop.index + layout.stages
            with k.if_(later_step < steps):
                ring.copy(later_step * slices + slice_, ring_stage)
            k.copy_async_commit()
            loop.next(tuple(totals))
        totals = loop.results
    sums_offset = slice_ * layout.rows + group_row + (lane_of(k) >> 2)
    for index, total in enumerate(totals):
        for bit in (1, 2):
            total = total + k.shuffle(total, lane_of(k) ^ bit)
        with k.if_((lane_of(k) & 3) == 0):
            sum_buffer[sums_offset + _HALF * index] = total
    k.barrier()
    row = first_row + k.local_id()
    with k.if_((k.local_id() < layout.rows) & (row < rows)):
        y[row] = sum_of(
            [sum_buffer[k.local_id() + slice_index * layout.rows] for slice_index in range(slices)]
        )


class _Ring:
    """The blocks of a subgroup's rows in shared memory, two of each row."""

    def __init__(
        self, k: Builder, layout: CoreLayout, rows: Value, blocks_per_row: Value, blocks: Value,
        first: Value,
    ) -> None:  # fmt: skip
        self._k = k
        subgroup_words = layout.tiles * ROWS * PITCH
        self._stage = layout.slices * layout.groups * subgroup_words
        self.room = k.shared(u32, layout.stages * self._stage)
        lane = lane_of(k)
        self._subgroup_offset = (k.local_id() >> 5) * subgroup_words
        self._source = blocks.cast(u32)
        self._chunks_per_row = blocks_per_row * (_BLOCK // 4)
        # 32 lanes copy 8 adjacent chunks of 4 rows, then the next 8; the last 2 chunks of a row are
        # copied for 16 rows at a time.
        row_chunks = [(lane >> 3, lane & 7, 4)] * (ROWS // 4)
        self._copies = []
        for tile in range(layout.tiles):
            for copy_index, (row, chunk, rows_per_copy) in enumerate(
                [*row_chunks, (lane >> 1, lane & 1, 0)]
            ):
                line = row + (ROWS * tile + copy_index * rows_per_copy)
                source = k.minimum(first + line, rows - 1) * self._chunks_per_row
                chunk_offsets = (0, 8) if rows_per_copy else (16,)
                self._copies += [
                    (line * PITCH, source, chunk + chunk_offset) for chunk_offset in chunk_offsets
                ]

    def copy(self, unit: Value, stage: Value | int) -> None:
        """Start to copy blocks 2 * unit and 2 * unit + 1 of the subgroup's rows, or zeros."""
        k, start = self._k, self._subgroup_offset + stage * self._stage
        first_chunk = unit * _CHUNKS
        for line, source, chunk in self._copies:
            row_chunk = first_chunk + chunk
            k.copy_async(
                self.room, start + line + chunk * 4, self._source, (source + row_chunk) * 4, 4,
                where=row_chunk < self._chunks_per_row,
            )  # fmt: skip

    def line(self, stage: Value | int, tile: int) -> list[Value]:
        """Return the offsets of the instance's two rows of a tile."""
        row = lane_of(self._k) >> 2
        start = self._subgroup_offset + stage * self._stage + row * PITCH
        return [start + (ROWS * tile + half) * PITCH for half in (0, _HALF)]


class _Blocks:
    """Two blocks of each of this instance's rows: the operands that do not depend on the vector.

    The first `held` of the four pairs of groups are in registers, the others in shared memory.
    """

    def __init__(
        self, k: Builder, layout: CoreLayout, ring: _Ring, stage: Value | int, *, held: int = 0
    ) -> None:
        self._k, self._tiles, self._ring = k, layout.tiles, ring
        self._lines = [line for tile in range(layout.tiles) for line in ring.line(stage, tile)]
        self._quarter = lane_of(k) & 3
        upper = self._quarter >> 1
        headers = [
            [k.load(ring.room, line + _BLOCK * block, 4) for line in self._lines]
            for block in range(2)
        ]
        self._scales = [
            [_scales(k, header, upper) for header in row_headers] for row_headers in headers
        ]
        self._sizes = [
            [k.unpack_f16(header[0])[0] for header in row_headers] for row_headers in headers
        ]
        selected_headers = [
            [k.select(upper == 1, high, low) for low, high in zip(*blocks_of_row, strict=True)]
            for blocks_of_row in zip(*headers, strict=True)
        ]
        self._minima = [_minima(k, header, self._quarter & 1) for header in selected_headers]
        self._minimum_scales = [
            k.unpack_f16(header[0])[1] * -float(BYTES) for header in selected_headers
        ]
        self._preloaded = [self._load_pair(pair) for pair in range(held)]

    def _load_pair(self, pair: int) -> list[Values]:
        """Load this instance's 4-bit values of a pair of groups, 16 bytes per row."""
        offset = _BLOCK * (pair // 2) + 4 + 16 * (pair % 2)
        return [
            self._k.load(self._ring.room, line + offset + self._quarter * 4, 4)
            for line in self._lines
        ]

    def products(self, vector: VectorBytes, partial_sums: Sequence[Value]) -> list[Value]:
        """Return the partial sums plus the rows' products with the vector."""
        k = self._k
        totals, vector_scales = list(partial_sums), vector.scales()
        for block in range(2):
            sums: list[Value] = [k.constant(0, i32)] * (2 * len(self._lines))
            for pair in (2 * block, 2 * block + 1):
                in_registers = pair < len(self._preloaded)
                quants = self._preloaded[pair] if in_registers else self._load_pair(pair)
                for high in range(2):
                    self._add(sums, quants, vector.words(pair, high), pair, high)
            for row, size in enumerate(self._sizes[block]):
                joined = _joined(k, sums[2 * row : 2 * row + 2])
                totals[row] = k.fma(vector_scales[block], size * joined, totals[row])
        zero_word, zero = k.constant(0, u32), k.constant(0, i32)
        block_scale = k.select((self._quarter >> 1) == 1, vector_scales[1], vector_scales[0])
        sums_of_x = vector.sums()
        for tile in range(self._tiles):
            a = (*self._minima[2 * tile : 2 * tile + 2], zero_word, zero_word)
            minimum_products = k.mma(i8, a, (sums_of_x, zero_word), [zero] * 4)
            for half in range(2):
                row = 2 * tile + half
                minimum_sum = _joined(k, minimum_products[2 * half : 2 * half + 2])
                totals[row] = k.fma(
                    block_scale, self._minimum_scales[row] * minimum_sum, totals[row]
                )
        return totals

    def _add(
        self, sums: list[Value], quants: list[Values], bytes_of_x: Values, pair: int, high: int
    ) -> None:
        """Add the products of a run of two groups, times their scales."""
        k = self._k
        scales = self._scales[pair // 2]
        for tile in range(self._tiles):
            low, low_below = (
                [(word >> 4 * high) & each_byte(15) for word in quants[2 * tile + half]]
                for half in range(2)
            )
            products: Sequence[Value] = [k.constant(0, i32)] * 4
            for half in (0, 2):
                a = (low[half], low_below[half], low[half + 1], low_below[half + 1])
                products = k.mma(i8, a, bytes_of_x[half : half + 2], products)
            for index, value in enumerate(products):
                scale = scales[2 * tile + index // 2][2 * (pair % 2) + high]
                sums[4 * tile + index] = sums[4 * tile + index] + scale * value


def _joined(k: Builder, bytes_: Sequence[Value]) -> Value:
    """Combine a sum of lower bytes and a sum of upper bytes into one number."""
    low, high = (value.cast(f32) for value in bytes_)
    return k.fma(high, k.constant(256.0, f32), low)


def _scales(k: Builder, header: Sequence[Value], upper: Value) -> list[Value]:
    """Return the scales of two runs of groups 0 and 2, or of 1 and 3 if `upper` is 1.

    header: The first four words of a block; `types.k_scales` has their layout.
    """
    _, a, _, c = header
    a, c = a >> upper * 16, c >> upper * 16
    pairs = (a & 0x3F3F, c & 0x0F0F | (a >> 2) & 0x3030)
    return [k.bitcast(number, i32) for pair in pairs for number in (pair & 255, pair >> 8)]


def _minima(k: Builder, header: Sequence[Value], upper: Value) -> Value:
    """Return the minima of the first or the last (`upper`) four runs of a block, as bytes."""
    _, _, b, c = header
    first = b & each_byte(0x3F)
    last = (c >> 4) & each_byte(0x0F) | (b >> 2) & each_byte(0x30)
    return k.select(upper == 1, last, first)


MULTIPLY_ON_CORES = {
    element: definition(
        f"multiply_blocks_on_cores{'' if element is f32 else f'_{element}'}", _multiply,
        constant=("blocks",), rows=u32, blocks_per_row=u32, blocks=pointer(u8), x=pointer(element),
        y=pointer(element),
    )
    for element in TYPES
}  # fmt: skip
"""The kernels by the type of the vector and of the result."""

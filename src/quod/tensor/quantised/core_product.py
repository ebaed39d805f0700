"""The product of a Q4_K matrix by a vector on tensor cores, with exact integer sums.

The 4-bit values of a row are bytes, and so are the vector's elements (see `core_vector`). An MMA
adds the 32 elements of a run, which share a scale of six bits, so that a whole block is summed
without error and rounded once, to f32. The minima of two blocks take one MMA: minima by sums of the
vector's elements.

A subgroup has one or more tiles of 16 rows, and takes two blocks of each at a time. All copies of
blocks to shared memory start before the first product, or `stages` ahead.
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
"""Words of a block: 4 with its scales, and 32."""
_PIECES = 18
"""Copies of 16 bytes in two blocks."""
_HELD = 1
"""The pairs of groups, of four in two blocks, that are loaded before the vector arrives."""


def _multiply(
    k: Builder, rows: Value, blocks_per_row: Value, blocks: Value, x: Value, y: Value, *,
    layout: CoreLayout,
) -> None:  # fmt: skip
    """y = the matrix times x, in blocks of Q4_K."""
    k.resident_workgroups(layout.resident)
    first, count = k.workgroup_id() * layout.rows, layout.slices
    subgroup = k.local_id() >> 5
    slice_ = subgroup & (count - 1)
    of_group = (subgroup >> log2(count)) * (layout.tiles * ROWS)
    ring = _Ring(k, layout, rows, blocks_per_row, blocks, first + of_group)
    vector = VectorBytes(k, layout, blocks_per_row, x, slice_)
    room = k.shared(f32, count * layout.rows)
    for stage in range(layout.stages):
        ring.copy(k.constant(stage, u32) * count + slice_, stage)
        k.copy_async_commit()
    # The previous launch may store the vector, but not the blocks.
    k.launch_dependents()
    totals: Sequence[Value] = [k.constant(0.0, f32)] * (2 * layout.tiles)
    if layout.whole:
        k.copy_async_wait(layout.stages - 1)
        k.barrier()
        of_rows = _Blocks(k, layout, ring, 0, held=_HELD)
        k.dependency_wait()
        for stage in range(layout.stages):
            vector.convert(slice_ + stage * count)
            k.copy_async_wait(layout.stages - 1 - stage)
            k.barrier()
            if stage:
                of_rows = _Blocks(k, layout, ring, stage)
            totals = of_rows.products(vector, totals)
            if stage + 1 < layout.stages:
                k.barrier()
    else:
        k.dependency_wait()
        steps = (((blocks_per_row + 1) >> 1) + (count - 1)) >> log2(count)
        with k.range(0, steps, carry=tuple(totals)) as loop:
            vector.convert(loop.index * count + slice_)
            k.copy_async_wait(layout.stages - 1)
            k.barrier()
            place = loop.index & (layout.stages - 1)
            totals = _Blocks(k, layout, ring, place).products(vector, loop.carried)
            k.barrier()
            after = loop.index + layout.stages
            with k.if_(after < steps):
                ring.copy(after * count + slice_, place)
            k.copy_async_commit()
            loop.next(tuple(totals))
        totals = loop.results
    sums_offset = slice_ * layout.rows + of_group + (lane_of(k) >> 2)
    for number, total in enumerate(totals):
        for bit in (1, 2):
            total = total + k.shuffle(total, lane_of(k) ^ bit)
        with k.if_((lane_of(k) & 3) == 0):
            room[sums_offset + _HALF * number] = total
    k.barrier()
    row = first + k.local_id()
    with k.if_((k.local_id() < layout.rows) & (row < rows)):
        y[row] = sum_of([room[k.local_id() + each * layout.rows] for each in range(count)])


class _Ring:
    """The blocks of a subgroup's rows in shared memory, two of each row."""

    def __init__(
        self, k: Builder, layout: CoreLayout, rows: Value, blocks_per_row: Value, blocks: Value,
        first: Value,
    ) -> None:  # fmt: skip
        self._k = k
        size = layout.tiles * ROWS * PITCH
        self._stage = layout.slices * layout.groups * size
        self.room = k.shared(u32, layout.stages * self._stage)
        lane = lane_of(k)
        self._own = (k.local_id() >> 5) * size
        self._source = blocks.cast(u32)
        self._pieces = blocks_per_row * (_BLOCK // 4)
        # For each 4 rows twice 8 adjacent copies; for each 16 rows the last two copies.
        shares = [(lane >> 3, lane & 7, 4)] * (ROWS // 4)
        self._shares = []
        for tile in range(layout.tiles):
            for number, (row, piece, lines) in enumerate([*shares, (lane >> 1, lane & 1, 0)]):
                line = row + (ROWS * tile + number * lines)
                source = k.minimum(first + line, rows - 1) * self._pieces
                places = (0, 8) if lines else (16,)
                self._shares += [(line * PITCH, source, piece + place) for place in places]

    def copy(self, unit: Value, stage: Value | int) -> None:
        """Start the copies of this subgroup's two blocks, with zeros beyond the row's end."""
        k, start = self._k, self._own + stage * self._stage
        behind = unit * _PIECES
        for line, source, piece in self._shares:
            at = behind + piece
            k.copy_async(
                self.room, start + line + piece * 4, self._source, (source + at) * 4, 4,
                where=at < self._pieces,
            )  # fmt: skip

    def line(self, stage: Value | int, tile: int) -> list[Value]:
        """Return the offsets of the instance's two rows of a tile."""
        row = lane_of(self._k) >> 2
        start = self._own + stage * self._stage + row * PITCH
        return [start + (ROWS * tile + half) * PITCH for half in (0, _HALF)]


class _Blocks:
    """Two blocks of each of this instance's rows: all that does not depend on the vector.

    The first `held` of the four pairs of groups are in registers, the others in shared memory.
    """

    def __init__(
        self, k: Builder, layout: CoreLayout, ring: _Ring, stage: Value | int, *, held: int = 0
    ) -> None:
        self._k, self._tiles, self._ring = k, layout.tiles, ring
        self._lines = [line for tile in range(layout.tiles) for line in ring.line(stage, tile)]
        self._of_four = lane_of(k) & 3
        upper = self._of_four >> 1
        heads = [
            [k.load(ring.room, line + _BLOCK * block, 4) for line in self._lines]
            for block in range(2)
        ]
        self._scales = [[_scales(k, head, upper) for head in of_rows] for of_rows in heads]
        self._sizes = [[k.unpack_f16(head[0])[0] for head in of_rows] for of_rows in heads]
        selected_heads = [
            [k.select(upper == 1, high, low) for low, high in zip(*both, strict=True)]
            for both in zip(*heads, strict=True)
        ]
        self._minima = [_minima(k, head, self._of_four & 1) for head in selected_heads]
        self._least = [k.unpack_f16(head[0])[1] * -float(BYTES) for head in selected_heads]
        self._held = [self._loaded(pair) for pair in range(held)]

    def _loaded(self, pair: int) -> list[Values]:
        at = _BLOCK * (pair // 2) + 4 + 16 * (pair % 2)
        return [
            self._k.load(self._ring.room, line + at + self._of_four * 4, 4) for line in self._lines
        ]

    def products(self, vector: VectorBytes, partial_sums: Sequence[Value]) -> list[Value]:
        """Return the sums plus the rows' products with the vector."""
        k = self._k
        totals, backs = list(partial_sums), vector.scales()
        for block in range(2):
            sums: list[Value] = [k.constant(0, i32)] * (2 * len(self._lines))
            for number in (2 * block, 2 * block + 1):
                held = number < len(self._held)
                quants = self._held[number] if held else self._loaded(number)
                for high in range(2):
                    self._add(sums, quants, vector.words(number, high), number, high)
            for row, size in enumerate(self._sizes[block]):
                joined = _joined(k, sums[2 * row : 2 * row + 2])
                totals[row] = k.fma(backs[block], size * joined, totals[row])
        none, zero = k.constant(0, u32), k.constant(0, i32)
        block_scale = k.select((self._of_four >> 1) == 1, backs[1], backs[0])
        sums_of_x = vector.sums()
        for tile in range(self._tiles):
            a = (*self._minima[2 * tile : 2 * tile + 2], none, none)
            minimum_products = k.mma(i8, a, (sums_of_x, none), [zero] * 4)
            for half in range(2):
                row = 2 * tile + half
                less = _joined(k, minimum_products[2 * half : 2 * half + 2])
                totals[row] = k.fma(block_scale, self._least[row] * less, totals[row])
        return totals

    def _add(
        self, sums: list[Value], quants: list[Values], bytes_of_x: Values, pair: int, high: int
    ) -> None:
        """Add the products of a run of two groups, times their scales."""
        k = self._k
        scales = self._scales[pair // 2]
        for tile in range(self._tiles):
            low, up = (
                [(word >> 4 * high) & each_byte(15) for word in quants[2 * tile + half]]
                for half in range(2)
            )
            products: Sequence[Value] = [k.constant(0, i32)] * 4
            for half in (0, 2):
                a = (low[half], up[half], low[half + 1], up[half + 1])
                products = k.mma(i8, a, bytes_of_x[half : half + 2], products)
            for number, value in enumerate(products):
                scale = scales[2 * tile + number // 2][2 * (pair % 2) + high]
                sums[4 * tile + number] = sums[4 * tile + number] + scale * value


def _joined(k: Builder, bytes_: Sequence[Value]) -> Value:
    """Combine the sums of lower and of upper bytes into one number."""
    low, high = (value.cast(f32) for value in bytes_)
    return k.fma(high, k.constant(256.0, f32), low)


def _scales(k: Builder, head: Sequence[Value], upper: Value) -> list[Value]:
    """Return the scales of two runs of groups 0 and 2, or of 1 and 3 if `upper` is 1."""
    _, a, _, c = head
    a, c = a >> upper * 16, c >> upper * 16
    pairs = (a & 0x3F3F, c & 0x0F0F | (a >> 2) & 0x3030)
    return [k.bitcast(number, i32) for pair in pairs for number in (pair & 255, pair >> 8)]


def _minima(k: Builder, head: Sequence[Value], upper: Value) -> Value:
    """Return the minima of the first or the last four runs of a block, as bytes."""
    _, _, b, c = head
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

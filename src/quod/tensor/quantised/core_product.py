"""The product of a matrix of Q4_K by a vector on tensor cores: exact sums of integers.

A row's four bits are bytes, and so are the vector's elements (see `core_vector`). A product of
small matrices adds up the 32 elements of a run, which have one scale of six bits: so all of a block
is added up without an error, and rounded when f32 is made of it. What minima take off is one
product of small matrices for two blocks: of minima by sums of the vector's elements.

A subgroup has 16 rows, or several times so many, and takes two blocks of each at a time. Copies of
blocks to shared memory are all begun before anything is multiplied, or `stages` ahead.
"""

from __future__ import annotations

from collections.abc import Sequence

from quod.kernel import Builder, Value, f32, i8, i32, pointer, u8, u32
from quod.tensor.definitions import definition
from quod.tensor.gemm_tiles import log2
from quod.tensor.quads import lane_of
from quod.tensor.quantised.core_layout import PITCH, ROWS, CoreLayout
from quod.tensor.quantised.core_vector import VectorBytes
from quod.tensor.quantised.decoders import each_byte
from quod.tensor.quantised.packed import BYTES
from quod.tensor.quantised.product import sum_of

_HALF = 8
"""Rows between the two that an instance has of a small matrix."""
_BLOCK = 36
"""Words of a block: 4 that say its scales, and 32."""
_PIECES = 18
"""Copies of 16 bytes that two blocks are."""


def _multiply(
    k: Builder, rows: Value, blocks_per_row: Value, blocks: Value, x: Value, y: Value, *,
    layout: CoreLayout,
) -> None:  # fmt: skip
    """y = the matrix by x, of blocks of Q4_K."""
    k.resident_workgroups(layout.resident)
    first, count = k.workgroup_id() * layout.rows, layout.slices
    subgroup, of_four = k.local_id() >> 5, lane_of(k) & 3
    slice_ = subgroup & (count - 1)
    of_group = (subgroup >> log2(count)) * (layout.tiles * ROWS)
    ring = _Ring(k, layout, rows, blocks_per_row, blocks, first + of_group)
    vector = VectorBytes(k, layout, blocks_per_row, x, slice_)
    room = k.shared(f32, count * layout.rows)
    for stage in range(layout.stages):
        ring.copy(k.constant(stage, u32) * count + slice_, stage)
        k.copy_async_commit()
    # The vector is what the launch before this one stores, and blocks are not.
    k.launch_dependents()
    k.dependency_wait()
    totals: Sequence[Value] = [k.constant(0.0, f32)] * (2 * layout.tiles)
    if layout.whole:
        for stage in range(layout.stages):
            vector.convert(slice_ + stage * count)
            k.copy_async_wait(layout.stages - 1 - stage)
            k.barrier()
            totals = _products(k, layout, ring, vector, stage, totals)
            if stage + 1 < layout.stages:
                k.barrier()
    else:
        steps = (((blocks_per_row + 1) >> 1) + (count - 1)) >> log2(count)
        with k.range(0, steps, carry=tuple(totals)) as loop:
            vector.convert(loop.index * count + slice_)
            k.copy_async_wait(layout.stages - 1)
            k.barrier()
            place = loop.index & (layout.stages - 1)
            totals = _products(k, layout, ring, vector, place, loop.carried)
            k.barrier()
            after = loop.index + layout.stages
            with k.if_(after < steps):
                ring.copy(after * count + slice_, place)
            k.copy_async_commit()
            loop.next(tuple(totals))
        totals = loop.results
    own = slice_ * layout.rows + of_group + (lane_of(k) >> 2)
    for number, total in enumerate(totals):
        for bit in (1, 2):
            total = total + k.shuffle(total, lane_of(k) ^ bit)
        with k.if_(of_four == 0):
            room[own + _HALF * number] = total
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
        # Of 4 rows 8 copies side by side, twice; and of 16 rows the last two.
        shares = [(lane >> 3, lane & 7, 4)] * (ROWS // 4)
        self._shares = []
        for tile in range(layout.tiles):
            for number, (row, piece, lines) in enumerate([*shares, (lane >> 1, lane & 1, 0)]):
                line = row + (ROWS * tile + number * lines)
                source = k.minimum(first + line, rows - 1) * self._pieces
                places = (0, 8) if lines else (16,)
                self._shares += [(line * PITCH, source, piece + place) for place in places]

    def copy(self, unit: Value, stage: Value | int) -> None:
        """Begins the copies of this subgroup's two blocks, zeros beyond the row's end."""
        k, start = self._k, self._own + stage * self._stage
        behind = unit * _PIECES
        for line, source, piece in self._shares:
            at = behind + piece
            k.copy_async(
                self.room, start + line + piece * 4, self._source, (source + at) * 4, 4,
                where=at < self._pieces,
            )  # fmt: skip

    def line(self, stage: Value | int, tile: int) -> list[Value]:
        """Where the two rows of a tile begin that this instance has."""
        row = lane_of(self._k) >> 2
        start = self._own + stage * self._stage + row * PITCH
        return [start + (ROWS * tile + half) * PITCH for half in (0, _HALF)]


def _products(
    k: Builder, layout: CoreLayout, ring: _Ring, vector: VectorBytes, stage: Value | int,
    given: Sequence[Value],
) -> list[Value]:  # fmt: skip
    """With the sums of two blocks of each of this instance's rows, two of each tile."""
    lines = [line for tile in range(layout.tiles) for line in ring.line(stage, tile)]
    of_four = lane_of(k) & 3
    upper = (of_four >> 1) == 1
    heads = [[k.load(ring.room, line + _BLOCK * block, 4) for line in lines] for block in range(2)]
    totals, backs = list(given), vector.scales()
    zero = k.constant(0, i32)
    for block in range(2):
        sums: list[Value] = [zero] * (2 * len(lines))
        scales = [_scales(k, head, of_four >> 1) for head in heads[block]]
        for pair in range(2):
            at = _BLOCK * block + 4 + 16 * pair
            quants = [k.load(ring.room, line + at + of_four * 4, 4) for line in lines]
            for high in range(2):
                bytes_of_x = vector.words(block, pair, high)
                for tile in range(layout.tiles):
                    low, up = (
                        [(word >> 4 * high) & each_byte(15) for word in quants[2 * tile + half]]
                        for half in range(2)
                    )
                    found: Sequence[Value] = [zero] * 4
                    for half in (0, 2):
                        a = (low[half], up[half], low[half + 1], up[half + 1])
                        found = k.mma(i8, a, bytes_of_x[half : half + 2], found)
                    for number, value in enumerate(found):
                        scale = scales[2 * tile + number // 2][2 * pair + high]
                        sums[4 * tile + number] = sums[4 * tile + number] + scale * value
        for row, head in enumerate(heads[block]):
            scale, _ = k.unpack_f16(head[0])
            joined = _joined(k, sums[2 * row : 2 * row + 2])
            totals[row] = k.fma(backs[block], scale * joined, totals[row])
    own = [
        [k.select(upper, high, low) for low, high in zip(*both, strict=True)]
        for both in zip(*heads, strict=True)
    ]
    minima = [_minima(k, head, of_four & 1) for head in own]
    none, by = k.constant(0, u32), k.select(upper, backs[1], backs[0]) * -float(BYTES)
    sums_of_x = vector.sums()
    for tile in range(layout.tiles):
        a = (minima[2 * tile], minima[2 * tile + 1], none, none)
        found = k.mma(i8, a, (sums_of_x, none), [zero] * 4)
        for half in range(2):
            row = 2 * tile + half
            _, least = k.unpack_f16(own[row][0])
            less = _joined(k, found[2 * half : 2 * half + 2])
            totals[row] = k.fma(by, least * less, totals[row])
    return totals


def _joined(k: Builder, bytes_: Sequence[Value]) -> Value:
    """The number that sums of lower and of upper bytes are."""
    low, high = (value.cast(f32) for value in bytes_)
    return k.fma(high, k.constant(256.0, f32), low)


def _scales(k: Builder, head: Sequence[Value], upper: Value) -> list[Value]:
    """The scales of two runs of groups 0 and 2, or 1 and 3."""
    _, a, _, c = head
    a, c = a >> upper * 16, c >> upper * 16
    pairs = (a & 0x3F3F, c & 0x0F0F | (a >> 2) & 0x3030)
    return [k.bitcast((pair >> shift) & 255, i32) for pair in pairs for shift in (0, 8)]


def _minima(k: Builder, head: Sequence[Value], upper: Value) -> Value:
    """The minima of four runs, the first or the last of a block, in bytes."""
    _, _, b, c = head
    first = b & each_byte(0x3F)
    last = (c >> 4) & each_byte(0x0F) | (b >> 2) & each_byte(0x30)
    return k.select(upper == 1, last, first)


MULTIPLY_ON_CORES = definition(
    "multiply_blocks_on_cores", _multiply, constant=("blocks",), rows=u32, blocks_per_row=u32, blocks=pointer(u8),
    x=pointer(f32), y=pointer(f32),
)  # fmt: skip
"""The kernel."""

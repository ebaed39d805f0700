"""The kernels of transpositions: tiles through shared memory, and rows copied whole.

Elements are moved as unsigned words of their size. Four 8-bit or two 16-bit elements share a word,
and an instance transposes a block of as many words in registers. Columns of the tile in
shared memory are XORed with the line number, so that neither lines nor columns have bank conflicts
(after Ruetsch and Micikevicius, Optimizing matrix transpose in CUDA, 2009, who pad the tile).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from quod.frozen import frozen
from quod.kernel import Builder, KernelDefinition, Location, Value, pointer, u32, u64
from quod.kernel.ir.types import Type
from quod.kernel.ir.value import ParameterType
from quod.kernel.machine import Capability
from quod.kernel.registry import register
from quod.tensor.arrays import WORDS
from quod.tensor.rows.groups import accesses_in_step, own_accesses, own_rows, rows_in_step
from quod.tensor.rows.plan import GroupPlan


@frozen
class TransposePlan:
    """The tile of a workgroup of `lanes` instances.

    lanes: Instances of a workgroup.
    vector: Elements of a word, and rows of a block: a block is `vector` words.
    side: Blocks along each side of the tile.
    """

    lanes: int
    vector: int
    side: int = 32

    def groups(self, rows: int, columns: int) -> int:
        """Return the workgroups for a matrix of `rows` by `columns` blocks."""
        return -(-rows // self.side) * -(-columns // self.side)


def _load_stride(k: Builder, layout: Value, offset: int) -> Value:
    """Load a 64-bit stride, stored as two words of the layout."""
    low, high = k.load(layout, offset, 2)
    return low.cast(u64) | high.cast(u64) << 32


def _offset(index: Value, sizes: Sequence[Value], strides: Sequence[Value]) -> Value:
    """Return the offset of element `index` of axes `sizes`, of which the first varies fastest."""
    offset = index.cast(u64) * 0
    for size, stride in zip(sizes, strides, strict=True):
        offset += (index % size).cast(u64) * stride
        index //= size
    return offset


def _rows(
    k: Builder, rows: Value, width: Value, piece: Value, x: Value, y: Value, layout: Value, *,
    unit: Type, axes: int, cut: bool, plan: GroupPlan,
) -> None:  # fmt: skip
    """Copy permuted rows of `width` accesses; with `cut`, in chunks of `piece` accesses.

    layout: For each other axis of y, the last one first, its size and its 64-bit stride in x, in
    units of the type `unit`.
    """
    words = plan.vector
    sizes = [k.load(layout, 3 * axis)[0] for axis in range(axes)]
    strides = [_load_stride(k, layout, 3 * axis + 1) for axis in range(axes)]
    chunks = (width + (piece - 1)) // piece if cut else k.constant(1, u32)

    def row_copy(index: Value) -> tuple[Value, Callable[[Value], None]]:
        """Return the accesses of a row or chunk, and the function that copies one of them."""
        row, start = index // chunks, index % chunks * piece
        source = k.pointer_add(x.cast(unit), _offset(row, sizes, strides))
        target = k.pointer_add(y.cast(unit), row.cast(u64) * (width * words).cast(u64))
        if cut:
            source, target = (
                k.pointer_add(pointer_, start * words) for pointer_ in (source, target)
            )
        count = k.minimum(width - start, piece) if cut else width
        return count, lambda access: k.store(
            target, access * words, *k.load(source, access * words, words)
        )

    if plan.threads == plan.lanes:
        with rows_in_step(k, plan, rows) as loop:
            accesses_in_step(k, plan, *row_copy(loop.index))
        return
    with own_rows(k, plan, rows) as loop:
        count, copy = row_copy(loop.index)
        with own_accesses(k, plan, count) as items:
            copy(items.index)


class _Tile:
    """A tile of blocks in shared memory, one plane for each word of a block."""

    def __init__(self, k: Builder, unit: Type, plan: TransposePlan) -> None:
        self._k, self._is_cpu = k, k.machine.has(Capability.VECTOR_LANES)
        self._side, self._pitch = plan.side, plan.side + self._is_cpu
        word_type = u64 if unit is u64 else u32
        self._planes = [k.shared(word_type, plan.side * self._pitch) for _ in range(plan.vector)]
        self._columns_at_once = min(plan.lanes, plan.side)
        self._lines_at_once = plan.lanes // self._columns_at_once

    def each(self, body: Callable[[Value, Value], None]) -> None:
        """Call `body` with the line and column of each block that this instance moves."""
        k = self._k

        def visit_line(line: Value) -> None:
            for start in range(0, self._side, self._columns_at_once):
                body(line, k.local_id() % self._columns_at_once + start)

        if self._is_cpu:
            with k.range(0, self._side) as loop:
                visit_line(loop.index)
            return
        for line in range(0, self._side, self._lines_at_once):
            visit_line(k.local_id() // self._columns_at_once + line)

    def put(self, line: Value, column: Value, words: Sequence[Value]) -> None:
        for plane, word in zip(self._planes, words, strict=True):
            plane[self._offset_of(line, column)] = word

    def get(self, line: Value, column: Value) -> list[Value]:
        return [plane[self._offset_of(line, column)] for plane in self._planes]

    def _offset_of(self, line: Value, column: Value) -> Value:
        return line * self._pitch + (column if self._is_cpu else column ^ line)


def _tiles(
    k: Builder, rows: Value, columns: Value, x: Value, y: Value, layout: Value, *, unit: Type,
    axes: int, plan: TransposePlan,
) -> None:  # fmt: skip
    """Transpose blocks through shared memory: y[.., c, .., r] = x[.., r, .., c].

    layout: The stride of rows in x, that of columns in y, then for each other axis its size and its
    strides in x and y; in words.
    """
    side, vector = plan.side, plan.vector
    tile_columns, tile_rows = (columns + (side - 1)) // side, (rows + (side - 1)) // side
    tile, batch_index = (
        k.workgroup_id() % (tile_rows * tile_columns),
        k.workgroup_id() // (tile_rows * tile_columns),
    )
    row, column = tile // tile_columns * side, tile % tile_columns * side
    sizes = [k.load(layout, 4 + 5 * axis)[0] for axis in range(axes)]
    lines, line_strides = [], []
    for side_index, memory in enumerate((x, y)):
        strides = [_load_stride(k, layout, 5 + 5 * axis + 2 * side_index) for axis in range(axes)]
        lines.append(k.pointer_add(memory.cast(unit), _offset(batch_index, sizes, strides)))
        line_strides.append(_load_stride(k, layout, 2 * side_index))
    shared = _Tile(k, unit, plan)

    def below(side_index: int, block: Value) -> list[Value]:
        """Return pointers to the `vector` lines of a block."""
        first_line = (block * vector).cast(u64)
        return [
            k.pointer_add(
                lines[side_index], (first_line + line_in_block) * line_strides[side_index]
            )
            for line_in_block in range(vector)
        ]

    def load(line: Value, block_column: Value, *, unmasked: bool) -> None:
        def move() -> None:
            loaded = [line_pointer[column + block_column] for line_pointer in below(0, row + line)]
            shared.put(line, block_column, _transpose_words(loaded))

        _move_if(
            k, (row + line < rows) & (column + block_column < columns), move, unmasked=unmasked
        )

    def store(line: Value, block_column: Value, *, unmasked: bool) -> None:
        def move() -> None:
            loaded = shared.get(block_column, line)
            for line_pointer, value in zip(below(1, column + line), loaded, strict=True):
                line_pointer[row + block_column] = value

        _move_if(
            k, (row + block_column < rows) & (column + line < columns), move, unmasked=unmasked
        )

    is_full = (row + side <= rows) & (column + side <= columns)
    for body in (load, store):
        with k.if_(is_full):
            shared.each(partial(body, unmasked=True))
        with k.if_(~is_full):
            shared.each(partial(body, unmasked=False))
        k.barrier()


def _move_if(k: Builder, in_range: Value, move: Callable[[], None], *, unmasked: bool) -> None:
    """Call `move`, under the condition `in_range` unless `unmasked`."""
    if unmasked:
        move()
        return
    with k.if_(in_range):
        move()


def _transpose_words(words: list[Value]) -> list[Value]:
    """Transpose the 2 x 2 or 4 x 4 elements packed in two or four words."""
    transposed_words, distance = list(words), len(words) // 2
    shift = 16
    while distance:
        mask = 0x0000FFFF if shift == 16 else 0x00FF00FF
        for low in (index for index in range(len(transposed_words)) if not index & distance):
            a, b = transposed_words[low], transposed_words[low + distance]
            transposed_words[low] = (a & mask) | (b & mask) << shift
            transposed_words[low + distance] = (a >> shift & mask) | (b & (mask << shift))
        distance, shift = distance // 2, shift // 2
    return transposed_words


def _kernel(name: str, numbers: str, size: int) -> KernelDefinition:
    body = _tiles if name == "tiles" else _rows
    parameters: dict[str, ParameterType] = dict.fromkeys(numbers.split(), u32)
    parameters |= dict.fromkeys("xy", pointer(WORDS[size])) | {"layout": pointer(u32)}
    location = Location(body.__code__.co_filename, body.__code__.co_firstlineno)
    return KernelDefinition(f"transpose_{name}_{size}", body, parameters, location)


TILES = {size: _kernel("tiles", "rows columns", size) for size in WORDS}
ROWS = {size: _kernel("rows", "rows width piece", size) for size in WORDS}
"""The kernels by element size in bytes."""

for _size, _vector in ((1, 4), (2, 2), (4, 1)):
    register(
        f"tensor.transpose_tiles_{_size}", TILES[_size], unit=u32, axes=1,
        plan=TransposePlan(256, _vector, 16 if _vector == 4 else 32),
    )  # fmt: skip
register(
    "tensor.transpose_rows_4", ROWS[4], unit=u32, axes=2, cut=True,
    plan=GroupPlan(lanes=8, threads=8, vector=4, rows=1),
)  # fmt: skip

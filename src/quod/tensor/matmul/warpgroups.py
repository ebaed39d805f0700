"""The matrix product by warpgroups, with tiles copied by the TMA unit.

Tiles of K are in a ring in shared memory. While the products of one tile run, the next tile's
products are issued, and a copy overwrites the previous tile. The workgroups of a cluster compute
tiles of C in the same columns. They need the same tile of B, so each copies a part of it by
multicast. The structure follows the main loop for Hopper of CUTLASS ("Efficient GEMM in CUDA"),
without its warps that only copy.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import NamedTuple

from quod.device.memory.tensor_map import MAP_BYTES
from quod.kernel import (
    Builder,
    KernelDefinition,
    Location,
    Value,
    bf16,
    f16,
    f32,
    pointer,
    u32,
    u64,
)
from quod.kernel.builder.tiles import TiledArray, TileOperand
from quod.kernel.ir.types import Type, loaded_type
from quod.kernel.ir.value import ParameterType
from quod.kernel.ops.tile import LINE, LOG2_WARPGROUP, MATRIX_DEPTH, MATRIX_ROWS
from quod.tensor.accesses import Accesses, Values
from quod.tensor.matmul.epilogue import completed
from quod.tensor.matmul.form import GemmForm
from quod.tensor.matmul.mma_fragments import QUAD, lane_of, transposed
from quod.tensor.matmul.plan import TILE_DEPTH, TilePlan
from quod.tensor.matmul.tiles import in_halves

_WORDS = LINE // 4
"""Words of a line."""
_GROUP = 8
"""Rows of tiles in a block that workgroups traverse column by column."""
_WIDEST_STORE = 8
"""Elements of the widest store, 16 bytes: one block of eight columns."""


def _gemm(
    k: Builder, m: Value, n: Value, depth: Value, batches: Value, batches_of_b: Value, scale: Value,
    maps: Value, a: Value, b: Value, bias: Value, residual: Value, c: Value, *, element: Type,
    plan: TilePlan, form: GemmForm,
) -> None:  # fmt: skip
    """C = activation(scale * A B + bias of each column) + residual, for a batch of products.

    `form` selects the terms. `depth` is the length of K. `maps` are the tensor maps of A and B.
    `batches_of_b` is 1 if each product has its own B, and 0 if all share one.
    """
    arrays = Arrays(maps, (a, b), batches, batches_of_b)
    tile = multiply_tiles(
        k, element, plan, (m, n, depth), arrays, (form.transpose_a, not form.transpose_b)
    )
    result = _Result(k, element, plan, form, (m, n), tile.batch, scale, (bias, residual, c))
    for row, pairs in tile.pairs():
        result.store(row, tile.column, pairs)


class Arrays(NamedTuple):
    """The operands of a batch of products.

    maps: The tensor maps of A and B.
    memory: The memory of A and B.
    batches: The number of products.
    batches_of_b: 1 if each product has its own B, else 0.
    """

    maps: Value
    memory: tuple[Value, Value]
    batches: Value
    batches_of_b: Value


class MultipliedTile(NamedTuple):
    """The result of `multiply_tiles` in one instance.

    row, column: The tile's first row and column in C.
    own: The index of the instance's first row within the tile; its second row is 8 further.
    batch: The index of the product.
    sums: The accumulators of the instance.
    """

    row: Value
    own: Value
    column: Value
    batch: Value
    sums: Sequence[Value]

    def pairs(self) -> Iterator[tuple[Value, list[Sequence[Value]]]]:
        """Yield each of the instance's two rows in C, with its sums.

        The sums are pairs of adjacent columns, one pair for every eight columns; see
        `first_column`.
        """
        for row_offset in (0, 8):
            starts = range(row_offset // 4, len(self.sums), 4)
            yield (
                self.row + self.own + row_offset,
                [self.sums[start : start + 2] for start in starts],
            )


def multiply_tiles(
    k: Builder, element: Type, plan: TilePlan, sizes: tuple[Value, Value, Value], arrays: Arrays,
    along: tuple[bool, bool], other: Type | None = None,
) -> MultipliedTile:  # fmt: skip
    """Multiply the workgroup's tile.

    sizes: m, n and k.
    along: Whether lines of A, and of B, are along the long axis rather than K; false for 8-bit
        types and f32.
    other: The element type of B, if it differs from that of A.
    """
    (m, n, depth), (a, b) = sizes, arrays.memory
    depth = in_halves(element, depth)
    maps, batches, batches_of_b = arrays.maps, arrays.batches, arrays.batches_of_b
    k.cluster(plan.cluster)
    rows, columns = plan.tile
    tile_columns = (n + (columns - 1)) // columns
    tile_rows = (m + (rows * plan.cluster - 1)) // (rows * plan.cluster)
    cluster = k.workgroup_id() // plan.cluster
    tile, batch = cluster % (tile_rows * tile_columns), cluster // (tile_rows * tile_columns)
    block_height = max(1, _GROUP // plan.cluster)
    block, index_in_block = (
        tile // (tile_columns * block_height),
        tile % (tile_columns * block_height),
    )
    rows_in_block = k.minimum(tile_rows - block * block_height, block_height)
    row = (block * block_height + index_in_block % rows_in_block) * plan.cluster + k.cluster_rank()
    row, column = row * rows, index_in_block // rows_in_block * columns
    first_map, second_map = maps, k.pointer_add(maps, MAP_BYTES // 8)
    planes = k.maximum(batches * batches_of_b, k.constant(1, u32))
    a_array = TiledArray(a, first_map, *_line_shape(along[0], depth, m), batches)
    ring_a = _Ring(k, plan, a_array, row, batch, along=along[0], width=rows, shared_by=1)
    b_array = TiledArray(b, second_map, *_line_shape(along[1], depth, n), planes)
    ring_b = _Ring(
        k, plan, b_array, column, batch * batches_of_b, along=along[1], width=columns,
        shared_by=plan.cluster,
    )  # fmt: skip
    for tensor_map in (first_map, second_map):
        k.tensor_map_acquire(tensor_map)
    sums = _multiply(k, (element, other), plan, ring_a, ring_b, depth)
    # Each of a warpgroup's four subgroups has 16 rows, and four adjacent lanes share a row.
    lane = lane_of(k)
    instance_row = (
        (k.local_id() >> LOG2_WARPGROUP) * MATRIX_ROWS + (k.local_id() >> 5 & 3) * 16 + (lane >> 2)
    )
    return MultipliedTile(row, instance_row, column, batch, sums)


def first_column(k: Builder) -> Value:
    """Return the first of the two adjacent columns that an instance has of every eight columns."""
    return 2 * (lane_of(k) & (QUAD - 1))


def _line_shape(along: bool, depth: Value, extent: Value) -> tuple[Value, Value]:
    """Return the length of a line and the number of lines of an operand."""
    return (extent, depth) if along else (depth, extent)


class _Ring:
    """A ring of tiles of one operand, each `width` of the long axis by 64 of K.

    Lines are along K. If the operand is `along` its long axis, they are along that axis, in slabs
    of 64. Each of the `shared_by` workgroups that need a tile copies a part of its lines.
    """

    def __init__(
        self, k: Builder, plan: TilePlan, array: TiledArray, long_start: Value, plane: Value, *,
        along: bool, width: int, shared_by: int,
    ) -> None:  # fmt: skip
        self._k, self._array, self._first, self._plane = k, array, long_start, plane
        self._along, self._width, self._shared_by = along, width, shared_by
        self._size = width * _WORDS
        self.room = k.shared(u32, self._size * plan.stages, alignment=8 * LINE)
        self.nbytes = 4 * self._size

    def copy(self, stage: Value, step: Value, mbarrier: tuple[Value, Value]) -> None:
        """Start this workgroup's part of the copies of a step of K."""
        k, start, multicast = self._k, step * TILE_DEPTH, self._shared_by > 1
        line_count = (TILE_DEPTH if self._along else self._width) // self._shared_by
        first_line = k.cluster_rank() * line_count if multicast else k.constant(0, u32)
        target = stage * self._size + first_line * _WORDS
        for slab in range(0, self._width if self._along else 1, TILE_DEPTH):
            coordinates = (
                (self._first + slab, start + first_line)
                if self._along
                else (start, self._first + first_line)
            )
            k.copy_tile(
                self.room, target + slab * _WORDS, mbarrier, self._array,
                (*coordinates, self._plane), line_count,
                multicast=multicast,
            )  # fmt: skip

    def operand(self, stage: Value, depth_block: int, first_line: Value | int = 0) -> TileOperand:
        """Return the operand for block `depth_block` of 16 k; `first_line` is a multiple of 64."""
        depth_offset = (
            depth_block * MATRIX_DEPTH * _WORDS if self._along else depth_block * MATRIX_DEPTH // 2
        )
        offset = stage * self._size + first_line * _WORDS + depth_offset
        return TileOperand(self.room, offset, self._along, TILE_DEPTH * _WORDS)


def _multiply(
    k: Builder, elements: tuple[Type, Type | None], plan: TilePlan, a: _Ring, b: _Ring, depth: Value
) -> Sequence[Value]:
    """Run the loop over K, and return the sums of an instance."""
    element, other = elements
    barriers = k.shared(u64, plan.stages)
    for stage_index in range(plan.stages):
        k.mbarrier_init(barriers, stage_index)
    if plan.cluster > 1:
        k.cluster_barrier()
    steps = (depth + (TILE_DEPTH - 1)) // TILE_DEPTH
    # Shuffled from the first instance, so that the assembler sees that it is uniform in a subgroup.
    warpgroup_row = k.shuffle(k.local_id() >> LOG2_WARPGROUP, k.constant(0, u32)) * MATRIX_ROWS

    def copy(stage: Value, step: Value) -> None:
        with k.if_(step < steps):
            k.mbarrier_expect(barriers, stage, a.nbytes + b.nbytes)
            a.copy(stage, step, (barriers, stage))
            b.copy(stage, step, (barriers, stage))

    # The previous launch may store the operands.
    k.dependency_wait()
    for stage_index in range(plan.stages - 1):
        copy(k.constant(stage_index, u32), k.constant(stage_index, u32))
    if plan.cluster == 1:
        # One instance initialises the mbarriers; the others must not wait for them earlier.
        k.barrier()
    initial = [k.constant(0, loaded_type(element))] * (plan.tile[1] // 2)
    with k.range(0, steps, carry=initial) as loop:
        step, sums = loop.index, tuple(loop.carried)
        stage, phase = _stage_and_phase(step, plan.stages)
        k.mbarrier_wait(barriers, stage, phase)
        k.mma_begin()
        products = tuple(initial) if plan.promoted else sums
        for depth_block in range(TILE_DEPTH // MATRIX_DEPTH):
            products = k.mma_tiles(
                element,
                a.operand(stage, depth_block, warpgroup_row),
                b.operand(stage, depth_block),
                products,
                other=other,
            )
        k.mma_commit()
        # The previous step's products are complete for all instances, so its tiles are free.
        if not plan.promoted:
            k.mma_wait(1)
        k.cluster_barrier(memory=False)
        next_step = step + (plan.stages - 1)
        copy(_stage_and_phase(next_step, plan.stages)[0], next_step)
        if plan.promoted:
            # Tensor cores accumulate 8-bit floats with fewer bits than f32. A warpgroup adds its
            # sums while others multiply.
            products = k.mma_wait(0, products)
            products = tuple([x + y for x, y in zip(sums, products, strict=True)])
        loop.next(list(products))
    # Earlier, workgroups of the next launch would occupy resources that this launch still needs.
    k.launch_dependents()
    return loop.results if plan.promoted else k.mma_wait(0, loop.results)


def _stage_and_phase(step: Value, stages: int) -> tuple[Value, Value]:
    """Return a step's stage, and how often the whole ring was filled before the step.

    `stages` is a power of two; assemblers would not replace a division by a shift.
    """
    return step & (stages - 1), step >> (stages.bit_length() - 1)


class _Result:
    """The epilogue and the memory of a tile of C."""

    def __init__(
        self, k: Builder, element: Type, plan: TilePlan, form: GemmForm,
        extents: tuple[Value, Value], batch: Value, scale: Value,
        memory: tuple[Value, Value, Value],
    ) -> None:  # fmt: skip
        self._k, self._form, self._scale, self._vector = k, form, scale, plan.c_vector
        self._pairs = Accesses(k, element, min(2, plan.c_vector))
        self._min_vector = min(2, plan.c_vector)
        self._rows, self._columns = extents
        self._first = batch.cast(u64) * self._rows.cast(u64)
        bias, residual, self._c = memory
        self._bias, self._residual, self._c_pairs = map(self._pairs.of, (bias, residual, self._c))

    def store(self, row: Value, column: Value, pairs: Sequence[Sequence[Value]]) -> None:
        """Store the sums of one row, two columns of every eight, after the epilogue."""
        k, quad_lane = self._k, lane_of(self._k) & (QUAD - 1)
        columns = [column + 8 * block + 2 * quad_lane for block in range(len(pairs))]
        completed_pairs = [self._complete(row, *pair) for pair in zip(columns, pairs, strict=True)]
        if self._vector < _WIDEST_STORE:
            for first_column, values in zip(columns, completed_pairs, strict=True):
                self._store(row, first_column, values)
            return
        pack = k.pack_f16 if self._pairs.element is f16 else k.pack_bf16
        words = [pack(*values) for values in completed_pairs]
        for start in range(0, len(words), QUAD):
            row_words = transposed(k, words[start : start + QUAD])
            first_column = column + (quad_lane + start) * 8
            with k.if_((row < self._rows) & (first_column < self._columns)):
                access = self._row_access(row, 8) + (first_column // 8).cast(u64)
                k.store(k.pointer_add(self._c.cast(u32), access * 4), 0, *row_words)

    def _row_access(self, row: Value, vector: int) -> Value:
        """Return the index of a row's first access, for accesses of `vector` elements."""
        return (self._first + row.cast(u64)) * (self._columns // vector).cast(u64)

    def _complete(self, row: Value, column: Value, sums: Sequence[Value]) -> list[Value]:
        """Apply the epilogue to two adjacent sums, with indices clamped to the matrix."""
        k, values = self._k, [value * self._scale for value in sums]
        for start in range(0, 2, self._min_vector):
            access = k.minimum(column + start, self._columns - self._min_vector) // self._min_vector
            values[start : start + self._min_vector] = completed(
                k, self._form, values[start : start + self._min_vector],
                partial(self._pairs.load, self._bias, access),
                partial(self._load_residual, row, access),
            )  # fmt: skip
        return values

    def _load_residual(self, row: Value, access: Value) -> Values:
        """Load the residual of an access of a row."""
        row_start = self._row_access(self._k.minimum(row, self._rows - 1), self._min_vector)
        memory = self._k.pointer_add(self._residual, row_start * self._pairs.words)
        return self._pairs.load(memory, access)

    def _store(self, row: Value, column: Value, values: Sequence[Value]) -> None:
        """Store two adjacent results, if they are in the matrix."""
        k = self._k
        for start in range(0, 2, self._min_vector):
            first_column = column + start
            with k.if_((row < self._rows) & (first_column < self._columns)):
                memory = k.pointer_add(
                    self._c_pairs, self._row_access(row, self._min_vector) * self._pairs.words
                )
                self._pairs.store(
                    memory,
                    first_column // self._min_vector,
                    values[start : start + self._min_vector],
                )


def _kernel(element: Type) -> KernelDefinition:
    names = ("m", "n", "depth", "batches", "batches_of_b")
    parameters: dict[str, ParameterType] = dict.fromkeys(names, u32)
    parameters |= {"scale": f32, "maps": pointer(u64)}
    parameters |= dict.fromkeys(("a", "b", "bias", "residual", "c"), pointer(element))
    location = Location(_gemm.__code__.co_filename, _gemm.__code__.co_firstlineno)
    return KernelDefinition(
        f"gemm_tiles_{element}", _gemm, parameters, location, constant=("maps",)
    )


GEMM_TILES = {element: _kernel(element) for element in (f16, bf16, f32)}
"""The kernels by element type."""

"""The matrix product by warpgroups, with tiles copied by the TMA unit.

Tiles of K are in a ring in shared memory. While the products of one tile run, the next ones start,
and the tile multiplied before is overwritten by a copy. Workgroups of a cluster, below each other,
need the same tile of B: each copies a part by multicast. Source of the structure: the main loop for
Hopper of CUTLASS ("Efficient GEMM in CUDA"), without its warps that only copy.
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
from quod.kernel.ops.tile import LINE, MATRIX_DEPTH, MATRIX_ROWS
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
_TOGETHER = 8
"""Elements of the widest store, which come from one block of columns."""


def _gemm(
    k: Builder, m: Value, n: Value, depth: Value, batches: Value, batches_of_b: Value, scale: Value,
    maps: Value, a: Value, b: Value, bias: Value, residual: Value, c: Value, *, element: Type,
    plan: TilePlan, form: GemmForm,
) -> None:  # fmt: skip
    """C = activation(scale * A B + bias of each column) + residual, for a batch of products.

    `form` selects the terms. `maps` are the tensor maps of A and B; `batches_of_b` is 1 if each
    product has its own B, else 0.
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
    """A multiplied tile, with the sums of one instance.

    row, column: The first row and column of the tile in the product.
    own: The instance's first row in the tile.
    batch: The index of the product.
    sums: The accumulators of the instance.
    """

    row: Value
    own: Value
    column: Value
    batch: Value
    sums: Sequence[Value]

    def pairs(self) -> Iterator[tuple[Value, list[Sequence[Value]]]]:
        """Yield the instance's rows, with two columns in every eight; see `first_column`."""
        for below in (0, 8):
            at = range(below // 4, len(self.sums), 4)
            yield self.row + self.own + below, [self.sums[place : place + 2] for place in at]


def multiply_tiles(
    k: Builder, element: Type, plan: TilePlan, sizes: tuple[Value, Value, Value], arrays: Arrays,
    along: tuple[bool, bool], other: Type | None = None,
) -> MultipliedTile:  # fmt: skip
    """Multiply the workgroup's tile.

    sizes: m, n and k.
    along: For A and B, whether lines are along the axis that is not K; false for 8-bit types and
        f32.
    other: The element type of B, if not that of A.
    """
    (m, n, depth), (a, b) = sizes, arrays.memory
    depth = in_halves(element, depth)
    maps, batches, batches_of_b = arrays.maps, arrays.batches, arrays.batches_of_b
    k.cluster(plan.cluster)
    rows, columns = plan.tile
    right = (n + (columns - 1)) // columns
    down = (m + (rows * plan.cluster - 1)) // (rows * plan.cluster)
    cluster = k.workgroup_id() // plan.cluster
    tile, batch = cluster % (down * right), cluster // (down * right)
    group = max(1, _GROUP // plan.cluster)
    block, inside = tile // (right * group), tile % (right * group)
    height = k.minimum(down - block * group, group)
    row = (block * group + inside % height) * plan.cluster + k.cluster_rank()
    row, column = row * rows, inside // height * columns
    first_map, second_map = maps, k.pointer_add(maps, MAP_BYTES // 8)
    planes = k.maximum(batches * batches_of_b, k.constant(1, u32))
    of_a = TiledArray(a, first_map, *_turned(along[0], depth, m), batches)
    left = _Ring(k, plan, of_a, row, batch, along=along[0], width=rows, shared_by=1)
    of_b = TiledArray(b, second_map, *_turned(along[1], depth, n), planes)
    over = _Ring(
        k, plan, of_b, column, batch * batches_of_b, along=along[1], width=columns,
        shared_by=plan.cluster,
    )  # fmt: skip
    for tensor_map in (first_map, second_map):
        k.tensor_map_acquire(tensor_map)
    sums = _multiplied(k, (element, other), plan, left, over, depth)
    lane = lane_of(k)
    instance_row = (k.local_id() >> 7) * MATRIX_ROWS + (k.local_id() >> 5 & 3) * 16 + (lane >> 2)
    return MultipliedTile(row, instance_row, column, batch, sums)


def first_column(k: Builder) -> Value:
    """Return the first of the two columns that an instance has in every eight."""
    return 2 * (lane_of(k) & (QUAD - 1))


def _turned(along: bool, depth: Value, extent: Value) -> tuple[Value, Value]:
    """Return the length and the number of lines."""
    return (extent, depth) if along else (depth, extent)


class _Ring:
    """Tiles of an operand: `width` of the long axis and 64 of K, in stages.

    Lines are along K, or along the long axis if the operand is `along` it, in slabs of 64 of that
    axis. `shared_by` workgroups each copy a part of the lines.
    """

    def __init__(
        self, k: Builder, plan: TilePlan, array: TiledArray, first: Value, plane: Value, *,
        along: bool, width: int, shared_by: int,
    ) -> None:  # fmt: skip
        self._k, self._array, self._first, self._plane = k, array, first, plane
        self._along, self._width, self._shared_by = along, width, shared_by
        self._size = width * _WORDS
        self.room = k.shared(u32, self._size * plan.stages, alignment=8 * LINE)
        self.nbytes = 4 * self._size

    def copy(self, stage: Value, step: Value, mbarrier: tuple[Value, Value]) -> None:
        """Start this workgroup's part of the copies of a step of K."""
        k, start, multicast = self._k, step * TILE_DEPTH, self._shared_by > 1
        lines = (TILE_DEPTH if self._along else self._width) // self._shared_by
        first_line = k.cluster_rank() * lines if multicast else k.constant(0, u32)
        to = stage * self._size + first_line * _WORDS
        for slab in range(0, self._width if self._along else 1, TILE_DEPTH):
            place = (
                (self._first + slab, start + first_line)
                if self._along
                else (start, self._first + first_line)
            )
            k.copy_tile(
                self.room, to + slab * _WORDS, mbarrier, self._array, (*place, self._plane), lines,
                multicast=multicast,
            )  # fmt: skip

    def operand(self, stage: Value, at: int, first: Value | int = 0) -> TileOperand:
        """Return the operand of the `at`-th 16 of K, from line `first`, a multiple of 64."""
        step = at * MATRIX_DEPTH * _WORDS if self._along else at * MATRIX_DEPTH // 2
        place = stage * self._size + first * _WORDS + step
        return TileOperand(self.room, place, self._along, TILE_DEPTH * _WORDS)


def _multiplied(
    k: Builder, elements: tuple[Type, Type | None], plan: TilePlan, a: _Ring, b: _Ring, depth: Value
) -> Sequence[Value]:
    """Return the sums of an instance."""
    element, other = elements
    arrived = k.shared(u64, plan.stages)
    for number in range(plan.stages):
        k.mbarrier_init(arrived, number)
    if plan.cluster > 1:
        k.cluster_barrier()
    steps = (depth + (TILE_DEPTH - 1)) // TILE_DEPTH
    # Shuffled from the first instance, so that the assembler sees that it is uniform in a subgroup.
    own_rows = k.shuffle(k.local_id() >> 7, k.constant(0, u32)) * MATRIX_ROWS

    def copy(stage: Value, step: Value) -> None:
        with k.if_(step < steps):
            k.mbarrier_expect(arrived, stage, a.nbytes + b.nbytes)
            a.copy(stage, step, (arrived, stage))
            b.copy(stage, step, (arrived, stage))

    # The previous launch may store the operands.
    k.dependency_wait()
    for number in range(plan.stages - 1):
        copy(k.constant(number, u32), k.constant(number, u32))
    if plan.cluster == 1:
        # The copying instance has initialised the mbarriers; now the others may wait for them.
        k.barrier()
    initial = [k.constant(0, loaded_type(element))] * (plan.tile[1] // 2)
    with k.range(0, steps, carry=initial) as loop:
        step, sums = loop.index, tuple(loop.carried)
        stage, phase = _divided(step, plan.stages)
        k.mbarrier_wait(arrived, stage, phase)
        k.mma_begin()
        products = tuple(initial) if plan.promoted else sums
        for at in range(TILE_DEPTH // MATRIX_DEPTH):
            products = k.mma_tiles(
                element, a.operand(stage, at, own_rows), b.operand(stage, at), products, other=other
            )
        k.mma_commit()
        # The previous step's products are complete for all instances, so its tiles are free.
        if not plan.promoted:
            k.mma_wait(1)
        k.cluster_barrier(memory=False)
        following = step + (plan.stages - 1)
        copy(_divided(following, plan.stages)[0], following)
        if plan.promoted:
            # Tensor cores accumulate 8-bit floats with fewer bits than f32. A warpgroup adds its
            # sums while others multiply.
            products = k.mma_wait(0, products)
            products = tuple([x + y for x, y in zip(sums, products, strict=True)])
        loop.next(list(products))
    # Not earlier: workgroups of the next launch would occupy room of this one's.
    k.launch_dependents()
    return loop.results if plan.promoted else k.mma_wait(0, loop.results)


def _divided(step: Value, stages: int) -> tuple[Value, Value]:
    """Return remainder and quotient by a power of two, which assemblers do not recognise as one."""
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
        self._least = min(2, plan.c_vector)
        self._rows, self._columns = extents
        self._first = batch.cast(u64) * self._rows.cast(u64)
        bias, residual, self._c = memory
        self._bias, self._residual, self._c_pairs = map(self._pairs.of, (bias, residual, self._c))

    def store(self, row: Value, column: Value, pairs: Sequence[Sequence[Value]]) -> None:
        """Store a row of the tile, of which the instance has two columns in every eight."""
        k, part = self._k, lane_of(self._k) & (QUAD - 1)
        columns = [column + 8 * block + 2 * part for block in range(len(pairs))]
        completed_pairs = [self._complete(row, *each) for each in zip(columns, pairs, strict=True)]
        if self._vector < _TOGETHER:
            for at, values in zip(columns, completed_pairs, strict=True):
                self._store(row, at, values)
            return
        pack = k.pack_f16 if self._pairs.element is f16 else k.pack_bf16
        words = [pack(*values) for values in completed_pairs]
        for first in range(0, len(words), QUAD):
            row_words = transposed(k, words[first : first + QUAD])
            at = column + (part + first) * 8
            with k.if_((row < self._rows) & (at < self._columns)):
                access = self._line(row, 8) + (at // 8).cast(u64)
                k.store(k.pointer_add(self._c.cast(u32), access * 4), 0, *row_words)

    def _line(self, row: Value, vector: int) -> Value:
        """Return the first access of a row, in accesses of `vector` elements."""
        return (self._first + row.cast(u64)) * (self._columns // vector).cast(u64)

    def _complete(self, row: Value, column: Value, sums: Sequence[Value]) -> list[Value]:
        """Apply the epilogue to two adjacent sums, with indices clamped to the matrix."""
        k, values = self._k, [value * self._scale for value in sums]
        for at in range(0, 2, self._least):
            place = k.minimum(column + at, self._columns - self._least) // self._least
            values[at : at + self._least] = completed(
                k, self._form, values[at : at + self._least],
                partial(self._pairs.load, self._bias, place),
                partial(self._beside, row, place),
            )  # fmt: skip
        return values

    def _beside(self, row: Value, place: Value) -> Values:
        """Load the residual of an access of a row."""
        line = self._line(self._k.minimum(row, self._rows - 1), self._least)
        memory = self._k.pointer_add(self._residual, line * self._pairs.words)
        return self._pairs.load(memory, place)

    def _store(self, row: Value, column: Value, values: Sequence[Value]) -> None:
        k = self._k
        for at in range(0, 2, self._least):
            place = column + at
            with k.if_((row < self._rows) & (place < self._columns)):
                memory = k.pointer_add(
                    self._c_pairs, self._line(row, self._least) * self._pairs.words
                )
                self._pairs.store(memory, place // self._least, values[at : at + self._least])


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

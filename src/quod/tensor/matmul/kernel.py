"""The matrix product: one kernel function for every type, plan and device."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from quod.frozen import frozen
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
from quod.kernel.ir.types import Type, loaded_type
from quod.kernel.ir.value import ParameterType
from quod.kernel.machine import Capability
from quod.kernel.registry import register
from quod.tensor.accesses import Accesses
from quod.tensor.matmul.epilogue import completed
from quod.tensor.matmul.fma import multiply_by_fma
from quod.tensor.matmul.form import GemmForm, TransposeFlags
from quod.tensor.matmul.plan import CorePlan, FmaPlan, GemmKernelPlan, GemmPlan
from quod.tensor.matmul.tensor_cores import Ring, multiply_in_cores
from quod.tensor.matmul.tiles import CachedTile, Edges, SharedTile, in_halves

Sums = tuple[Value, ...]
"""An instance's sums, row by row."""

_GROUP = 8
"""Rows of tiles in a block that workgroups traverse column by column, to reuse the cache."""

_SUBGROUP_ACROSS = 8
"""Columns of instances in a subgroup; 4 x 8 instances read the least from shared memory."""


def _gemm(
    k: Builder, m: Value, n: Value, depth: Value, batches_of_b: Value, scale: Value, a: Value,
    b: Value, bias: Value, residual: Value, c: Value, *, element: Type, plan: GemmKernelPlan,
    form: GemmForm,
) -> None:  # fmt: skip
    """C = activation(scale * A B + bias of each column) + residual, for a batch of products.

    Each workgroup computes one tile of one C; `form` selects the terms. `depth` is the length of
    K. `batches_of_b` is 1 if each product has its own B, and 0 if all share one.
    """
    row, column, batch = tile_of(k, m, n, plan)
    result = Result(
        k, element, plan, form, (m, n), scale, bias,
        matrix_of(k, residual, batch, (m, n), plan.c_vector),
        matrix_of(k, c, batch, (m, n), plan.c_vector),
    )  # fmt: skip
    of_a, of_b = edges_of(
        k, element, plan, form, (m, n, depth), (row, column), (batch, batches_of_b), (a, b)
    )
    if isinstance(plan, FmaPlan):
        multiply_by_fma(k, plan, of_a, of_b, result.store)
    else:
        multiply_tile(k, element, plan, of_a, of_b, result.store)


def tile_of(k: Builder, m: Value, n: Value, plan: GemmKernelPlan) -> tuple[Value, Value, Value]:
    """Return the first row and column of the workgroup's tile, and the index of its product."""
    rows, columns = plan.tile
    tiles_across = (n + (columns - 1)) // columns
    tiles_down = (m + (rows - 1)) // rows
    tile, batch = (
        k.workgroup_id() % (tiles_down * tiles_across),
        k.workgroup_id() // (tiles_down * tiles_across),
    )
    return *corner(k, plan, tile, tiles_down, tiles_across), batch


def matrix_of(
    k: Builder, matrices: Value, index: Value, shape: tuple[Value, Value], vector: int
) -> Value:
    """Return the pointer to matrix `index` of a batch.

    Its offset is a visible multiple of `vector` elements, so that the compiler emits wide accesses.
    """
    word = u64 if k.machine.has(Capability.U64) else u32
    lines, length = shape
    size = lines.cast(word) * (length // vector).cast(word) * vector
    return k.pointer_add(matrices, index.cast(word) * size)


def edges_of(
    k: Builder, element: Type, plan: GemmKernelPlan, form: TransposeFlags,
    sizes: tuple[Value, Value, Value], tile: tuple[Value, Value], batches: tuple[Value, Value],
    matrices: tuple[Value, Value],
) -> tuple[Edges, Edges]:  # fmt: skip
    """Return the operands A and B of a tile of C.

    sizes: m, n and k.
    tile: The first row and the first column of the tile.
    batches: The index of the product, and 1 if each product has its own B, else 0.
    matrices: The pointers to the first A and the first B.
    """
    (m, n, depth), (a, b), (batch, batches_of_b) = sizes, matrices, batches
    vectors = (1, 1) if isinstance(plan, CorePlan) else (plan.a_vector, plan.b_vector)
    a = matrix_of(k, a, batch, (depth, m) if form.transpose_a else (m, depth), vectors[0])
    b = matrix_of(
        k, b, batch * batches_of_b, (n, depth) if form.transpose_b else (depth, n), vectors[1]
    )
    depth = in_halves(element, depth) if isinstance(plan, CorePlan) else depth
    return (
        Edges(a, tile[0], m, depth, form.transpose_a),
        Edges(b, tile[1], n, depth, not form.transpose_b),
    )


def corner(
    k: Builder, plan: GemmKernelPlan, tile: Value, down: Value, right: Value
) -> tuple[Value, Value]:
    """Return the first row and column of a tile of C, out of `down` by `right` tiles."""
    rows, columns = plan.tile
    block, index_in_block = tile // (right * _GROUP), tile % (right * _GROUP)
    height = k.minimum(down - block * _GROUP, _GROUP)
    return (block * _GROUP + index_in_block % height) * rows, index_in_block // height * columns


@frozen
class Tiles:
    """The classes of operand tiles, one per method of multiplication.

    shared: A tile in shared memory, filled through registers.
    cached: A tile in a CPU's cache.
    ring: A ring of tiles in shared memory, for tensor cores.
    """

    shared: Callable[..., SharedTile] = SharedTile
    cached: Callable[..., CachedTile] = CachedTile
    ring: Callable[..., Ring] = Ring


PLAIN = Tiles()
"""The classes for operands that are not quantised."""


Store = Callable[[Value, Value, Sequence[Value]], None]
"""A function of a row, a column and sums; it stores the sums there and at the next columns."""


def multiply_tile(
    k: Builder, element: Type, plan: GemmPlan | CorePlan, of_a: Edges, of_b: Edges, store: Store,
    tiles_of_b: Tiles = PLAIN, other: Type | None = None,
) -> None:  # fmt: skip
    """Multiply a tile of C, on tensor cores, in shared memory or in a CPU's cache.

    store: Receives the sums of the tile.
    tiles_of_b: The classes of B's tiles; A has those of `PLAIN`.
    other: The element type of B, if it differs from that of A.
    """
    elements = element, other or element
    if isinstance(plan, CorePlan):
        multiply_in_cores(k, elements, plan, of_a, of_b, store, tiles_of_b.ring)
    elif k.machine.has(Capability.VECTOR_LANES):
        _in_cache(k, elements, plan, of_a, of_b, store, tiles_of_b.cached)
    else:
        _in_shared_memory(k, elements, plan, of_a, of_b, store, tiles_of_b.shared)


class Result:
    """The epilogue and the memory of a tile of C."""

    def __init__(
        self, k: Builder, element: Type, plan: GemmKernelPlan, form: GemmForm,
        extents: tuple[Value, Value], scale: Value, bias: Value, residual: Value, c: Value,
    ) -> None:  # fmt: skip
        self._k, self._form, self._scale = k, form, scale
        self._rows, self._columns = extents
        self._vector = plan.c_vector
        self._accesses = Accesses(k, element, self._vector)
        self._bias, self._residual, self._c = map(self._accesses.of, (bias, residual, c))
        self._index = u64 if k.machine.has(Capability.U64) else u32

    def store(self, row: Value, column: Value, sums: Sequence[Value]) -> None:
        """Apply the epilogue to adjacent sums, and store them in C."""
        k, accesses = self._k, self._accesses
        for start in range(0, len(sums), self._vector):
            first_column = column + start
            with k.if_((row < self._rows) & (first_column < self._columns)):
                access = first_column // self._vector
                pitch = self._columns // self._vector
                row_access = row.cast(self._index) * pitch.cast(self._index)
                source = k.pointer_add(self._residual, row_access * accesses.words)
                target = k.pointer_add(self._c, row_access * accesses.words)
                scaled_sums = [value * self._scale for value in sums[start : start + self._vector]]
                values = completed(
                    k, self._form, scaled_sums, partial(accesses.load, self._bias, access),
                    partial(accesses.load, source, access),
                )  # fmt: skip
                accesses.store(target, access, values)


def _add_products(k: Builder, a: Sequence[Value], b: Sequence[Value], sums: Sums) -> Sums:
    """Return an instance's sums plus the outer product of its rows and columns, for one k."""
    return tuple(
        _multiply_add(k, x, y, sums[row * len(b) + column])
        for row, x in enumerate(a)
        for column, y in enumerate(b)
    )


def _multiply_add(k: Builder, x: Value, y: Value, total: Value) -> Value:
    return k.fma(x, y, total) if total.type is f32 else x * y + total


def _in_shared_memory(
    k: Builder, elements: tuple[Type, Type], plan: GemmPlan, of_a: Edges, of_b: Edges, store: Store,
    tile_of_b: Callable[..., SharedTile],
) -> None:  # fmt: skip
    """Multiply in shared memory; the next step's tiles are loaded during the multiplication."""
    rows, columns = plan.tile
    a = SharedTile(k, elements[0], of_a, rows, plan.depth, plan.a_vector, plan.stages)
    b = tile_of_b(k, elements[1], of_b, columns, plan.depth, plan.b_vector, plan.stages)
    # Groups of 32 instances are subgroups on most GPUs; a device with others only loses speed.
    lane, group = k.local_id() % 32, k.local_id() // 32
    subgroups_across = plan.across // _SUBGROUP_ACROSS
    own_column = group % subgroups_across * _SUBGROUP_ACROSS + lane % _SUBGROUP_ACROSS
    own_row = group // subgroups_across * (32 // _SUBGROUP_ACROSS) + lane // _SUBGROUP_ACROSS

    def step(stage: Value, depth_index: Value, sums: Sums) -> Sums:
        row_elements = a.fragment(
            stage, depth_index, own_row, plan.rows, plan.lanes // plan.across, plan.vector
        )
        column_elements = b.fragment(
            stage, depth_index, own_column, plan.columns, plan.across, plan.vector
        )
        return _add_products(k, row_elements, column_elements, sums)

    def steps(stage: Value, count: Value | int, sums: Sums) -> Sums:
        with k.range(k.constant(0, u32), count, carry=sums) as loop:
            loop.next(step(stage, loop.index, loop.carried))
        return tuple(loop.results)

    zero = k.constant(0, u32)
    a.write(a.read(zero), zero)
    b.write(b.read(zero), zero)
    k.barrier()
    initial = tuple([k.constant(0, loaded_type(elements[0]))] * (plan.rows * plan.columns))
    full_steps = of_a.depth // plan.depth
    with k.range(0, full_steps, carry=initial) as loop:
        next_step = loop.index + 1
        next_a = a.read(of_a.begin(next_step, plan.depth))
        next_b = b.read(of_b.begin(next_step, plan.depth))
        stage = loop.index % plan.stages
        sums = tuple(loop.carried)
        if plan.unrolled:
            for depth_index in range(plan.depth):
                sums = step(stage, k.constant(depth_index, u32), sums)
        else:
            sums = steps(stage, plan.depth, sums)
        if plan.stages == 1:
            k.barrier()
        a.write(next_a, next_step % plan.stages)
        b.write(next_b, next_step % plan.stages)
        k.barrier()
        loop.next(sums)
    sums = tuple(loop.results)
    # With an order, K is a multiple of a step, so nothing is left.
    if of_a.order is None:
        sums = steps(full_steps % plan.stages, of_a.depth % plan.depth, sums)
    for row in range(plan.rows):
        row_offset = (own_row + row // plan.vector * (plan.lanes // plan.across)) * plan.vector
        for column in range(0, plan.columns, plan.vector):
            column_offset = (own_column + column // plan.vector * plan.across) * plan.vector
            start = row * plan.columns + column
            store(
                of_a.first + row_offset + row % plan.vector, of_b.first + column_offset,
                sums[start : start + plan.vector],
            )  # fmt: skip


def _in_cache(
    k: Builder, elements: tuple[Type, Type], plan: GemmPlan, of_a: Edges, of_b: Edges, store: Store,
    tile_of_b: Callable[..., CachedTile],
) -> None:  # fmt: skip
    """Multiply register tiles one after the other, with operands and sums in a CPU's cache.

    Integers are multiplied as f32. Their sums over one chunk of K are exact, and are added to i32
    sums after each chunk.
    """
    rows, columns = plan.tile
    # Lanes fill whole vectors, even if the tile has fewer rows.
    padded_rows = -(-rows // plan.lanes) * plan.lanes if of_a.along else rows
    a = CachedTile(k, elements[0], of_a, padded_rows, plan.depth, padded_rows, kept=not of_a.along)
    b = tile_of_b(k, elements[1], of_b, columns, plan.depth, plan.panel[1], kept=False)
    size = plan.rows * plan.columns * plan.lanes
    sum_type = loaded_type(elements[0])
    buffer, lane = k.shared(sum_type, size * plan.down * plan.right), k.local_id()
    # Register tiles beyond the matrix are left out.
    down = k.minimum((of_a.extent - of_a.first + (plan.rows - 1)) // plan.rows, plan.down)
    right = k.minimum((of_b.extent - of_b.first + (plan.panel[1] - 1)) // plan.panel[1], plan.right)
    with k.range(0, right * (plan.rows * plan.columns * plan.down)) as zeroing:
        k.pointer_add(buffer, zeroing.index * plan.lanes)[lane] = k.constant(0, sum_type)
    with k.range(k.constant(0, u32), of_a.depth, plan.depth) as chunks:
        count = k.minimum(of_a.depth - chunks.index, plan.depth)
        a.fill(chunks.index, count)
        b.fill(chunks.index, count)
        k.barrier()
        with k.range(0, right) as panels, k.range(0, down) as tiles:
            tile_sums = k.pointer_add(buffer, (panels.index * plan.down + tiles.index) * size)
            offsets = [lane + start for start in range(0, size, plan.lanes)]
            old_sums = [tile_sums[offset] for offset in offsets]
            sums = tuple(old_sums) if sum_type is f32 else (k.constant(0.0, f32),) * len(offsets)
            with k.range(k.constant(0, u32), count, carry=sums) as loop:
                row_elements = a.rows(tiles.index, loop.index, plan.rows)
                column_elements = b.columns(panels.index, loop.index, plan.columns)
                loop.next(_add_products(k, row_elements, column_elements, tuple(loop.carried)))
            for offset, value, old in zip(offsets, loop.results, old_sums, strict=True):
                tile_sums[offset] = value if sum_type is f32 else old + value.cast(sum_type)
        k.barrier()
    with k.range(0, down) as tiles, k.range(0, right) as panels:
        tile_sums = k.pointer_add(buffer, (panels.index * plan.down + tiles.index) * size)
        for index in range(plan.rows * plan.columns):
            row_index, column_index = divmod(index, plan.columns)
            row = of_a.first + (tiles.index * plan.rows + row_index)
            column = of_b.first + (panels.index * plan.panel[1] + column_index * plan.lanes)
            store(row, column + lane, [tile_sums[lane + index * plan.lanes]])


TYPES = (f32, f16, bf16)
"""The element types; sums are f32."""


def _kernel(element: Type) -> KernelDefinition:
    parameters: dict[str, ParameterType] = dict.fromkeys(("m", "n", "depth", "batches_of_b"), u32)
    parameters["scale"] = f32
    parameters |= dict.fromkeys(("a", "b", "bias", "residual", "c"), pointer(element))
    location = Location(_gemm.__code__.co_filename, _gemm.__code__.co_firstlineno)
    return KernelDefinition(f"gemm_{element}", _gemm, parameters, location)


GEMM = {element: _kernel(element) for element in TYPES}
"""The kernels by element type."""

for _element in (f32, bf16):
    register(
        f"tensor.gemm_{_element}", GEMM[_element], element=_element,
        plan=GemmPlan(64, 8, 4, 4, 1, 1, 8, 1, 4), form=GemmForm(bias=True),
    )  # fmt: skip

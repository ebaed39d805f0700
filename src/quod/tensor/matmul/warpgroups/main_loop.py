"""The products of a tile of C by warpgroups, with tiles of the operands in a ring.

Tiles of K are in a ring in shared memory. While the products of one tile run, the next tile's
products are issued, and a copy overwrites the previous tile. In lockstep, the workgroups of a
cluster compute tiles of C in the same columns. They need the same tile of B, so each copies a part
of it by multicast. Warp-specialised, one warpgroup only copies, for all tiles of the workgroup. The
structure follows the main loops for Hopper of CUTLASS ("Efficient GEMM in CUDA").
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from quod.device.memory.tensor_map import MAP_BYTES
from quod.kernel import (
    Builder,
    Value,
    u32,
    u64,
)
from quod.kernel.builder.control import CountedLoop
from quod.kernel.builder.tiles import TiledArray, TileOperand
from quod.kernel.ir.types import Type, loaded_type
from quod.kernel.ops.tile import (
    LINE,
    LOG2_WARPGROUP,
    MATRIX_DEPTH,
    MATRIX_ROWS,
    SUBGROUP,
    WARPGROUP,
)
from quod.tensor.matmul.mma_fragments import lane_of
from quod.tensor.matmul.plan import TILE_DEPTH, TilePlan, WarpSpecialisedTilePlan
from quod.tensor.matmul.tiles import in_halves

_WORDS = LINE // 4
"""Words of a line."""
_GROUP = 8
"""Rows of tiles in a block that workgroups traverse column by column."""
_SUBGROUPS_PER_WARPGROUP = WARPGROUP // SUBGROUP


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


Finish = Callable[[MultipliedTile], None]
"""Applies the epilogue to a tile, and stores it."""


def multiply_tiles(
    k: Builder, element: Type, plan: TilePlan, sizes: tuple[Value, Value, Value], arrays: Arrays,
    along: tuple[bool, bool], finish: Finish, other: Type | None = None,
) -> None:  # fmt: skip
    """Multiply the workgroup's tiles, and call `finish` for each.

    sizes: m, n and k.
    along: Whether lines of A, and of B, are along the long axis rather than K; false for 8-bit
        types and f32.
    other: The element type of B, if it differs from that of A.
    """
    m, n, depth = sizes
    sizes = m, n, in_halves(element, depth)
    k.cluster(plan.cluster)
    main_loop = _WarpSpecialisedLoop if isinstance(plan, WarpSpecialisedTilePlan) else _MainLoop
    main_loop(k, (element, other), plan, sizes, arrays, along).run(finish)


def _line_shape(along: bool, depth: Value, extent: Value) -> tuple[Value, Value]:
    """Return the length of a line and the number of lines of an operand."""
    return (extent, depth) if along else (depth, extent)


class _Ring:
    """A ring of tiles of one operand, each `width` of the long axis by 64 of K.

    Lines are along K. If the operand is `along` its long axis, they are along that axis, in slabs
    of 64. Each of the `shared_by` workgroups that need a tile copies a part of its lines.
    """

    def __init__(
        self, k: Builder, plan: TilePlan, array: TiledArray, *, along: bool, width: int,
        shared_by: int,
    ) -> None:  # fmt: skip
        self._k, self.array = k, array
        self._along, self._width, self._shared_by = along, width, shared_by
        self._size = width * _WORDS
        self.room = k.shared(u32, self._size * plan.stages, alignment=8 * LINE)
        self.nbytes = 4 * self._size

    def copy(
        self, stage: Value, step: Value, mbarrier: tuple[Value, Value], long_start: Value,
        plane: Value,
    ) -> None:  # fmt: skip
        """Start this workgroup's part of the copies of a step of K.

        long_start: The first index of the tile along the long axis.
        plane: The index of the matrix.
        """
        k, start, multicast = self._k, step * TILE_DEPTH, self._shared_by > 1
        line_count = (TILE_DEPTH if self._along else self._width) // self._shared_by
        first_line = k.cluster_rank() * line_count if multicast else k.constant(0, u32)
        target = stage * self._size + first_line * _WORDS
        for slab in range(0, self._width if self._along else 1, TILE_DEPTH):
            coordinates = (
                (long_start + slab, start + first_line)
                if self._along
                else (start, long_start + first_line)
            )
            k.copy_tile(
                self.room, target + slab * _WORDS, mbarrier, self.array, (*coordinates, plane),
                line_count,
                multicast=multicast,
            )  # fmt: skip

    def operand(self, stage: Value, depth_block: int, first_line: Value | int = 0) -> TileOperand:
        """Return the operand for block `depth_block` of 16 k; `first_line` is a multiple of 64."""
        depth_offset = (
            depth_block * MATRIX_DEPTH * _WORDS if self._along else depth_block * MATRIX_DEPTH // 2
        )
        offset = stage * self._size + first_line * _WORDS + depth_offset
        return TileOperand(self.room, offset, self._along, TILE_DEPTH * _WORDS)


class _Position(NamedTuple):
    """A tile of C: its first row and column, and the index of the product."""

    row: Value
    column: Value
    batch: Value


class _MainLoop:
    """The products of one tile, in which all instances of the workgroup run in lockstep."""

    def __init__(
        self, k: Builder, elements: tuple[Type, Type | None], plan: TilePlan,
        sizes: tuple[Value, Value, Value], arrays: Arrays, along: tuple[bool, bool],
    ) -> None:  # fmt: skip
        """Allocate the rings.

        elements: The element type of A, and that of B if it differs.
        sizes: m, n and k in 16-bit units.
        along: As in `multiply_tiles`.
        """
        (m, n, depth), (a, b), (rows, columns) = sizes, arrays.memory, plan.tile
        self._k, self._plan, self._batches_of_b = k, plan, arrays.batches_of_b
        self._element, self._other = elements
        self._tile_columns = (n + (columns - 1)) // columns
        self._tile_rows = (m + (rows * plan.cluster - 1)) // (rows * plan.cluster)
        self._steps = (depth + (TILE_DEPTH - 1)) // TILE_DEPTH
        planes = k.maximum(arrays.batches * arrays.batches_of_b, k.constant(1, u32))
        second_map = k.pointer_add(arrays.maps, MAP_BYTES // 8)
        a_array = TiledArray(a, arrays.maps, *_line_shape(along[0], depth, m), arrays.batches)
        b_array = TiledArray(b, second_map, *_line_shape(along[1], depth, n), planes)
        self._a = _Ring(k, plan, a_array, along=along[0], width=rows, shared_by=1)
        self._b = _Ring(k, plan, b_array, along=along[1], width=columns, shared_by=plan.cluster)
        self._zeros = [k.constant(0, loaded_type(self._element))] * (columns // 2)
        self._copied = k.shared(u64, plan.stages)
        """Barriers that count the bytes of a stage."""
        # Shuffled from the first instance, so that the assembler sees that it is uniform in a
        # subgroup.
        self._warpgroup_row = k.shuffle(self._warpgroup(), k.constant(0, u32)) * MATRIX_ROWS

    def _warpgroup(self) -> Value:
        """Return the index of this instance's warpgroup among those that multiply."""
        return self._k.local_id() >> LOG2_WARPGROUP

    def run(self, finish: Finish) -> None:
        """Multiply the workgroup's tile, and call `finish`."""
        k, plan, steps = self._k, self._plan, self._steps
        position = self._position(k.workgroup_id())
        self._acquire_tensor_maps()
        for stage_index in range(plan.stages):
            k.mbarrier_init(self._copied, stage_index)
        if plan.cluster > 1:
            k.cluster_barrier()

        def copy(stage: Value, step: Value) -> None:
            with k.if_(step < steps):
                self._copy(position, stage, step)

        # The previous launch may store the operands.
        k.dependency_wait()
        for stage_index in range(plan.stages - 1):
            copy(k.constant(stage_index, u32), k.constant(stage_index, u32))
        if plan.cluster == 1:
            # One instance initialises the mbarriers; the others must not wait for them earlier.
            k.barrier()
        with k.range(0, steps, carry=self._zeros) as loop:
            step, sums = loop.index, tuple(loop.carried)
            stage, phase = _stage_and_phase(step, plan.stages)
            products = self._start_products(
                stage, phase, tuple(self._zeros) if plan.promoted else sums
            )
            # The previous step's products are complete for all instances, so its tiles are free.
            if not plan.promoted:
                k.mma_wait(1)
            k.cluster_barrier(memory=False)
            next_step = step + (plan.stages - 1)
            copy(_stage_and_phase(next_step, plan.stages)[0], next_step)
            if plan.promoted:
                # Tensor cores accumulate 8-bit floats with fewer bits than f32. A warpgroup adds
                # its sums while others multiply.
                products = _added(sums, k.mma_wait(0, products))
            loop.next(list(products))
        # Earlier, workgroups of the next launch would occupy resources that this launch still
        # needs.
        k.launch_dependents()
        finish(self._tile(position, loop.results if plan.promoted else k.mma_wait(0, loop.results)))

    def _acquire_tensor_maps(self) -> None:
        """Make the tensor maps visible to the instance that starts copies."""
        for ring in (self._a, self._b):
            self._k.tensor_map_acquire(ring.array.tensor_map)

    def _position(self, workgroup: Value) -> _Position:
        """Return the tile of a workgroup; workgroups traverse blocks of rows of tiles by column."""
        k, clusters = self._k, self._plan.cluster
        cluster = workgroup // clusters
        tiles = self._tile_rows * self._tile_columns
        tile, batch = cluster % tiles, cluster // tiles
        block_height = max(1, _GROUP // clusters)
        block, index_in_block = (
            tile // (self._tile_columns * block_height),
            tile % (self._tile_columns * block_height),
        )
        rows_in_block = k.minimum(self._tile_rows - block * block_height, block_height)
        tile_row = block * block_height + index_in_block % rows_in_block
        row = (tile_row * clusters + k.cluster_rank()) * self._plan.tile[0]
        return _Position(row, index_in_block // rows_in_block * self._plan.tile[1], batch)

    def _copy(self, position: _Position, stage: Value, step: Value) -> None:
        """Start the copies of a step of K."""
        mbarrier = self._copied, stage
        self._k.mbarrier_expect(*mbarrier, self._a.nbytes + self._b.nbytes)
        self._a.copy(stage, step, mbarrier, position.row, position.batch)
        self._b.copy(stage, step, mbarrier, position.column, position.batch * self._batches_of_b)

    def _start_products(
        self, stage: Value, phase: Value, sums: tuple[Value, ...]
    ) -> tuple[Value, ...]:
        """Wait for a stage, and start its products."""
        k = self._k
        k.mbarrier_wait(self._copied, stage, phase)
        k.mma_begin()
        for depth_block in range(TILE_DEPTH // MATRIX_DEPTH):
            sums = k.mma_tiles(
                self._element,
                self._a.operand(stage, depth_block, self._warpgroup_row),
                self._b.operand(stage, depth_block),
                sums,
                other=self._other,
            )
        k.mma_commit()
        return sums

    def _tile(self, position: _Position, sums: Sequence[Value]) -> MultipliedTile:
        """Return the instance's part of a tile.

        Each of a warpgroup's four subgroups has 16 rows, and four adjacent lanes share a row.
        """
        k = self._k
        first_row = self._warpgroup() * MATRIX_ROWS
        row = first_row + (k.local_id() >> 5 & 3) * 16 + (lane_of(k) >> 2)
        return MultipliedTile(position.row, row, position.column, position.batch, sums)


class _WarpSpecialisedLoop(_MainLoop):
    """The products of several tiles; one warpgroup copies, and the others multiply.

    A workgroup processes every `num_workgroups`-th tile. While a multiplying warpgroup stores a
    tile, the next tile's copies are in flight, and another warpgroup may still multiply.
    """

    _plan: WarpSpecialisedTilePlan

    def _warpgroup(self) -> Value:
        # The first warpgroup copies; its index wraps and is not used.
        return super()._warpgroup() - 1

    def run(self, finish: Finish) -> None:
        """Multiply the workgroup's tiles, and call `finish` for each in multiplying instances."""
        k, plan = self._k, self._plan
        self._read = k.shared(u64, plan.stages)
        """Barriers at which each multiplying subgroup releases a stage."""
        for stage_index in range(plan.stages):
            k.mbarrier_init(self._copied, stage_index)
            k.mbarrier_init(
                self._read, stage_index, plan.tile[0] // MATRIX_ROWS * _SUBGROUPS_PER_WARPGROUP
            )
        k.barrier()
        # The previous launch may store the operands.
        k.dependency_wait()
        with k.if_(k.subgroup_id() < _SUBGROUPS_PER_WARPGROUP) as copies:
            k.registers(plan.registers[0])
            with k.if_(k.subgroup_id() == 0):
                self._acquire_tensor_maps()
                with self._tiles() as tiles:
                    tiles.next(self._copy_all(self._position(tiles.index), tiles.carried))
        with copies.otherwise():
            k.registers(plan.registers[1])
            with self._tiles() as tiles:
                sums, used = self._multiply_all(tiles.carried)
                finish(self._tile(self._position(tiles.index), sums))
                tiles.next(used)
        k.launch_dependents()

    def _tiles(self) -> CountedLoop:
        """Loop over the workgroup's tiles; the carried value counts the steps of earlier tiles."""
        k = self._k
        count = self._tile_rows * self._tile_columns * self._a.array.planes
        return k.range(k.workgroup_id(), count, k.num_workgroups(), carry=k.constant(0, u32))

    def _copy_all(self, position: _Position, used: Value) -> Value:
        """Copy all steps of a tile as stages become free; return the number of steps so far."""
        k = self._k
        with k.range(0, self._steps, carry=used) as loop:
            stage, phase = _stage_and_phase(loop.carried, self._plan.stages)
            # In phase 0, before any copy, this does not wait.
            k.mbarrier_wait(self._read, stage, phase ^ 1)
            self._copy(position, stage, loop.index)
            loop.next(loop.carried + 1)
        count: Value = loop.results
        return count

    def _multiply_all(self, used: Value) -> tuple[Sequence[Value], Value]:
        """Multiply all steps of a tile; return its sums and the number of steps so far."""
        k, plan = self._k, self._plan
        with k.range(0, self._steps, carry=(self._zeros, used)) as loop:
            sums, count = loop.carried
            stage, phase = _stage_and_phase(count, plan.stages)
            if plan.promoted:
                products = k.mma_wait(0, self._start_products(stage, phase, tuple(self._zeros)))
                k.mbarrier_arrive(self._read, stage)
                products = _added(sums, products)
            else:
                products = self._start_products(stage, phase, tuple(sums))
                k.mma_wait(1)
                with k.if_(loop.index > 0):
                    k.mbarrier_arrive(self._read, _stage_and_phase(count - 1, plan.stages)[0])
            loop.next((list(products), count + 1))
        sums, count = loop.results
        if not plan.promoted:
            sums = k.mma_wait(0, sums)
            with k.if_(self._steps > 0):
                k.mbarrier_arrive(self._read, _stage_and_phase(count - 1, plan.stages)[0])
        return sums, count


def _added(sums: Sequence[Value], products: Sequence[Value]) -> tuple[Value, ...]:
    return tuple(x + y for x, y in zip(sums, products, strict=True))


def _stage_and_phase(step: Value, stages: int) -> tuple[Value, Value]:
    """Return a step's stage, and how often the whole ring was filled before the step.

    `stages` is a power of two; assemblers would not replace a division by a shift.
    """
    return step & (stages - 1), step >> (stages.bit_length() - 1)

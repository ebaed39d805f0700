"""Kernels of products of 8-bit matrices, with scales and a bias applied to the sums."""

from __future__ import annotations

from collections.abc import Sequence

from quod.frozen import frozen
from quod.kernel import Builder, KernelDefinition, Location, Value, f32, i8, i32, pointer, u32, u64
from quod.kernel.ir.types import Type
from quod.kernel.ir.value import ParameterType
from quod.kernel.machine import Capability
from quod.tensor.accesses import Accesses
from quod.tensor.matmul.kernel import edges_of, matrix_of, multiply_tile, tile_of
from quod.tensor.matmul.plan import CorePlan, GemmPlan, TilePlan
from quod.tensor.matmul.warpgroups.kernel import WIDEST_STORE, first_column, store_wide
from quod.tensor.matmul.warpgroups.main_loop import Arrays, MultipliedTile, multiply_tiles


@frozen
class ScaledForm:
    """The form of a product of 8-bit matrices.

    transpose_a: A is stored as (k, m).
    transpose_b: B is stored as (n, k).
    row_scales: Sums are multiplied by the scale of their row.
    column_scales: Sums are multiplied by the scale of their column.
    bias: A bias is added to each row.
    one_row_scale: All rows share one scale.
    one_column_scale: All columns share one scale.
    """

    transpose_a: bool = False
    transpose_b: bool = False
    row_scales: bool = False
    column_scales: bool = False
    bias: bool = False
    one_row_scale: bool = False
    one_column_scale: bool = False


def _gemm(
    k: Builder, m: Value, n: Value, depth: Value, batches_of_b: Value, a: Value, b: Value,
    row_scales: Value, column_scales: Value, bias: Value, c: Value, *, element: Type,
    plan: GemmPlan | CorePlan, form: ScaledForm,
    operands: tuple[Type, Type] = (i8, i8),
) -> None:  # fmt: skip
    """C = A B, with the epilogue of `ScaledResult`, for a batch of products.

    `batches_of_b` is 1 if each product has its own B, and 0 if all share one. `operands` are the
    element types of A and B.
    """
    row, column, batch = tile_of(k, m, n, plan)
    result = ScaledResult(
        k, element, plan.c_vector, form, (m, n), (batch, batch * batches_of_b),
        (row_scales, column_scales, bias, c),
    )  # fmt: skip
    a_edges, b_edges = edges_of(
        k, operands[0], plan, form, (m, n, depth), (row, column), (batch, batches_of_b), (a, b)
    )
    multiply_tile(k, operands[0], plan, a_edges, b_edges, result.store, other=operands[1])


def _gemm_tiles(
    k: Builder, m: Value, n: Value, depth: Value, batches: Value, batches_of_b: Value, maps: Value,
    a: Value, b: Value, row_scales: Value, column_scales: Value, bias: Value, c: Value, *,
    element: Type, plan: TilePlan, form: ScaledForm,
    operands: tuple[Type, Type] = (i8, i8),
) -> None:  # fmt: skip
    """C = A B, with the epilogue of `ScaledResult`, by warpgroups; lines are along K."""
    arrays = Arrays(maps, (a, b), batches, batches_of_b)
    # An instance has pairs of sums; with wide stores, instances exchange pairs.
    vector = plan.c_vector if plan.c_vector == WIDEST_STORE else min(2, plan.c_vector)

    def store(tile: MultipliedTile) -> None:
        result = ScaledResult(
            k, element, vector, form, (m, n), (tile.batch, tile.batch * batches_of_b),
            (row_scales, column_scales, bias, c),
        )  # fmt: skip
        column = tile.column + first_column(k)
        for row, pairs in tile.pairs():
            if vector == WIDEST_STORE:
                result.store_wide(row, tile.column, pairs)
                continue
            for block, sums in enumerate(pairs):
                result.store(row, column + 8 * block, sums)

    multiply_tiles(
        k, operands[0], plan, (m, n, depth), arrays, (False, False), store, other=operands[1]
    )


class ScaledResult:
    """The memory of C and its epilogue: ((sum * row's scale) * column's scale) + bias."""

    def __init__(
        self, k: Builder, element: Type, vector: int, form: ScaledForm,
        extents: tuple[Value, Value], batch_indices: tuple[Value, Value],
        memory: tuple[Value, Value, Value, Value],
    ) -> None:  # fmt: skip
        """Select the scales and C of a product.

        batch_indices: The index of the product, and the index of its B.
        memory: Row scales, column scales, bias and C of all products.
        """
        self._k, self._form, self._vector = k, form, vector
        self._rows, self._columns = extents
        row_scales, column_scales, bias, c = memory
        batch, b_index = batch_indices
        self._accesses = Accesses(k, element, vector)
        pair_vector = 2 if vector == WIDEST_STORE else vector
        self._numbers = Accesses(k, f32, pair_vector)
        unit_extent = k.constant(1, u32)
        self._row_scales, self._column_scales = row_scales, column_scales
        if not form.one_row_scale:
            self._row_scales = matrix_of(k, row_scales, batch, (self._rows, unit_extent), 1)
        if not form.one_column_scale:
            self._column_scales = matrix_of(
                k, column_scales, b_index, (unit_extent, self._columns), pair_vector
            )
        self._bias = bias
        self._c = self._accesses.of(matrix_of(k, c, batch, extents, vector))

    def store(self, row: Value, column: Value, sums: Sequence[Value]) -> None:
        """Apply the epilogue to adjacent sums, and store them in C."""
        k = self._k
        word = u64 if k.machine.has(Capability.U64) else u32
        vector = min(self._vector, len(sums))
        for start in range(0, len(sums), vector):
            first_column = column + start
            with k.if_((row < self._rows) & (first_column < self._columns)):
                access = first_column // self._vector
                pitch = self._columns // self._vector
                row_access = row.cast(word) * pitch.cast(word)
                target = k.pointer_add(self._c, row_access * self._accesses.words)
                values = self._complete(row, access, sums[start : start + vector])
                self._accesses.store(target, access, values)

    def store_wide(self, row: Value, column: Value, pairs: Sequence[Sequence[Value]]) -> None:
        """Apply the epilogue to pairs of sums of a row, and store them 16 bytes at a time."""
        k = self._k
        clamped_row = k.minimum(row, self._rows - 1)
        first_access = row.cast(u64) * (self._columns // WIDEST_STORE).cast(u64)
        store_wide(
            k, self._accesses.element, (self._c, first_access),
            (row < self._rows, column, self._columns), pairs,
            lambda first, sums: self._complete(
                clamped_row, k.minimum(first, self._columns - 2) // 2, sums
            ),
        )  # fmt: skip

    def _complete(self, row: Value, access: Value, sums: Sequence[Value]) -> list[Value]:
        """Apply scales and bias to adjacent sums; sums stored as i32 stay as they are."""
        if self._accesses.element is i32:
            return list(sums)
        values = [value.cast(f32) for value in sums]
        if self._form.row_scales:
            scale = self._row_scales[0 if self._form.one_row_scale else row]
            values = [value * scale for value in values]
        if self._form.column_scales:
            if self._form.one_column_scale:
                scales = (self._column_scales[0],) * len(values)
            else:
                scales = self._numbers.load(self._column_scales, access)
            values = [value * scale for value, scale in zip(values, scales, strict=True)]
        if self._form.bias:
            biases = self._numbers.load(self._bias, access)
            values = [value + bias for value, bias in zip(values, biases, strict=True)]
        return values


def scaled_kernel(
    name: str, element: Type, operands: tuple[Type, Type] = (i8, i8), *, tiles: bool
) -> KernelDefinition:
    """Build the kernel for a result type and operand types; with `tiles`, for warpgroups."""
    names = ("m", "n", "depth", *(("batches",) if tiles else ()), "batches_of_b")
    parameters: dict[str, ParameterType] = dict.fromkeys(names, u32)
    if tiles:
        parameters["maps"] = pointer(u64)
    parameters |= {"a": pointer(operands[0]), "b": pointer(operands[1])}
    parameters |= dict.fromkeys(("row_scales", "column_scales", "bias"), pointer(f32))
    parameters["c"] = pointer(element)
    function = _gemm_tiles if tiles else _gemm
    location = Location(function.__code__.co_filename, function.__code__.co_firstlineno)
    return KernelDefinition(
        f"{name}_{'tiles_' if tiles else ''}{element}", function, parameters, location,
        constant=("maps",) if tiles else (),
    )  # fmt: skip

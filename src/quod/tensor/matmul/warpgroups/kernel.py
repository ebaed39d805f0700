"""The matrix product by warpgroups: its epilogue, and the stores of an instance's sums."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

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
from quod.kernel.ir.types import Type
from quod.kernel.ir.value import ParameterType
from quod.tensor.accesses import Accesses, Values
from quod.tensor.matmul.epilogue import completed
from quod.tensor.matmul.form import GemmForm
from quod.tensor.matmul.mma_fragments import QUAD, lane_of, transposed
from quod.tensor.matmul.plan import TilePlan
from quod.tensor.matmul.warpgroups.main_loop import Arrays, MultipliedTile, multiply_tiles

WIDEST_STORE = 8
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

    def store(tile: MultipliedTile) -> None:
        memory = bias, residual, c
        result = _Result(k, element, plan, form, (m, n), tile.batch, scale, memory)
        for row, pairs in tile.pairs():
            result.store(row, tile.column, pairs)

    multiply_tiles(
        k, element, plan, (m, n, depth), arrays, (form.transpose_a, not form.transpose_b), store
    )


def first_column(k: Builder) -> Value:
    """Return the first of the two adjacent columns that an instance has of every eight columns."""
    return 2 * (lane_of(k) & (QUAD - 1))


def store_wide(
    k: Builder, element: Type, row: tuple[Value, Value], bounds: tuple[Value, Value, Value],
    pairs: Sequence[Sequence[Value]], complete: Callable[[Value, Sequence[Value]], Sequence[Value]],
) -> None:  # fmt: skip
    """Store an instance's part of a row, two columns of every eight, in accesses of 16 bytes.

    row: The memory of a matrix, and the index of the row's first access of 16 bytes.
    bounds: Whether the row is in the matrix, the tile's first column, and the columns of a row.
    complete: Applies the epilogue to the pair of sums at a column.
    """
    (memory, first_access), (is_row, column, columns) = row, bounds
    memory = memory.cast(u32)
    pack = k.pack_f16 if element is f16 else k.pack_bf16
    # Few pairs at a time, as results take registers until they are stored.
    for start in range(0, len(pairs), QUAD):
        words = [
            pack(*complete(column + 8 * block + first_column(k), pairs[block]))
            for block in range(start, start + QUAD)
        ]
        row_words = transposed(k, words)
        store_column = column + ((lane_of(k) & (QUAD - 1)) + start) * WIDEST_STORE
        with k.if_(is_row & (store_column < columns)):
            access = first_access + (store_column // WIDEST_STORE).cast(u64)
            k.store(k.pointer_add(memory, access * (WIDEST_STORE // 2)), 0, *row_words)


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
        k = self._k
        if self._vector == WIDEST_STORE:
            store_wide(
                k, self._pairs.element, (self._c, self._row_access(row, WIDEST_STORE)),
                (row < self._rows, column, self._columns), pairs,
                lambda first, sums: self._complete(row, first, sums),
            )  # fmt: skip
            return
        for block, sums in enumerate(pairs):
            pair_column = column + 8 * block + first_column(k)
            self._store(row, pair_column, self._complete(row, pair_column, sums))

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

"""The kernels of embeddings: row lookups, and sums of gradients by index.

A width counts accesses of a row, each of `vector` elements.
"""

from __future__ import annotations

from quod.kernel import Builder, KernelDefinition, Value, bf16, f32, u16, u32, u64
from quod.kernel.ir.types import Type
from quod.kernel.registry import register
from quod.tensor.elementwise.kernel import TYPES
from quod.tensor.rows.column_sums import ColumnPlan, Columns
from quod.tensor.rows.groups import own_accesses, own_rows
from quod.tensor.rows.kernels import row_kernel
from quod.tensor.rows.plan import GroupPlan


def _embedding(
    k: Builder, rows: Value, width: Value, table: Value, y: Value, indices: Value, last: Value, *,
    element: Type, plan: GroupPlan,
) -> None:  # fmt: skip
    """y[r] = table[indices[r]], bit for bit; an index beyond last[0] selects row last[0].

    `rows` is the number of indices, and of rows of y.
    """
    access_bytes = element.bytes * plan.vector
    unit = u32 if access_bytes % 4 == 0 else u16
    units = access_bytes // unit.bytes
    (last_row,) = k.load(last, 0)
    with own_rows(k, plan, rows) as loop:
        (index,) = k.load(indices, loop.index)
        index, row_units = k.minimum(index, last_row), (width * units).cast(u64)
        source = k.pointer_add(table.cast(unit), index.cast(u64) * row_units)
        target = k.pointer_add(y.cast(unit), loop.index.cast(u64) * row_units)
        with own_accesses(k, plan, width) as accesses:
            offset = accesses.index * units
            k.store(target, offset, *k.load(source, offset, units))


def _embedding_sums(
    k: Builder, rows: Value, width: Value, x: Value, y: Value, order: Value, firsts: Value,
    lasts: Value, targets: Value, *, element: Type, stored: Type, plan: ColumnPlan,
) -> None:  # fmt: skip
    """y[targets[r]] = the sum in f32 of x[order[i]] for firsts[r] <= i < lasts[r], else 0.

    Overwrites the rows `targets` of y and no others.
    """
    columns = Columns(k, plan, width)
    (start,), (last,), (target,) = (
        k.load(bound, columns.slab) for bound in (firsts, lasts, targets)
    )

    def load_summand(position: Value) -> list[tuple[Value, ...]]:
        return [columns.load(x, element, k.load(order, position)[0])]

    (sums,) = columns.sums(start, last - start, load_summand, 1)
    columns.store(y, stored, target, sums)


EMBEDDING = {
    element: row_kernel(
        _embedding, element, [], "table y", {"indices": u32, "last": u32}
    )
    for element in TYPES
}  # fmt: skip
"""The kernels by element type."""


def _sums_kernel(source: Type, sum_type: Type) -> KernelDefinition:
    """Build the kernel that sums rows of type `source` and stores sums of type `sum_type`."""
    other_parameters = {"y": sum_type} | dict.fromkeys(("order", "firsts", "lasts", "targets"), u32)
    return row_kernel(_embedding_sums, source, [], "x", other_parameters)


EMBEDDING_SUMS = {
    pair: _sums_kernel(*pair)
    for element in TYPES
    for pair in ((element, element), (element, f32), (f32, element))
}
"""The kernels by the types of the summands and of the sums."""

register(
    "tensor.embedding_bf16", EMBEDDING[bf16], element=bf16,
    plan=GroupPlan(lanes=8, threads=8, vector=8, rows=1),
)  # fmt: skip
register(
    "tensor.embedding_sums_bf16", EMBEDDING_SUMS[bf16, f32], element=bf16, stored=f32,
    plan=ColumnPlan(lanes=8, vector=4, batch=1),
)  # fmt: skip

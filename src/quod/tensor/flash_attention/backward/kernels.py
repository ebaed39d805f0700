"""The kernels of the gradients of attention: one for queries, one for keys and values.

Weights are recomputed from the logarithms of sums that the forward pass stored (FlashAttention-2,
Dao, 2023). One workgroup computes each sum, in a fixed order, so results are deterministic.
"""

from __future__ import annotations

from typing import Any

from quod.kernel import Builder, KernelDefinition, Location, Value, bf16, f32, pointer, u32, u64
from quod.kernel.ir.types import Type
from quod.kernel.ir.value import ParameterType
from quod.kernel.machine import Capability
from quod.kernel.registry import register
from quod.tensor.accesses import Values
from quod.tensor.elementwise.kernel import TYPES
from quod.tensor.flash_attention.backward.recompute import (
    Operands,
    corrected_keys,
    corrected_queries,
)
from quod.tensor.flash_attention.backward.tensor_cores import of_keys, of_queries
from quod.tensor.flash_attention.kernel import AttentionForm, Sequence, head_pointer
from quod.tensor.flash_attention.plan import CoreTilePlan, TilePlan
from quod.tensor.flash_attention.recompute import PlainSums, flat, in_blocks
from quod.tensor.flash_attention.tensor_cores import HeadMatrix, store
from quod.tensor.flash_attention.tiles import Grid, Lines, Mask, Tile
from quod.tensor.rows.kernels import row_kernel
from quod.tensor.rows.plan import RowPlan
from quod.tensor.rows.row import LOG2_E, Access, Row, masked_terms, summed

_EMPTY_LOG = -1e38
"""The logarithm of the sum of a query that sees no key.

It may be multiplied by log2(e) without overflow. No weight is computed from it.
"""


def _attention_rows(
    k: Builder, rows: Value, width: Value, gradient: Value, y: Value, log_sums: Value,
    numbers: Value, *, element: Type, plan: RowPlan,
) -> None:  # fmt: skip
    """Store the base-2 logarithms of the sums of all queries, then sum(dy * y) of all queries.

    sum(dy * y) equals the sum of a query's weights times their gradients.
    """
    row = Row(k, element, plan, rows, width)
    y_row, zero = row.input_pointer(y), k.constant(0.0, f32)

    def step(accesses: list[Access], sums: Values) -> Values:
        terms = masked_terms(
            k, accesses, lambda a, b: a * b, lambda access: row.load(y_row, access.read_index)
        )
        return (summed(terms, sums[0]),)

    total = row.total(row.fold(row.input_pointer(gradient), (zero,), step)[0])
    row.put(numbers, k.maximum(row.own(log_sums), _EMPTY_LOG) * LOG2_E)
    row.put(k.pointer_add(numbers, rows), total)


class NumbersOfRows:
    """The logarithms and sum(dy * y) of a head's queries, as `attention_rows` stored them.

    counts: The number of queries of all heads, and of a head.
    """

    def __init__(self, k: Builder, numbers: Value, head: Value, counts: tuple[Value, Value]):
        word = u64 if k.machine.has(Capability.U64) else u32
        rows, queries = counts
        self._logs = k.pointer_add(numbers, head.cast(word) * queries.cast(word))
        self._products = k.pointer_add(self._logs, rows)

    def of(self, query: Value) -> tuple[Value, Value]:
        """Return the base-2 logarithm of a query's sum, and its sum(dy * y)."""
        return self._logs[query], self._products[query]


def _attention_backward_queries(
    k: Builder, queries: Value, keys: Value, size: Value, heads: Value, shared_by: Value,
    rows: Value, factor: Value, scale: Value, gradient: Value, q: Value, keys_: Value,
    values: Value, numbers: Value, *memory: Value, element: Type, plan: TilePlan | CoreTilePlan,
    form: AttentionForm,
) -> None:  # fmt: skip
    """dq = scale * ds k, where ds = p * (dy v^T - sum(dy * y)), and p is the softmax weights."""
    *lengths, dq = memory
    tile_rows, _ = plan.tile
    tiles = (queries + (tile_rows - 1)) // tile_rows
    # The tiles with the most work run first.
    head, first_row = k.workgroup_id() // tiles, (tiles - 1 - k.workgroup_id() % tiles) * tile_rows
    sequence = Sequence(k, form, (queries, keys), lengths[0] if lengths else None, head // heads)
    row_statistics = NumbersOfRows(k, numbers, head, (rows, queries))
    stop = sequence.seen(k.minimum(first_row + (tile_rows - 1), queries - 1))
    if isinstance(plan, CoreTilePlan):
        size = k.constant(plan.size, u32) if plan.exact else size
        row_matrices = [
            HeadMatrix(head_pointer(k, x, head, queries, size), size, queries)
            for x in (q, gradient)
        ]
        line_matrices = [
            HeadMatrix(head_pointer(k, x, head // shared_by, keys, size), size, stop)
            for x in (keys_, values)
        ]
        row, dq_sums = of_queries(
            k,
            element,
            plan,
            row_matrices,
            line_matrices,
            first_row,
            sequence.seen,
            row_statistics.of,
            factor,
        )
        if form.causal:
            operands = Operands(
                [matrix_.pointer for matrix_ in (*row_matrices, *line_matrices)],
                row_statistics.of,
                factor,
            )
            plain_sums = PlainSums(k, element, size, k.lane_id())
            dq_sums = in_blocks(
                corrected_queries(k, plain_sums, flat(dq_sums), row, sequence, operands)
            )
        out_rows = HeadMatrix(head_pointer(k, dq, head, queries, size), size, queries)
        store(k, element, plan, out_rows, row, dq_sums, [scale] * 2)
        return
    tile = Tile(k, element, plan, size)
    buffers, sums = (tile.transposed_buffer(), tile.transposed_buffer()), tile.sums()
    sums.clear()
    transposed_q, transposed_gradient = (
        tile.transposed_rows(
            Lines(head_pointer(k, matrix, head, queries, size), queries), first_row, buffer
        )
        for matrix, buffer in zip((q, gradient), buffers, strict=True)
    )
    of_keys, of_values = (
        Lines(head_pointer(k, matrix, head // shared_by, keys, size), sequence.keys)
        for matrix in (keys_, values)
    )
    row_indices = [
        k.minimum(first_row + tile.row(row_index), queries - 1) for row_index in range(plan.rows)
    ]
    logs, products = zip(*map(row_statistics.of, row_indices), strict=True)
    seen = [sequence.seen(query) for query in row_indices]
    with k.range(k.constant(0, u32), stop, tile.columns, carry=sums) as loop:
        visible = tile.visible(loop.index, seen)
        logits = tile.products(transposed_q, of_keys, loop.index)
        slopes = tile.products(transposed_gradient, of_values, loop.index)
        weights = _weights(k, logits, visible, factor, [[log] * plan.columns for log in logs])
        tile.weigh(
            [
                [weight * (slope - product) for weight, slope in zip(*row, strict=True)]
                for *row, product in zip(weights, slopes, products, strict=True)
            ]
        )
        mask = sequence.mask(tile, loop.index, first_row, seen)
        loop.next(tile.add(loop.carried, of_keys, loop.index, mask=mask))
    target = Lines(head_pointer(k, dq, head, queries, size), queries)
    tile.store(target, first_row, loop.results, [scale] * plan.rows)


def _attention_backward_keys(
    k: Builder, queries: Value, keys: Value, size: Value, heads: Value, shared_by: Value,
    rows: Value, factor: Value, scale: Value, gradient: Value, q: Value, keys_: Value,
    values: Value, numbers: Value, *memory: Value, element: Type, plan: TilePlan | CoreTilePlan,
    form: AttentionForm,
) -> None:  # fmt: skip
    """dv = p^T dy, and dk = scale * ds^T q, over all heads of queries that share the keys."""
    *lengths, dk, dv = memory
    tile_rows, _ = plan.tile
    tiles = (keys + (tile_rows - 1)) // tile_rows
    head, first_key = k.workgroup_id() // tiles, k.workgroup_id() % tiles * tile_rows
    sequence = Sequence(
        k, form, (queries, keys), lengths[0] if lengths else None, head // (heads // shared_by)
    )
    # Keys beyond the sequence are skipped.
    key_count = k.select(first_key < sequence.keys, sequence.keys, keys)
    first_query = sequence.first_that_sees(first_key)
    if isinstance(plan, CoreTilePlan):
        size = k.constant(plan.size, u32) if plan.exact else size
        row_matrices = [
            HeadMatrix(head_pointer(k, x, head, keys, size), size, key_count)
            for x in (keys_, values)
        ]
        line_count = shared_by * queries
        line_matrices = [
            HeadMatrix(head_pointer(k, x, head, line_count, size), size, line_count)
            for x in (q, gradient)
        ]
        line_statistics = NumbersOfRows(k, numbers, head, (rows, line_count)).of
        row, *grads = of_keys(
            k, element, plan, row_matrices, line_matrices, first_key, sequence.seen,
            line_statistics, factor, (first_query, queries),
        )  # fmt: skip
        if form.causal or form.lengths:
            operands = Operands(
                [matrix_.pointer for matrix_ in (*line_matrices, *row_matrices)],
                line_statistics,
                factor,
            )
            plain_sums = PlainSums(k, element, size, k.lane_id())
            grads = [
                in_blocks(sums_array)
                for sums_array in corrected_keys(
                    k, plain_sums, (flat(grads[0]), flat(grads[1])), (row, keys), shared_by,
                    sequence, operands,
                )
            ]  # fmt: skip
        for target, gradient_sums, multiplier in zip(
            (dk, dv), grads, (scale, k.constant(1.0, f32)), strict=True
        ):
            out_rows = HeadMatrix(head_pointer(k, target, head, keys, size), size, keys)
            store(k, element, plan, out_rows, row, gradient_sums, [multiplier] * 2)
        return
    tile = Tile(k, element, plan, size)
    buffers, sums = (tile.transposed_buffer(), tile.transposed_buffer()), (tile.sums(), tile.sums())
    for sum_matrix in sums:
        sum_matrix.clear()
    transposed_keys, transposed_values = (
        tile.transposed_rows(
            Lines(head_pointer(k, matrix, head, keys, size), key_count), first_key, buffer
        )
        for matrix, buffer in zip((keys_, values), buffers, strict=True)
    )
    key_indices = [first_key + tile.row(row_index) for row_index in range(plan.rows)]
    with k.range(k.constant(0, u32), shared_by, carry=sums) as group:
        query_head = head * shared_by + group.index
        of_q, of_gradient = (
            Lines(head_pointer(k, matrix, query_head, queries, size), queries)
            for matrix in (q, gradient)
        )
        row_statistics = NumbersOfRows(k, numbers, query_head, (rows, queries))
        with k.range(first_query, queries, tile.columns, carry=group.carried) as loop:
            key_sums, value_sums = loop.carried
            query_indices = [loop.index + tile.column(column) for column in range(plan.columns)]
            pairs = [row_statistics.of(k.minimum(query, queries - 1)) for query in query_indices]
            counts = [k.select(query < queries, sequence.seen(query), 0) for query in query_indices]
            visible = [[key_index < count for count in counts] for key_index in key_indices]
            logits = tile.products(transposed_keys, of_q, loop.index)
            slopes = tile.products(transposed_values, of_gradient, loop.index)
            logs, products = zip(*pairs, strict=True)
            weights = _weights(k, logits, visible, factor, [logs] * plan.rows)
            tile.weigh(weights)
            mask = None
            if form.causal or form.lengths:
                tile_start = loop.index
                all_rows = first_key + tile.rows <= sequence.seen(tile_start)
                all_lines = tile_start + tile.columns <= queries

                def inside(row: int, line: Value, first_query: Value = tile_start) -> Value:
                    return key_indices[row] < sequence.seen(first_query + line)

                mask = Mask(~(all_rows & all_lines), inside)
            value_sums = tile.add(value_sums, of_gradient, loop.index, mask=mask)
            k.barrier()
            tile.weigh(
                [
                    [
                        weight * (slope - product)
                        for weight, slope, product in zip(*row, products, strict=True)
                    ]
                    for row in zip(weights, slopes, strict=True)
                ]
            )
            loop.next((tile.add(key_sums, of_q, loop.index, mask=mask), value_sums))
        group.next(loop.results)
    unit = k.constant(1.0, f32)
    for target, grads, multiplier in zip((dk, dv), group.results, (scale, unit), strict=True):
        target_lines = Lines(head_pointer(k, target, head, keys, size), keys)
        tile.store(target_lines, first_key, grads, [multiplier] * plan.rows)


def _weights(k: Builder, logits: Grid, visible: Any, factor: Value, logs: Any) -> Grid:
    """Return the weights of an instance's rows and lines, with 0 for masked pairs."""
    return [
        [
            k.select(inside, k.exp2(k.fma(x, factor, -log)), 0.0)
            for x, inside, log in zip(*row, strict=True)
        ]
        for row in zip(logits, visible, logs, strict=True)
    ]


def _kernel(body: Any, element: Type, results: str, *, lengths: bool) -> KernelDefinition:
    counts = ("queries", "keys", "size", "heads", "shared_by", "rows")
    parameters: dict[str, ParameterType] = dict.fromkeys(counts, u32)
    parameters |= {"factor": f32, "scale": f32}
    parameters |= dict.fromkeys(("gradient", "q", "keys_", "values"), pointer(element))
    parameters["numbers"] = pointer(f32)
    if lengths:
        parameters["lengths"] = pointer(u32)
    parameters |= dict.fromkeys(results.split(), pointer(element))
    location = Location(body.__code__.co_filename, body.__code__.co_firstlineno)
    return KernelDefinition(f"{body.__name__[1:]}_{element}", body, parameters, location)


def _kernels(body: Any, results: str) -> dict[tuple[Type, bool], KernelDefinition]:
    return {
        (element, lengths): _kernel(body, element, results, lengths=lengths)
        for element in TYPES
        for lengths in (False, True)
    }


ATTENTION_ROWS = {
    element: row_kernel(
        _attention_rows, element, [], "gradient y", {"log_sums": f32, "numbers": f32}
    )
    for element in TYPES
}
"""The kernels by element type."""

ATTENTION_BACKWARD_QUERIES = _kernels(_attention_backward_queries, "dq")
ATTENTION_BACKWARD_KEYS = _kernels(_attention_backward_keys, "dk dv")
"""The kernels by element type, and by whether there are lengths."""

_plan = RowPlan(lanes=8, threads=8, vector=4, batch=4, single_step=True)
register("tensor.attention_rows_f32", ATTENTION_ROWS[f32], element=f32, plan=_plan)
for _name, _family in (
    ("queries", ATTENTION_BACKWARD_QUERIES), ("keys", ATTENTION_BACKWARD_KEYS)
):  # fmt: skip
    for _element, _form in (
        (f32, AttentionForm(causal=True, lengths=True)),
        (bf16, AttentionForm()),
    ):
        register(
            f"tensor.attention_backward_{_name}_{_element}", _family[_element, _form.lengths],
            element=_element, plan=TilePlan(64, 8, 2, 2, 64, 32, 32, 4, held=True), form=_form,
        )  # fmt: skip

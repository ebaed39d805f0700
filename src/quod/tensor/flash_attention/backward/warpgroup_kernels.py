"""The kernels of attention's gradients by warpgroups, for 16-bit floats and whole sequences."""

from __future__ import annotations

from typing import Any

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
from quod.kernel.builder.tiles import TiledArray
from quod.kernel.ir.types import Type
from quod.kernel.ir.value import ParameterType
from quod.tensor.flash_attention.backward.kernels import NumbersOfRows
from quod.tensor.flash_attention.backward.recompute import (
    Operands,
    corrected_keys,
    corrected_queries,
)
from quod.tensor.flash_attention.backward.warpgroups import Pair, QueryRange, of_keys, of_queries
from quod.tensor.flash_attention.kernel import AttentionForm, Sequence, head_pointer
from quod.tensor.flash_attention.plan import WarpgroupGradientPlan
from quod.tensor.flash_attention.recompute import PlainSums
from quod.tensor.flash_attention.warpgroups import HeadOf, store_rows
from quod.tensor.matmul.mma_fragments import lane_of


def _heads(
    k: Builder, maps: Value, size: Value, arrays: tuple[Value, Value, Value, Value],
    lines: tuple[Value, Value], counts: tuple[Value, Value], head_indices: tuple[Value, Value],
) -> tuple[Pair, Pair]:  # fmt: skip
    """Return the heads of q and its gradient, and those of keys and values.

    lines: Lines of a head, of queries and of keys.
    counts: The number of heads, of queries and of keys.
    head_indices: The index of the head, of queries and of keys.
    """
    tiled_heads = [
        HeadOf(
            TiledArray(
                memory, k.pointer_add(maps, MAP_BYTES // 8 * index), size, lines[index // 2],
                counts[index // 2],
            ),
            head_indices[index // 2],
        )
        for index, memory in enumerate(arrays)
    ]  # fmt: skip
    return (tiled_heads[0], tiled_heads[1]), (tiled_heads[2], tiled_heads[3])


def _attention_backward_queries_tiles(
    k: Builder, queries: Value, keys: Value, heads: Value, shared_by: Value, factor: Value,
    scale: Value, maps: Value, gradient: Value, q: Value, keys_: Value, values: Value,
    numbers: Value, dq: Value, *, element: Type, plan: WarpgroupGradientPlan, form: AttentionForm,
) -> None:  # fmt: skip
    """dq = scale * ds k, as in `backward.kernels`, by warpgroups.

    maps: The tensor maps of q, the gradient, keys and values.
    heads: The number of query heads of all sequences.
    """
    tile_rows, _ = plan.tile
    tiles = (queries + (tile_rows - 1)) >> (tile_rows.bit_length() - 1)
    # Tiles with the most keys run first.
    head, first_row = k.workgroup_id() // tiles, (tiles - 1 - k.workgroup_id() % tiles) * tile_rows
    sequence = Sequence(k, form, (queries, keys), None, head)
    query_heads, key_heads = _heads(
        k, maps, k.constant(plan.size, u32), (q, gradient, keys_, values), (queries, keys),
        (heads, heads // shared_by), (head, head // shared_by),
    )  # fmt: skip
    row_statistics = NumbersOfRows(k, numbers, head, (heads * queries, queries))
    row, sums = of_queries(
        k, element, plan, query_heads, key_heads, first_row, queries, sequence.seen,
        row_statistics.of, factor,
    )  # fmt: skip
    size = k.constant(plan.size, u32)
    if form.causal:
        heads_of_q = [head_pointer(k, memory, head, queries, size) for memory in (q, gradient)]
        heads_of_keys = [
            head_pointer(k, memory, head // shared_by, keys, size) for memory in (keys_, values)
        ]
        operands = Operands([*heads_of_q, *heads_of_keys], row_statistics.of, factor)
        plain_sums = PlainSums(k, element, size, lane_of(k))
        sums = tuple(corrected_queries(k, plain_sums, sums, row, sequence, operands))
    target = head_pointer(k, dq, head, queries, size)
    store_rows(k, element, target, (row, queries), sums, [scale] * 2)


def _attention_backward_keys_tiles(
    k: Builder, queries: Value, keys: Value, heads: Value, shared_by: Value, factor: Value,
    scale: Value, maps: Value, gradient: Value, q: Value, keys_: Value, values: Value,
    numbers: Value, dk: Value, dv: Value, *, element: Type, plan: WarpgroupGradientPlan,
    form: AttentionForm,
) -> None:  # fmt: skip
    """dk = scale * ds^T q and dv = p^T dy, of all queries that share the keys."""
    tile_rows, _ = plan.tile
    tiles = (keys + (tile_rows - 1)) >> (tile_rows.bit_length() - 1)
    head, first_row = k.workgroup_id() // tiles, k.workgroup_id() % tiles * tile_rows
    sequence = Sequence(k, form, (queries, keys), None, head)
    size, first_head = k.constant(plan.size, u32), head * shared_by
    query_heads, key_heads = _heads(
        k, maps, size, (q, gradient, keys_, values), (queries, keys), (heads, heads // shared_by),
        (first_head, head),
    )  # fmt: skip

    def statistics_of(of_head: Value, query: Value) -> tuple[Value, Value]:
        return NumbersOfRows(k, numbers, of_head, (heads * queries, queries)).of(query)

    span = QueryRange(first_head, shared_by, sequence.first_that_sees(first_row), queries, keys)
    row, *gradient_sums = of_keys(
        k, element, plan, key_heads, query_heads, first_row, span,
        sequence.seen if form.causal else None, statistics_of, factor,
    )  # fmt: skip
    # Lines beyond the queries are zeros, and 0 times an infinity of a key is NaN.
    operands = Operands(
        [
            *(head_pointer(k, memory, first_head, queries, size) for memory in (q, gradient)),
            *(head_pointer(k, memory, head, keys, size) for memory in (keys_, values)),
        ],
        NumbersOfRows(k, numbers, first_head, (heads * queries, queries)).of, factor,
    )  # fmt: skip
    plain_sums = PlainSums(k, element, size, lane_of(k))
    pairs = gradient_sums[0], gradient_sums[1]
    results = corrected_keys(k, plain_sums, pairs, (row, keys), shared_by, sequence, operands)
    for memory, sums, multiplier in zip(
        (dk, dv), results, (scale, k.constant(1.0, f32)), strict=True
    ):
        target = head_pointer(k, memory, head, keys, size)
        store_rows(k, element, target, (row, keys), sums, [multiplier] * 2)


def _kernel(body: Any, element: Type, results: str) -> KernelDefinition:
    parameters: dict[str, ParameterType] = dict.fromkeys(
        ("queries", "keys", "heads", "shared_by"), u32
    )
    parameters |= {"factor": f32, "scale": f32, "maps": pointer(u64)}
    parameters |= dict.fromkeys(("gradient", "q", "keys_", "values"), pointer(element))
    parameters["numbers"] = pointer(f32)
    parameters |= dict.fromkeys(results.split(), pointer(element))
    location = Location(body.__code__.co_filename, body.__code__.co_firstlineno)
    return KernelDefinition(f"{body.__name__[1:]}_{element}", body, parameters, location)


ATTENTION_BACKWARD_QUERIES_TILES, ATTENTION_BACKWARD_KEYS_TILES = (
    {element: _kernel(body, element, results) for element in (f16, bf16)}
    for body, results in (
        (_attention_backward_queries_tiles, "dq"), (_attention_backward_keys_tiles, "dk dv"),
    )
)  # fmt: skip
"""The kernels by element type."""

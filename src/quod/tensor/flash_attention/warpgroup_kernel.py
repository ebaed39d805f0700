"""The kernel of attention by warpgroups, for f16 and bf16.

Keys are contiguous (not in pages), and one workgroup reads all keys of its queries.
"""

from __future__ import annotations

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
from quod.tensor.flash_attention.kernel import (
    AttentionForm,
    Sequence,
    corrected_sums,
    head_pointer,
    inverse_of,
    log_sum,
)
from quod.tensor.flash_attention.plan import WarpgroupPlan
from quod.tensor.flash_attention.recompute import PlainSums
from quod.tensor.flash_attention.warpgroups import HeadOf, SoftmaxState, WarpgroupAttention
from quod.tensor.matmul.mma_fragments import lane_of


def _attention(
    k: Builder, queries: Value, keys: Value, heads: Value, shared_by: Value, group: Value,
    factor: Value, maps: Value, q: Value, keys_: Value, values: Value, out: Value, *log_sums: Value,
    element: Type, plan: WarpgroupPlan, form: AttentionForm,
) -> None:  # fmt: skip
    """out = softmax(scale * q k^T) v by warpgroups; `flash_attention.kernel` has the algorithm.

    queries, keys: The number of queries and of keys of a sequence.
    heads: The number of query heads, over all sequences.
    shared_by: The number of query heads per key head.
    group: The number of query heads whose workgroups run together, so that their keys stay in the
        cache.
    factor: scale * log2(e).
    maps: The tensor maps of queries, keys and values.
    """
    rows, _ = plan.tile
    tiles = (queries + (rows - 1)) // rows
    # Among a group's heads, tiles with the most keys run first.
    group_index, index_in_group = (
        k.workgroup_id() // (group * tiles),
        k.workgroup_id() % (group * tiles),
    )
    heads_in_group = k.minimum(heads - group_index * group, group)
    head, tile = (
        group_index * group + index_in_group % heads_in_group,
        index_in_group // heads_in_group,
    )
    first_query = (tiles - 1 - tile) * rows
    sequence = Sequence(k, form, (queries, keys), None, head)
    size, key_heads = k.constant(plan.size, u32), heads // shared_by
    tensors = [
        HeadOf(
            TiledArray(memory, k.pointer_add(maps, MAP_BYTES // 8 * map_index), size, lines, count),
            head_index,
        )
        for map_index, (memory, lines, count, head_index) in enumerate((
            (q, queries, heads, head), (keys_, keys, key_heads, head // shared_by),
            (values, keys, key_heads, head // shared_by),
        ))
    ]  # fmt: skip
    stop = sequence.seen(k.minimum(first_query + (rows - 1), queries - 1))
    work = WarpgroupAttention(
        k, element, plan, (tensors[0], tensors[1], tensors[2]), first_query, sequence.seen, stop,
        factor,
    )  # fmt: skip

    def finish(state: SoftmaxState) -> None:
        if form.causal:
            # A masked key has weight 0, but 0 times an infinite or NaN value is NaN: such sums are
            # computed again without the masked keys.
            head_pointers = [
                head_pointer(k, memory, head_index, lines, size)
                for memory, head_index, lines in (
                    (q, head, queries), (keys_, head // shared_by, keys),
                    (values, head // shared_by, keys),
                )
            ]  # fmt: skip
            value_sums = corrected_sums(
                k, PlainSums(k, element, size, lane_of(k)), state.value_sums, work.row,
                (state.maxima, state.denominators), factor, sequence,
                (head_pointers[0], head_pointers[1], head_pointers[2]),
            )  # fmt: skip
            state = SoftmaxState(state.maxima, state.denominators, value_sums)
        inverses = [inverse_of(k, denominator) for denominator in state.denominators]
        work.store(head_pointer(k, out, head, queries, size), queries, state, inverses)
        if form.sums:
            target = head_pointer(k, log_sums[0], head, queries, k.constant(1, u32))
            for row_half, (maximum, denominator) in enumerate(
                zip(state.maxima, state.denominators, strict=True)
            ):
                row, log = work.row + 8 * row_half, log_sum(k, maximum, denominator)
                with k.if_((row < queries) & ((lane_of(k) & 3) == 0)):
                    target[row] = log

    work.attend(finish)


def _kernel(element: Type, *, sums: bool) -> KernelDefinition:
    counts = ("queries", "keys", "heads", "shared_by", "group")
    parameters: dict[str, ParameterType] = dict.fromkeys(counts, u32)
    parameters |= {"factor": f32, "maps": pointer(u64)}
    parameters |= dict.fromkeys(("q", "keys_", "values", "out"), pointer(element))
    if sums:
        parameters["log_sums"] = pointer(f32)
    location = Location(_attention.__code__.co_filename, _attention.__code__.co_firstlineno)
    return KernelDefinition(f"attention_tiles_{element}", _attention, parameters, location)


WARPGROUP_ATTENTION = {
    (element, sums): _kernel(element, sums=sums)
    for element in (f16, bf16)
    for sums in (False, True)
}
"""The kernels by element type, and by whether log-sum-exps are stored."""

"""The kernel of attention: one function for every type, plan and device."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from collections.abc import Sequence as SequenceOf
from functools import reduce

from quod.frozen import frozen
from quod.kernel import (
    Builder,
    KernelDefinition,
    Location,
    Value,
    bf16,
    f32,
    pointer,
    u32,
    u64,
)
from quod.kernel.ir.types import Type
from quod.kernel.ir.value import ParameterType
from quod.kernel.machine import Capability
from quod.kernel.registry import register
from quod.tensor.elementwise.kernel import TYPES
from quod.tensor.flash_attention.plan import CoreTilePlan, TilePlan
from quod.tensor.flash_attention.recompute import PlainSums, RowPairs, flat, in_blocks
from quod.tensor.flash_attention.tensor_cores import Attention, HeadMatrix, store
from quod.tensor.flash_attention.tiles import Lines, Mask, Tile
from quod.tensor.rows.exponentials import LEAST

LN_2 = math.log(2)


@frozen
class AttentionForm:
    """The masks and outputs of an attention kernel.

    causal: A query sees no later keys.
    lengths: A kernel argument gives the number of keys of each sequence.
    sums: The kernel stores log(sum(exp(logits))) of each query.
    """

    causal: bool = False
    lengths: bool = False
    sums: bool = False


class Sequence:
    """One head of one sequence, and the number of keys that each query sees."""

    def __init__(
        self, k: Builder, form: AttentionForm, sizes: tuple[Value, Value],
        lengths: Value | None, batch: Value,
    ) -> None:  # fmt: skip
        self._k, self._form = k, form
        self.queries, self.keys = sizes
        if lengths is not None:
            self.keys = k.minimum(k.uniform(lengths[batch]), self.keys)

    @property
    def causal(self) -> bool:
        """True if queries of the sequence see different keys."""
        return self._form.causal

    def seen(self, query: Value) -> Value:
        """Return the number of keys that a query sees: all for the last query, none beyond it."""
        if not self._form.causal:
            # A separate number for each query also saves registers for shared values.
            return self._k.select(query < self.queries, self.keys, 0)
        query_end = query + 1 + self.keys
        query_count = self.queries
        return self._k.select(
            query_end > query_count, self._k.minimum(query_end - query_count, self.keys), 0
        )

    def mask(
        self, tile: Tile, key: Value, first_query: Value, seen: list[Value]
    ) -> Mask | None:  # fmt: skip
        """Return the mask of the keys from `key` on, or None if all queries see the same keys.

        first_query: The workgroup's first query, which sees the fewest keys.
        seen: For each row, the number of keys that its query sees.
        """
        if not self._form.causal:
            return None
        return Mask(
            key + tile.columns > self.seen(first_query), lambda row, line: key + line < seen[row]
        )

    def first_that_sees(self, key: Value) -> Value:
        """Return the first query that sees a key, or the number of queries if none does."""
        k = self._k
        key_end, exists = key + self.queries, key < self.keys
        if not self._form.causal:
            return k.select(exists, k.constant(0, u32), self.queries)
        first_query = k.select(key_end > self.keys, key_end - self.keys, 0)
        return k.select(exists, first_query, self.queries)


def head_pointer(k: Builder, tensor: Value, head: Value, lines: Value, size: Value) -> Value:
    """Return the pointer to head `head` of a tensor, whose heads are `lines` x `size` matrices."""
    word = u64 if k.machine.has(Capability.U64) else u32
    return k.pointer_add(tensor, head.cast(word) * (lines.cast(word) * size.cast(word)))


@frozen(eq=False)
class _Work:
    """The task of a workgroup: one tile of queries of a head.

    first: The first query of the tile.
    size: The number of elements of a head.
    factor: scale * log2(e).
    q, keys, values: Pointers to the heads of queries, keys and values.
    out, log_sums: Functions that return the pointers to the results.
    """

    sequence: Sequence
    first: Value
    size: Value
    factor: Value
    q: Value
    keys: Value
    values: Value
    out: Callable[[], Value]
    log_sums: Callable[[], Value] | None


def _attention(
    k: Builder, queries: Value, keys: Value, size: Value, heads: Value, shared_by: Value,
    factor: Value, q: Value, keys_: Value, values: Value, *memory: Value, element: Type,
    plan: TilePlan | CoreTilePlan, form: AttentionForm,
) -> None:  # fmt: skip
    """out = softmax(scale * q k^T) v, where `shared_by` heads of queries share keys and values.

    A workgroup processes one tile of queries of one head. `factor` is scale * log2(e). The softmax
    is computed online (Milakov and Gimelshein, 2018; FlashAttention-2, Dao, 2023): a weight is
    2 ** (logit * factor - m), where m is the running maximum, and sums are rescaled when m grows.
    """
    pointers = list(memory)
    lengths = pointers.pop(0) if form.lengths else None
    rows, _ = plan.tile
    tiles = (queries + (rows - 1)) // rows
    head, tile = k.workgroup_id() // tiles, k.workgroup_id() % tiles
    # Tiles with the most keys run first.
    first_query = (tiles - 1 - tile) * rows
    if isinstance(plan, CoreTilePlan) and plan.exact:
        size = k.constant(plan.size, u32)
    unit_width = k.constant(1, u32)
    sequence = Sequence(k, form, (queries, keys), lengths, head // heads)
    work = _Work(
        sequence, first_query, size, factor, head_pointer(k, q, head, queries, size),
        head_pointer(k, keys_, head // shared_by, keys, size),
        head_pointer(k, values, head // shared_by, keys, size),
        # Computing pointers where they are used saves registers.
        lambda: head_pointer(k, pointers[0], head, queries, size),
        (lambda: head_pointer(k, pointers[1], head, queries, unit_width)) if form.sums else None,
    )  # fmt: skip
    if isinstance(plan, CoreTilePlan):
        _on_cores(k, element, plan, work)
    else:
        _in_tiles(k, element, plan, work)


def _in_tiles(k: Builder, element: Type, plan: TilePlan, work: _Work) -> None:
    """Compute a tile without tensor cores; see `_attention` for the algorithm."""
    sequence, first_query = work.sequence, work.first
    query_lines = Lines(work.q, sequence.queries)
    key_lines, value_lines = (Lines(operand, sequence.keys) for operand in (work.keys, work.values))
    tile = Tile(k, element, plan, work.size)
    query_buffer, value_sums = tile.transposed_buffer(), tile.sums()
    value_sums.clear()
    transposed_queries = tile.transposed_rows(query_lines, first_query, query_buffer)
    last_query = sequence.queries - 1
    seen = [
        sequence.seen(k.minimum(first_query + tile.row(row_index), last_query))
        for row_index in range(plan.rows)
    ]
    stop = sequence.seen(k.minimum(first_query + (tile.rows - 1), last_query))
    least, zero = k.constant(LEAST, f32), k.constant(0.0, f32)
    initial = [least] * plan.rows, [zero] * plan.rows, value_sums
    with k.range(k.constant(0, u32), stop, tile.columns, carry=initial) as loop:
        old_maxima, denominators, value_sums = loop.carried
        products = tile.products(transposed_queries, key_lines, loop.index)
        visible = tile.visible(loop.index, seen)
        logits = [
            [k.select(inside, x * work.factor, least) for inside, x in zip(*row, strict=True)]
            for row in zip(visible, products, strict=True)
        ]
        maxima = tile.combined(
            [
                reduce(k.maximum, row, maximum)
                for maximum, row in zip(old_maxima, logits, strict=True)
            ],
            k.maximum,
        )
        scales = [k.exp2(old - new) for old, new in zip(old_maxima, maxima, strict=True)]
        weights = [
            [k.select(inside, k.exp2(x - maximum), 0.0) for inside, x in zip(*row, strict=True)]
            for *row, maximum in zip(visible, logits, maxima, strict=True)
        ]
        denominators = [
            reduce(operator.add, row, denominator * scale)
            for row, denominator, scale in zip(weights, denominators, scales, strict=True)
        ]
        tile.weigh(weights)
        mask = sequence.mask(tile, loop.index, first_query, seen)
        loop.next(
            (maxima, denominators, tile.add(value_sums, value_lines, loop.index, scales, mask=mask))
        )
    maxima, denominators, value_sums = loop.results
    k.barrier()
    denominators = tile.combined(denominators, operator.add)
    tile.store(
        Lines(work.out(), sequence.queries), first_query, value_sums,
        [inverse_of(k, denominator) for denominator in denominators],
    )  # fmt: skip
    if work.log_sums is not None:
        logs = [log_sum(k, *row) for row in zip(maxima, denominators, strict=True)]
        tile.store_numbers(work.log_sums(), first_query, sequence.queries, logs)


def inverse_of(k: Builder, denominator: Value) -> Value:
    """Return the normalisation factor of a row: 1 / denominator, or 0 if no key was seen."""
    return k.select(denominator > 0.0, k.rcp(denominator), 0.0)


def log_sum(k: Builder, maximum: Value, denominator: Value) -> Value:
    """Return ln(denominator * 2**maximum): LEAST for a denominator of 0, NaN for NaN."""
    return k.select(denominator == 0.0, LEAST, (maximum + k.log2(denominator)) * LN_2)


def _on_cores(k: Builder, element: Type, plan: CoreTilePlan, work: _Work) -> None:
    """Compute a tile on tensor cores, and recompute sums that masked keys made NaN."""
    sequence, first_query = work.sequence, work.first
    stop = sequence.seen(k.minimum(first_query + (plan.tile[0] - 1), sequence.queries - 1))
    state = Attention(
        k, element, plan, HeadMatrix(work.q, work.size, sequence.queries),
        HeadMatrix(work.keys, work.size, stop), HeadMatrix(work.values, work.size, stop),
        first_query, sequence.seen, work.factor,
    ).run()  # fmt: skip
    target = HeadMatrix(work.out(), work.size, sequence.queries)
    logs = None if work.log_sums is None else work.log_sums()
    for block_index, blocks in enumerate(state.value_sums):
        denominators = state.denominators[block_index]
        row = first_query + k.subgroup_id() * plan.rows + (block_index * 16 + (k.lane_id() >> 2))
        if sequence.causal:
            value_sums = corrected_sums(
                k, PlainSums(k, element, work.size, k.lane_id()), flat(blocks), row,
                (state.maxima[block_index], denominators), work.factor, sequence,
                (work.q, work.keys, work.values),
            )  # fmt: skip
            blocks = in_blocks(value_sums)
        inverses = [inverse_of(k, denominator) for denominator in denominators]
        store(k, element, plan, target, row, blocks, inverses)
        if logs is None:
            continue
        for half, denominator in enumerate(denominators):
            log = log_sum(k, state.maxima[block_index][half], denominator)
            query_row = row + 8 * half
            with k.if_((query_row < sequence.queries) & ((k.lane_id() & 3) == 0)):
                logs[query_row] = log


def corrected_sums(
    k: Builder, direct: PlainSums, sums: SequenceOf[Value], row: Value,
    softmax: tuple[SequenceOf[Value], SequenceOf[Value]], factor: Value, sequence: Sequence,
    heads: tuple[Value, Value, Value],
) -> list[Value]:  # fmt: skip
    """Return the sums of values of queries `row` and `row + 8`, with NaN sums recomputed.

    The recomputation skips the keys that a query does not see; see `recompute`.

    softmax: For both queries, the maxima of the logits, times the factor, and the denominators. If
        a denominator is NaN, the sums stay NaN.
    heads: The heads of queries, keys and values.
    """
    q, keys, values = heads

    def pairs(half: int) -> RowPairs:
        query, maximum, denominator = row + 8 * half, softmax[0][half], softmax[1][half]

        def pair(key: Value) -> tuple[Value, Value]:
            logit = direct.product(direct.line(q, query), direct.line(keys, key))
            return k.exp2(k.fma(logit, factor, -maximum)), direct.line(values, key)

        needs_check = (query < sequence.queries) & (denominator == denominator)
        return RowPairs(needs_check, sequence.seen(query), pair)

    return direct.corrected(sums, [pairs(half) for half in range(2)])


def _kernel(element: Type, *, lengths: bool, sums: bool) -> KernelDefinition:
    counts = ("queries", "keys", "size", "heads", "shared_by")
    parameters: dict[str, ParameterType] = dict.fromkeys(counts, u32)
    parameters["factor"] = f32
    parameters |= dict.fromkeys(("q", "keys_", "values"), pointer(element))
    if lengths:
        parameters["lengths"] = pointer(u32)
    parameters["out"] = pointer(element)
    if sums:
        parameters["log_sums"] = pointer(f32)
    location = Location(_attention.__code__.co_filename, _attention.__code__.co_firstlineno)
    return KernelDefinition(f"attention_{element}", _attention, parameters, location)


ATTENTION = {
    (element, lengths, sums): _kernel(element, lengths=lengths, sums=sums)
    for element in TYPES
    for lengths in (False, True)
    for sums in (False, True)
}
"""The kernels by element type, by whether there are lengths, and by whether sums are stored."""

for _element, _form in (
    (f32, AttentionForm(causal=True, lengths=True, sums=True)), (bf16, AttentionForm()),
):  # fmt: skip
    register(
        f"tensor.attention_{_element}", ATTENTION[_element, _form.lengths, _form.sums],
        element=_element, plan=TilePlan(64, 8, 2, 2, 64, 32, 32, 4, held=True), form=_form,
    )  # fmt: skip

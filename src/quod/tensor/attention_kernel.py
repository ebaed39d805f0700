"""The kernel of attention: one function for every type, plan and device."""

from __future__ import annotations

import math

from quod.frozen import frozen
from quod.kernel import Builder, KernelDefinition, Location, Value, bf16, f16, f32, pointer, u32, u64
from quod.kernel.machine import Capability
from quod.kernel.registry import register
from quod.kernel.types import Type
from quod.kernel.value import ParameterType
from quod.tensor.attention_cores import Copied, Found, attend
from quod.tensor.attention_plan import CoreTilePlan, TilePlan
from quod.tensor.attention_tiles import Lines, Sums, Tile
from quod.tensor.flat import TYPES
from quod.tensor.powers import LEAST

LN_2 = math.log(2)


@frozen
class AttentionForm:
    """What queries see: with `causal` no key after them, with `lengths` so many keys of each
    sequence; and whether `sums` of each row are stored."""

    causal: bool = False
    lengths: bool = False
    sums: bool = False


class Sequence:
    """One head of one sequence, and the keys that each of its queries sees."""

    def __init__(
        self, k: Builder, form: AttentionForm, sizes: tuple[Value, Value],
        lengths: Value | None, batch: Value,
    ) -> None:  # fmt: skip
        self._k, self._form = k, form
        self.queries, self.keys = sizes
        if lengths is not None:
            self.keys = k.minimum(k.uniform(lengths[batch]), self.keys)

    def seen(self, query: Value) -> Value:
        """How many keys a query sees: the last one all, one that there is not none."""
        if not self._form.causal:
            # Numbers of their own for each query also spare registers for what all would share.
            return self._k.select(query < self.queries, self.keys, 0)
        after = query + 1 + self.keys
        before = self.queries
        return self._k.select(after > before, self._k.minimum(after - before, self.keys), 0)


def part_of(k: Builder, tensor: Value, head: Value, lines: Value, size: Value) -> Value:
    """Where a head of a tensor begins."""
    word = u64 if k.machine.has(Capability.U64) else u32
    return k.pointer_add(tensor, head.cast(word) * (lines.cast(word) * size.cast(word)))


def _attention(
    k: Builder, queries: Value, keys: Value, head: Value, heads: Value, shared_by: Value,
    factor: Value, q: Value, keys_: Value, values: Value, *memory: Value, element: Type,
    plan: TilePlan | CoreTilePlan, form: AttentionForm,
) -> None:  # fmt: skip
    """out = softmax(scale * q k^T) v, of heads of which `shared_by` have the same keys and values.

    A workgroup has some queries of one head. Powers are of what was the greatest so far, and sums
    are scaled when a greater one comes (Milakov and Gimelshein, 2018; FlashAttention-2, Dao, 2023):
    2 ** (x - greatest), where `factor` is scale * log2(e).
    """
    rest = list(memory)
    lengths = rest.pop(0) if form.lengths else None
    rows, _ = plan.tile
    tiles = (queries + (rows - 1)) // rows
    number, tile_number = k.workgroup_id() // tiles, k.workgroup_id() % tiles
    # The tiles that see most keys come first.
    first = (tiles - 1 - tile_number) * rows
    sequence = Sequence(k, form, (queries, keys), lengths, number // heads)
    own_q = part_of(k, q, number, queries, head)
    own_k, own_v = (part_of(k, one, number // shared_by, keys, head) for one in (keys_, values))
    stop = sequence.seen(k.minimum(first + (rows - 1), queries - 1))
    if isinstance(plan, CoreTilePlan):
        head = k.constant(plan.size, u32) if plan.exact else head
        found = attend(
            k, element, plan, Copied(own_q, head, queries), Copied(own_k, head, stop),
            Copied(own_v, head, stop), first, sequence.seen, factor,
        )  # fmt: skip
        target = part_of(k, rest[0], number, queries, head)
        logs = part_of(k, rest[1], number, queries, k.constant(1, u32)) if form.sums else None
        _store(k, element, plan, found, (first, queries), target, head, logs)
        return
    of_q = Lines(own_q, queries)
    of_k, of_v = Lines(own_k, sequence.keys), Lines(own_v, sequence.keys)
    tile = Tile(k, element, plan, head)
    room, sums = tile.turned_room(), tile.sums()
    sums.clear()
    own = tile.turned(of_q, first, room)
    places = [k.minimum(first + tile.row(each), queries - 1) for each in range(plan.rows)]
    seen = [sequence.seen(place) for place in places]
    least, zero = k.constant(LEAST, f32), k.constant(0.0, f32)
    initial = [least] * plan.rows, [zero] * plan.rows, sums
    with k.range(k.constant(0, u32), stop, tile.columns, carry=initial) as loop:
        before, totals, sums = loop.carried
        products = tile.products(own, of_k, loop.index)
        at = [loop.index + tile.column(each) for each in range(plan.columns)]
        there = [[place < count for place in at] for count in seen]
        logits = [
            [k.select(inside, x * factor, least) for inside, x in zip(*each, strict=True)]
            for each in zip(there, products, strict=True)
        ]
        tops = []
        for top, row in zip(before, logits, strict=True):
            for value in row:
                top = k.maximum(top, value)
            tops.append(top)
        tops = tile.combined(tops, k.maximum)
        scales = [k.exp2(old - new) for old, new in zip(before, tops, strict=True)]
        weights = [
            [k.select(inside, k.exp2(x - top), 0.0) for inside, x in zip(*each, strict=True)]
            for *each, top in zip(there, logits, tops, strict=True)
        ]
        for number_, row in enumerate(weights):
            total = totals[number_] * scales[number_]
            for value in row:
                total = total + value
            totals[number_] = total
        tile.weigh(weights)
        loop.next((tops, totals, tile.add(sums, of_v, loop.index, scales)))
    tops, totals, sums = loop.results
    k.barrier()
    totals = tile.combined(totals, lambda a, b: a + b)
    some = [total > 0.0 for total in totals]
    inverses = [
        k.select(any_, k.rcp(total), 0.0) for any_, total in zip(some, totals, strict=True)
    ]
    tile.store(
        Lines(part_of(k, rest[0], number, queries, head), queries), first, sums, inverses
    )
    if form.sums:
        logs = [
            k.select(any_, (top + k.log2(total)) * LN_2, least)
            for any_, top, total in zip(some, tops, totals, strict=True)
        ]
        tile.store_numbers(part_of(k, rest[1], number, queries, k.constant(1, u32)), first, queries, logs)


def _store(
    k: Builder, element: Type, plan: CoreTilePlan, found: Found, rows: tuple[Value, Value],
    target: Value, head: Value, logs: Value | None,
) -> None:  # fmt: skip
    """Stores what a subgroup found, two elements beside each other in a word."""
    first, queries = rows
    pack, lane = k.pack_f16 if element is f16 else k.pack_bf16, k.lane_id()
    width = head >> 1
    for number, sums in enumerate(found.sums):
        for half in range(2):
            row = first + k.subgroup_id() * plan.rows + (number * 16 + half * 8 + (lane >> 2))
            total = found.totals[number][half]
            inverse = k.select(total > 0.0, k.rcp(total), 0.0)
            line = k.pointer_add(target.cast(u32), row.cast(u64) * width.cast(u64))
            with k.if_(row < queries):
                for place, block in enumerate(sums):
                    at = (lane & 3) + place * 4
                    word = pack(*[value * inverse for value in block[2 * half :][:2]])
                    if plan.exact:
                        line[at] = word
                        continue
                    with k.if_(at < width):
                        line[at] = word
            if logs is not None:
                log = (found.tops[number][half] + k.log2(total)) * LN_2
                with k.if_((row < queries) & ((lane & 3) == 0)):
                    logs[row] = k.select(total > 0.0, log, LEAST)


def _kernel(element: Type, *, lengths: bool, sums: bool) -> KernelDefinition:
    counts = ("queries", "keys", "head", "heads", "shared_by")
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
"""The kernel by the type of its elements, and by whether lengths are given and sums stored."""

for _element, _form in (
    (f32, AttentionForm(causal=True, lengths=True, sums=True)), (bf16, AttentionForm()),
):  # fmt: skip
    register(
        f"tensor.attention_{_element}", ATTENTION[_element, _form.lengths, _form.sums],
        element=_element, plan=TilePlan(64, 8, 4, 2, 64, 32, 32, 4, held=True), form=_form,
    )  # fmt: skip

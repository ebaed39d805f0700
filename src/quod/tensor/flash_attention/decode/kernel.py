"""The kernel of attention of few queries: each workgroup processes a part of the keys of a head.

Flash-decoding (Dao, Haziza, Massa and Sizov, Flash-Decoding for long-context inference, 2023); the
kernel of `flash_attention.partial_results` combines the results of the parts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from quod.kernel import Builder, KernelDefinition, Location, Value, bf16, f32, pointer, u32
from quod.kernel.ir.types import Type
from quod.kernel.ir.value import ParameterType
from quod.kernel.machine import Capability
from quod.kernel.registry import register
from quod.tensor.elementwise.kernel import TYPES
from quod.tensor.flash_attention.decode.lines import DecodeForm, RowTile, Sizes
from quod.tensor.flash_attention.decode.plan import DecodePlan
from quod.tensor.flash_attention.decode.steps import (
    InstanceLayout,
    KeyRange,
    SoftmaxState,
    Steps,
    StepsOfSubgroups,
    StepsOfVectors,
)
from quod.tensor.flash_attention.decode.tensor_cores import StepsOfCores
from quod.tensor.flash_attention.kernel import AttentionForm, inverse_of, log_sum
from quod.tensor.flash_attention.kernel import Sequence as AttentionSequence
from quod.tensor.flash_attention.partial_results import Parts

_LEAST_STEPS = 2
"""The fewest steps of a part; the last parts of short sequences have no keys."""


def _attention_decode(
    k: Builder, queries: Value, keys: Value, heads: Value, size: Value, rows: Value, parts: Value,
    pages: Value, all_rows: Value, factor: Value, q: Value, keys_: Value, values: Value,
    *memory: Value, element: Type, plan: DecodePlan, form: DecodeForm,
) -> None:  # fmt: skip
    """out = softmax(scale * q k^T) v of `rows` queries that share a head of keys.

    If keys are split, each part stores its sums of values, greatest products and totals of weights.
    """
    pointers = list(memory)
    lengths = pointers.pop(0) if form.lengths else None
    table = pointers.pop(0) if form.page_size else None
    tiles = (rows + (plan.rows - 1)) // plan.rows
    # Adjacent workgroups have the same keys.
    first, number = k.workgroup_id() % tiles * plan.rows, k.workgroup_id() // tiles
    part = k.constant(0, u32)
    if form.split:
        number, part = number // parts, number % parts
    sizes = Sizes(keys, heads, size, rows, parts, pages)
    seen = AttentionSequence(
        k, AttentionForm(form.causal), (queries, keys), lengths, number // heads
    )
    share = RowTile(k, element, plan, form, sizes, number, first, table)
    kind: type[Steps] = StepsOfSubgroups
    if plan.cores or k.machine.has(Capability.VECTOR_LANES):
        kind = StepsOfCores if plan.cores else StepsOfVectors
    steps = kind(k, plan, share, (q, keys_, values), factor)
    state = steps.run(_span(k, steps, form, sizes, seen, share, part))
    together = _SubgroupCombiner(k, plan, share, state, steps.held)
    if form.split:
        of_parts = Parts(k, pointers[0], all_rows, parts, size)

        def of_row(row: Value) -> Value:
            return of_parts.place(part, share.of_rows(row))

        together.store(
            lambda row, at, _, sums: of_parts.store(of_row(row), at, sums),
            lambda row, top, total: of_parts.store_numbers(of_row(row), top, total),
        )
        return

    def put(row: Value, at: Value, total: Value, sums: Sequence[Value]) -> None:
        inverse = inverse_of(k, total)
        line = share.line(pointers[0], row)
        share.accesses.store(line, at, [value * inverse for value in sums])

    def put_log(row: Value, top: Value, total: Value) -> None:
        pointers[1][share.of_rows(row)] = log_sum(k, top, total)

    together.store(put, put_log if form.sums else None)


def _span(
    k: Builder,
    of: Steps,
    form: DecodeForm,
    sizes: Sizes,
    seen: AttentionSequence,
    share: RowTile,
    part: Value,
) -> KeyRange:
    """Return the keys of a part: a whole number of steps, except in the last part."""
    begin, end, step = k.constant(0, u32), seen.keys, of.step
    if form.split:
        steps = (seen.keys + (step - 1)) // step
        each = (steps + (sizes.parts - 1)) // sizes.parts
        each = k.maximum(each, _LEAST_STEPS) * step
        begin = k.minimum(part * each, seen.keys)
        end = k.minimum(begin + each, seen.keys)
    if not form.causal:
        return KeyRange(begin, end, end, None)
    of_rows = [seen.seen(share.row(row) % seen.queries) for row in of.held.rows]
    return KeyRange(begin, end, k.minimum(seen.seen(k.constant(0, u32)), end), of_rows)


class _SubgroupCombiner:
    """The results of all instances of a workgroup, one for each subgroup in shared memory.

    The instances of a subgroup are combined first, by shuffles in a fixed order.
    """

    def __init__(
        self,
        k: Builder,
        plan: DecodePlan,
        share: RowTile,
        state: SoftmaxState,
        held: InstanceLayout,
    ) -> None:
        self._k, self._plan, self._share = k, plan, share
        self._count = k.workgroup_size // min(k.subgroup_size, k.workgroup_size)
        self._sums = k.shared(f32, self._count * plan.rows * plan.padded)
        self._numbers = k.shared(f32, 2 * self._count * plan.rows)
        for distance in held.distances:
            state = self._combined(state, distance)
        first = k.subgroup_id() * plan.rows
        for row, top, total, sums in zip(held.rows, *state, strict=True):
            with k.if_(held.stores):
                for number, place in enumerate(held.places):
                    partial_sums = sums[number * plan.vector :][: plan.vector]
                    k.store(self._sums, self._place(first + row, place), *partial_sums)
            with k.if_(held.stores_numbers):
                self._numbers[(first + row) * 2] = top
                self._numbers[(first + row) * 2 + 1] = total
        k.barrier()

    def _combined(self, state: SoftmaxState, distance: int) -> SoftmaxState:
        k = self._k

        def other(value: Value) -> Value:
            return k.shuffle(value, k.lane_id() ^ distance)

        tops, totals, sums = [], [], []
        for top, total, row_sums in zip(*state, strict=True):
            tops.append(k.maximum(top, other(top)))
            scale = k.exp2(top - tops[-1], normal=True)
            scaled = [value * scale for value in (total, *row_sums)]
            total, *row_sums = [value + other(value) for value in scaled]
            totals.append(total)
            sums.append(row_sums)
        return tops, totals, sums

    def _place(self, row: Value, place: Value) -> Value:
        """Return the offset of an access of a row in shared memory."""
        return row * self._plan.padded + place * self._plan.vector

    def store(
        self, put: Callable[[Value, Value, Value, Sequence[Value]], None],
        put_numbers: Callable[[Value, Value, Value], None] | None,
    ) -> None:  # fmt: skip
        """Combine the subgroups and store the rows that this instance is responsible for.

        put: Called for each access of a row with the row, the access, the row's total and its sums.
        put_numbers: Called for each row with the row, the greatest product and the total; None to
            skip.
        """
        k, plan, share = self._k, self._plan, self._share
        for begin in range(0, plan.rows, share.groups):
            local_row = k.minimum(share.group + begin, plan.rows - 1)
            row = share.first + local_row
            inside = (share.group + begin < plan.rows) & (row < share.rows)
            rooms = [local_row + at * plan.rows for at in range(self._count)]
            tops = [self._numbers[room * 2] for room in rooms]
            top = tops[0]
            for each in tops[1:]:
                top = k.maximum(top, each)
            scales = [k.exp2(each - top, normal=True) for each in tops]
            total = self._added([[self._numbers[room * 2 + 1]] for room in rooms], scales)[0]
            for number in range(plan.accesses):
                place, there = share.place(number)
                sums = self._added(
                    [k.load(self._sums, self._place(room, place), plan.vector) for room in rooms],
                    scales,
                )
                with k.if_(inside if there is None else inside & there):
                    put(row, place, total, sums)
            if put_numbers is not None:
                with k.if_(inside & (share.own == 0)):
                    put_numbers(row, top, total)

    def _added(self, parts: Sequence[Sequence[Value]], scales: Sequence[Value]) -> list[Value]:
        totals = [value * scales[0] for value in parts[0]]
        for part, scale in zip(parts[1:], scales[1:], strict=True):
            totals = [self._k.fma(a, scale, b) for a, b in zip(part, totals, strict=True)]
        return totals


def _kernel(
    element: Type, *, lengths: bool, paged: bool, split: bool, sums: bool
) -> KernelDefinition:
    counts = ("queries", "keys", "heads", "size", "rows", "parts", "pages", "all_rows")
    words = [name for name, is_present in (("lengths", lengths), ("table", paged)) if is_present]
    parameters: dict[str, ParameterType] = {
        **dict.fromkeys(counts, u32), "factor": f32,
        **dict.fromkeys(("q", "keys_", "values"), pointer(element)),
        **dict.fromkeys(words, pointer(u32)), "out": pointer(f32 if split else element),
        **dict.fromkeys(["log_sums"] * sums, pointer(f32)),
    }  # fmt: skip
    body = _attention_decode
    location = Location(body.__code__.co_filename, body.__code__.co_firstlineno)
    return KernelDefinition(f"attention_decode_{element}", body, parameters, location)


def decode_kernel(element: Type, form: DecodeForm) -> KernelDefinition:
    """Return the kernel for an element type and a form."""
    return _KERNELS[element, form.lengths, form.page_size > 0, form.split, form.sums]


_KERNELS = {
    (element, lengths, paged, split, sums): _kernel(
        element, lengths=lengths, paged=paged, split=split, sums=sums
    )
    for element in TYPES
    for lengths, paged in ((False, False), (True, False), (True, True))
    for split, sums in ((True, False), (False, False), (False, True))
}

for _element, _vector, _form in (
    (f32, 4, DecodeForm(causal=True, lengths=True, sums=True)),
    (bf16, 8, DecodeForm(lengths=True, split=True, page_size=16)),
):
    register(
        f"tensor.attention_decode_{_element}", decode_kernel(_element, _form), element=_element,
        plan=DecodePlan(8, 8, _vector, 1, 2, 2, full=True), form=_form,
    )  # fmt: skip

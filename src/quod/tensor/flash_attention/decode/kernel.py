"""The decode kernel, for few queries: each workgroup processes one part of the keys of a head.

This is flash-decoding (Dao, Haziza, Massa and Sizov, Flash-Decoding for long-context inference,
2023). The kernel of `flash_attention.partial_results` combines the results of the parts.
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

_MIN_STEPS = 2
"""The minimum number of steps of a part; the last parts of a short sequence have no keys."""


def _attention_decode(
    k: Builder, queries: Value, keys: Value, heads: Value, size: Value, rows: Value, parts: Value,
    pages: Value, all_rows: Value, factor: Value, q: Value, keys_: Value, values: Value,
    *memory: Value, element: Type, plan: DecodePlan, form: DecodeForm,
) -> None:  # fmt: skip
    """out = softmax(scale * q k^T) v, where `rows` rows of queries share each key head.

    factor: scale * log2(e).
    out: If keys are split into parts, the partial results, in the format of `partial_results`.
    """
    pointers = list(memory)
    lengths = pointers.pop(0) if form.lengths else None
    table = pointers.pop(0) if form.page_size else None
    tiles = (rows + (plan.rows - 1)) // plan.rows
    # Adjacent workgroups have the same keys.
    first_row, head_index = k.workgroup_id() % tiles * plan.rows, k.workgroup_id() // tiles
    part = k.constant(0, u32)
    if form.split:
        head_index, part = head_index // parts, head_index % parts
    sizes = Sizes(keys, heads, size, rows, parts, pages)
    seen = AttentionSequence(
        k, AttentionForm(form.causal), (queries, keys), lengths, head_index // heads
    )
    row_tile = RowTile(k, element, plan, form, sizes, head_index, first_row, table)
    steps_class: type[Steps] = StepsOfSubgroups
    if plan.cores or k.machine.has(Capability.VECTOR_LANES):
        steps_class = StepsOfCores if plan.cores else StepsOfVectors
    steps = steps_class(k, plan, row_tile, (q, keys_, values), factor)
    state = steps.run(_part_keys(k, steps, form, sizes, seen, row_tile, part))
    combiner = _SubgroupCombiner(k, plan, row_tile, state, steps.held)
    if form.split:
        part_results = Parts(k, pointers[0], all_rows, parts, size)

        def result_index(row: Value) -> Value:
            return part_results.row_index(part, row_tile.of_rows(row))

        combiner.store(
            lambda row, at, _, sums: part_results.store(result_index(row), at, sums),
            lambda row, maximum, denominator: part_results.store_numbers(
                result_index(row), maximum, denominator
            ),
        )
        return

    def store_row(row: Value, access: Value, denominator: Value, sums: Sequence[Value]) -> None:
        inverse = inverse_of(k, denominator)
        row_pointer = row_tile.line(pointers[0], row)
        row_tile.accesses.store(row_pointer, access, [value * inverse for value in sums])

    def store_log(row: Value, maximum: Value, denominator: Value) -> None:
        pointers[1][row_tile.of_rows(row)] = log_sum(k, maximum, denominator)

    combiner.store(store_row, store_log if form.sums else None)


def _part_keys(
    k: Builder,
    loop_steps: Steps,
    form: DecodeForm,
    sizes: Sizes,
    seen: AttentionSequence,
    row_tile: RowTile,
    part: Value,
) -> KeyRange:
    """Return the keys of a part, which are whole steps except in the last part."""
    start, end, step = k.constant(0, u32), seen.keys, loop_steps.step
    if form.split:
        steps = (seen.keys + (step - 1)) // step
        keys_per_part = (steps + (sizes.parts - 1)) // sizes.parts
        keys_per_part = k.maximum(keys_per_part, _MIN_STEPS) * step
        start = k.minimum(part * keys_per_part, seen.keys)
        end = k.minimum(start + keys_per_part, seen.keys)
    if not form.causal:
        return KeyRange(start, end, end, None)
    seen_by_row = [seen.seen(row_tile.row(row) % seen.queries) for row in loop_steps.held.rows]
    return KeyRange(start, end, k.minimum(seen.seen(k.constant(0, u32)), end), seen_by_row)


class _SubgroupCombiner:
    """Combines the results of a workgroup's instances.

    The constructor combines each subgroup by shuffles, in a fixed order, and stores the subgroups'
    results in shared memory. `store` combines the subgroups.
    """

    def __init__(
        self,
        k: Builder,
        plan: DecodePlan,
        row_tile: RowTile,
        state: SoftmaxState,
        layout: InstanceLayout,
    ) -> None:
        self._k, self._plan, self._row_tile = k, plan, row_tile
        self._count = k.workgroup_size // min(k.subgroup_size, k.workgroup_size)
        self._sums = k.shared(f32, self._count * plan.rows * plan.padded)
        self._numbers = k.shared(f32, 2 * self._count * plan.rows)
        for distance in layout.distances:
            state = self._combine_lanes(state, distance)
        first_row = k.subgroup_id() * plan.rows
        for row, maximum, denominator, value_sums in zip(layout.rows, *state, strict=True):
            with k.if_(layout.stores):
                for access, access_index in enumerate(layout.access_indices):
                    partial_sums = value_sums[access * plan.vector :][: plan.vector]
                    k.store(
                        self._sums,
                        self._buffer_offset(first_row + row, access_index),
                        *partial_sums,
                    )
            with k.if_(layout.stores_numbers):
                self._numbers[(first_row + row) * 2] = maximum
                self._numbers[(first_row + row) * 2 + 1] = denominator
        k.barrier()

    def _combine_lanes(self, state: SoftmaxState, distance: int) -> SoftmaxState:
        """Combine an instance's state with that of the instance at XOR distance `distance`."""
        k = self._k

        def shuffled(value: Value) -> Value:
            return k.shuffle(value, k.lane_id() ^ distance)

        maxima, denominators, value_sums = [], [], []
        for maximum, denominator, row_sums in zip(*state, strict=True):
            maxima.append(k.maximum(maximum, shuffled(maximum)))
            scale = k.exp2(maximum - maxima[-1], flush_subnormals=True)
            scaled_values = [value * scale for value in (denominator, *row_sums)]
            denominator, *row_sums = [value + shuffled(value) for value in scaled_values]
            denominators.append(denominator)
            value_sums.append(row_sums)
        return maxima, denominators, value_sums

    def _buffer_offset(self, row: Value, access: Value) -> Value:
        """Return the offset in shared memory of an access to a row."""
        return row * self._plan.padded + access * self._plan.vector

    def store(
        self, put: Callable[[Value, Value, Value, Sequence[Value]], None],
        put_numbers: Callable[[Value, Value, Value], None] | None,
    ) -> None:  # fmt: skip
        """Combine the subgroups, and call `put` and `put_numbers` for this instance's rows.

        put: Stores an access of a row, given the row, the access, the denominator and the sums.
        put_numbers: Stores a row's maximum and denominator, given the row; None to skip.
        """
        k, plan, row_tile = self._k, self._plan, self._row_tile
        for first_row in range(0, plan.rows, row_tile.groups):
            local_row = k.minimum(row_tile.group + first_row, plan.rows - 1)
            row = row_tile.first + local_row
            is_stored = (row_tile.group + first_row < plan.rows) & (row < row_tile.rows)
            row_offsets = [local_row + subgroup * plan.rows for subgroup in range(self._count)]
            maxima = [self._numbers[offset * 2] for offset in row_offsets]
            maximum = maxima[0]
            for other_maximum in maxima[1:]:
                maximum = k.maximum(maximum, other_maximum)
            scales = [
                k.exp2(old_maximum - maximum, flush_subnormals=True) for old_maximum in maxima
            ]
            denominator = self._scaled_sum(
                [[self._numbers[offset * 2 + 1]] for offset in row_offsets], scales
            )[0]
            for access in range(plan.accesses):
                access_index, in_range = row_tile.access_index(access)
                sums = self._scaled_sum(
                    [
                        k.load(self._sums, self._buffer_offset(offset, access_index), plan.vector)
                        for offset in row_offsets
                    ],
                    scales,
                )
                with k.if_(is_stored if in_range is None else is_stored & in_range):
                    put(row, access_index, denominator, sums)
            if put_numbers is not None:
                with k.if_(is_stored & (row_tile.own == 0)):
                    put_numbers(row, maximum, denominator)

    def _scaled_sum(
        self, values: Sequence[Sequence[Value]], scales: Sequence[Value]
    ) -> list[Value]:
        """Return the sums of vectors, each times its scale."""
        totals = [value * scales[0] for value in values[0]]
        for addends, scale in zip(values[1:], scales[1:], strict=True):
            totals = [self._k.fma(a, scale, b) for a, b in zip(addends, totals, strict=True)]
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

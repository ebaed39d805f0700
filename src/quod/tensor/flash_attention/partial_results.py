"""Partial results of attention for parts of the keys, and the kernel that combines them.

For each query, a part of the keys stores the unnormalised sum of weighted values, the maximum of
the logits (to base 2, times the factor), and the denominator, which is the sum of the weights. The
greatest weight is 1. Unlike the logarithm of a sum, this format loses no precision for large
logits.
"""

from __future__ import annotations

from collections.abc import Sequence

from quod.kernel import Builder, KernelDefinition, Location, Value, bf16, f32, pointer, u32, u64
from quod.kernel.ir.types import Type
from quod.kernel.ir.value import ParameterType
from quod.kernel.registry import register
from quod.tensor.accesses import Accesses
from quod.tensor.elementwise.kernel import TYPES
from quod.tensor.flash_attention.kernel import inverse_of, log_sum
from quod.tensor.rows.exponentials import LEAST
from quod.tensor.rows.groups import own_accesses, own_rows
from quod.tensor.rows.plan import GroupPlan

MAX_STORE = 4
"""The maximum number of f32 elements of one store."""
_PARTS_PER_STEP = 8
"""The number of parts that a loop iteration reads."""


class Parts:
    """The partial results in memory, in three f32 arrays indexed by part and row.

    The value sums come first, `size` elements per part and row, then the maxima of the logits, then
    the denominators.
    """

    def __init__(self, k: Builder, memory: Value, rows: Value, parts: Value, size: Value) -> None:
        self._rows, self._size = rows.cast(u64), size.cast(u64)
        count = self._rows * parts.cast(u64)
        self._k, self.value_sums = k, memory
        self.maxima = k.pointer_add(memory, count * self._size)
        self.denominators = k.pointer_add(self.maxima, count)

    def row_index(self, part: Value, row: Value) -> Value:
        """Return the index of a part's row."""
        return part.cast(u64) * self._rows + row.cast(u64)

    def line(self, index: Value) -> Value:
        """Return the pointer to the value sums of a row."""
        return self._k.pointer_add(self.value_sums, index * self._size)

    def store(self, index: Value, access: Value, values: Sequence[Value]) -> None:
        """Store the value sums of the row at `index` that belong to access `access`."""
        row_sums, vector = self.line(index), len(values)
        for start in range(0, vector, MAX_STORE):
            self._k.store(row_sums, access * vector + start, *values[start : start + MAX_STORE])

    def store_numbers(self, index: Value, maximum: Value, denominator: Value) -> None:
        """Store the maximum logit and the denominator of a row."""
        self.maxima[index] = maximum
        self.denominators[index] = denominator


def _attention_parts(
    k: Builder, rows: Value, size: Value, parts: Value, numbers: Value, out: Value,
    *log_sums: Value, element: Type, plan: GroupPlan,
) -> None:  # fmt: skip
    """out[r] = value sums over denominators, parts weighted by 2**(part's maximum - maximum)."""
    partials = Parts(k, numbers, rows, parts, size)
    accesses, sum_accesses = Accesses(k, element, plan.vector), Accesses(k, f32, plan.vector)
    width, start = size // plan.vector, k.constant(0, u32)

    def part_rows(first: Value, row: Value) -> list[tuple[Value, Value]]:
        part_indices = [first + offset for offset in range(_PARTS_PER_STEP)]
        return [
            (part < parts, partials.row_index(k.minimum(part, parts - 1), row))
            for part in part_indices
        ]

    with own_rows(k, plan, rows) as loop:
        row = loop.index
        target = accesses.of(out, row.cast(u64) * width.cast(u64))
        with k.range(start, parts, _PARTS_PER_STEP, carry=k.constant(LEAST, f32)) as steps:
            maximum = steps.carried
            for _, index in part_rows(steps.index, row):
                maximum = k.maximum(maximum, partials.maxima[index])
            steps.next(maximum)
        maximum = steps.results
        with own_accesses(k, plan, width) as items:
            zero = k.constant(0.0, f32)
            with k.range(
                start, parts, _PARTS_PER_STEP, carry=(zero, [zero] * plan.vector)
            ) as steps:
                denominator, value_sums = steps.carried
                for exists, index in part_rows(steps.index, row):
                    weight = k.exp2(partials.maxima[index] - maximum, flush_subnormals=True)
                    weight = k.select(exists, weight, 0.0)
                    # 0 times an infinity of the last part would be NaN.
                    values = [
                        k.select(exists, value, 0.0)
                        for value in sum_accesses.load(partials.line(index), items.index)
                    ]
                    denominator = k.fma(partials.denominators[index], weight, denominator)
                    value_sums = [
                        k.fma(a, weight, b) for a, b in zip(values, value_sums, strict=True)
                    ]
                steps.next((denominator, value_sums))
            denominator, value_sums = steps.results
            inverse = inverse_of(k, denominator)
            accesses.store(target, items.index, [value * inverse for value in value_sums])
            for log_sum_row in log_sums:
                with k.if_(items.index == 0):
                    log_sum_row[row] = log_sum(k, maximum, denominator)


def _kernel(element: Type, *, sums: bool) -> KernelDefinition:
    parameters: dict[str, ParameterType] = dict.fromkeys(("rows", "size", "parts"), u32)
    parameters |= {"numbers": pointer(f32), "out": pointer(element)}
    if sums:
        parameters["log_sums"] = pointer(f32)
    location = Location(
        _attention_parts.__code__.co_filename, _attention_parts.__code__.co_firstlineno
    )
    return KernelDefinition(f"attention_parts_{element}", _attention_parts, parameters, location)


ATTENTION_PARTS = {
    (element, sums): _kernel(element, sums=sums) for element in TYPES for sums in (False, True)
}
"""The kernels by element type of the result, and by whether sums are stored."""

register(
    "tensor.attention_parts_bf16", ATTENTION_PARTS[bf16, True], element=bf16,
    plan=GroupPlan(lanes=8, threads=8, vector=4, rows=1),
)  # fmt: skip

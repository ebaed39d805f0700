"""Partial results of attention for parts of the keys, and the kernel that combines them.

A part stores unnormalised sums of values, with a greatest weight of 1, the greatest product (times
the factor, to base 2), and the total of weights. Unlike the logarithm of a sum, this loses no
precision for large products.
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

TOGETHER = 4
"""The most f32 elements of one store."""
_AT_ONCE = 8
"""Parts that are read at a time."""


class Parts:
    """The results of all parts in memory, indexed by part and row.

    All sums of values come first, of `size` elements each, then the greatest products, then the
    totals.
    """

    def __init__(self, k: Builder, memory: Value, rows: Value, parts: Value, size: Value) -> None:
        self._rows, self._size = rows.cast(u64), size.cast(u64)
        count = self._rows * parts.cast(u64)
        self._k, self.sums = k, memory
        self.tops = k.pointer_add(memory, count * self._size)
        self.totals = k.pointer_add(self.tops, count)

    def place(self, part: Value, row: Value) -> Value:
        """Return the index of a part's row."""
        return part.cast(u64) * self._rows + row.cast(u64)

    def line(self, place: Value) -> Value:
        """Return the pointer to the sums of a row."""
        return self._k.pointer_add(self.sums, place * self._size)

    def store(self, place: Value, at: Value, values: Sequence[Value]) -> None:
        """Store the sums of one access of a row."""
        line, vector = self.line(place), len(values)
        for first in range(0, vector, TOGETHER):
            self._k.store(line, at * vector + first, *values[first : first + TOGETHER])

    def store_numbers(self, place: Value, top: Value, total: Value) -> None:
        """Store the greatest product and the total of a row."""
        self.tops[place] = top
        self.totals[place] = total


def _attention_parts(
    k: Builder, rows: Value, size: Value, parts: Value, numbers: Value, out: Value,
    *log_sums: Value, element: Type, plan: GroupPlan,
) -> None:  # fmt: skip
    """out[r] = all parts' sums over their totals, weighted by 2**(part's top - greatest top)."""
    of = Parts(k, numbers, rows, parts, size)
    accesses, of_sums = Accesses(k, element, plan.vector), Accesses(k, f32, plan.vector)
    width, start = size // plan.vector, k.constant(0, u32)

    def places(first: Value, row: Value) -> list[tuple[Value, Value]]:
        each = [first + at for at in range(_AT_ONCE)]
        return [(part < parts, of.place(k.minimum(part, parts - 1), row)) for part in each]

    with own_rows(k, plan, rows) as loop:
        row = loop.index
        target = accesses.of(out, row.cast(u64) * width.cast(u64))
        with k.range(start, parts, _AT_ONCE, carry=k.constant(LEAST, f32)) as steps:
            top = steps.carried
            for _, place in places(steps.index, row):
                top = k.maximum(top, of.tops[place])
            steps.next(top)
        top = steps.results
        with own_accesses(k, plan, width) as items:
            zero = k.constant(0.0, f32)
            with k.range(start, parts, _AT_ONCE, carry=(zero, [zero] * plan.vector)) as steps:
                total, sums = steps.carried
                for there, place in places(steps.index, row):
                    weight = k.exp2(of.tops[place] - top, normal=True)
                    weight = k.select(there, weight, 0.0)
                    # 0 times an infinity of the last part would be NaN.
                    values = [
                        k.select(there, value, 0.0)
                        for value in of_sums.load(of.line(place), items.index)
                    ]
                    total = k.fma(of.totals[place], weight, total)
                    sums = [k.fma(a, weight, b) for a, b in zip(values, sums, strict=True)]
                steps.next((total, sums))
            total, sums = steps.results
            inverse = inverse_of(k, total)
            accesses.store(target, items.index, [value * inverse for value in sums])
            for each in log_sums:
                with k.if_(items.index == 0):
                    each[row] = log_sum(k, top, total)


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

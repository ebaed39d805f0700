"""Column sums over rows, in slabs of rows and in a fixed order.

The sums of a slab form one row of a shorter matrix, which is summed in the same way until one row
is left. The order depends only on the number of rows, not on the device.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from quod.device.protocol import AnyDevice
from quod.frozen import frozen
from quod.kernel import Builder, Value, f32, u32, u64
from quod.kernel.ir.types import Type
from quod.kernel.machine import Capability
from quod.tensor.accesses import Accesses, Values
from quod.tensor.rows.plan import VECTOR_LANES, widest

SLAB = 64
"""Rows of a slab, which are added sequentially."""
_ROWS_AT_ONCE = 4
"""Rows that an instance loads before it adds them."""


@frozen
class ColumnPlan:
    """The assignment of columns to instances: `batch` accesses of `vector` columns each.

    The `lanes` instances of a workgroup have adjacent accesses.
    """

    lanes: int
    vector: int
    batch: int

    def blocks(self, columns: int) -> int:
        """Return the number of workgroups that cover the columns of one slab."""
        return -(-columns // (self.vector * self.lanes * self.batch))


def plan_columns(device: AnyDevice, element: Type, columns: int) -> ColumnPlan:
    """Return the plan for a number of columns; `element` is the widest type."""
    if device.machine(device.lanes).has(Capability.VECTOR_LANES):
        return ColumnPlan(max(device.lanes, VECTOR_LANES), 1, 4)
    return ColumnPlan(device.lanes, widest(element, columns), 1)


class Columns:
    """The columns of this instance in matrices whose rows are `width` accesses long."""

    def __init__(self, k: Builder, plan: ColumnPlan, width: Value) -> None:
        self._k, self._plan, self._width = k, plan, width
        block_accesses = plan.lanes * plan.batch
        blocks = (width + (block_accesses - 1)) // block_accesses
        self.slab = k.workgroup_id() // blocks
        """The index of the workgroup's slab."""
        first = k.workgroup_id() % blocks * block_accesses + k.local_id()
        self._accesses_of_instance = [first + index * plan.lanes for index in range(plan.batch)]

    def load(self, matrix: Value, element: Type, row: Value) -> Values:
        """Load the instance's elements of a row, as f32."""
        accesses = Accesses(self._k, element, self._plan.vector)
        source = accesses.of(matrix, self._begin(row))
        elements: Values = ()
        for at in self._accesses_of_instance:
            elements += accesses.load(source, self._k.minimum(at, self._width - 1))
        return elements

    def sums(
        self, first: Value, count: Value, terms: Callable[[Value], Sequence[Values]], number: int
    ) -> list[Values]:
        """Return the sums of `number` terms over `count` rows from row `first`, added in order.

        terms: Returns the terms of a row, each with a value for each of the instance's elements.
        Without rows the sums are 0.
        """
        zeros = (self._k.constant(0.0, f32),) * (self.width * number)

        def added(carried: Values, rows: list[Value]) -> Values:
            for row_terms in [terms(row) for row in rows]:
                flat = [value for term in row_terms for value in term]
                carried = tuple(a + b for a, b in zip(carried, flat, strict=True))
            return carried

        return self.split(self.fold(first, count, zeros, added))

    def fold(
        self, first: Value, count: Value, initial: Values,
        step: Callable[[Values, list[Value]], Values],
    ) -> Values:  # fmt: skip
        """Fold `count` rows from row `first`; `step` takes carried values and row indices."""
        k, full_steps = self._k, count // _ROWS_AT_ONCE
        with k.range(0, full_steps, carry=initial) as loop:
            begin = first + loop.index * _ROWS_AT_ONCE
            loop.next(step(loop.carried, [begin + offset for offset in range(_ROWS_AT_ONCE)]))
        with k.range(full_steps * _ROWS_AT_ONCE, count, carry=loop.results) as remaining_rows:
            remaining_rows.next(step(remaining_rows.carried, [first + remaining_rows.index]))
        folded: Values = remaining_rows.results
        return folded

    @property
    def width(self) -> int:
        """The number of the instance's elements in a row."""
        return self._plan.batch * self._plan.vector

    def split(self, values: Values) -> list[Values]:
        """Split values into groups of one value for each of the instance's elements of a row."""
        return [values[at : at + self.width] for at in range(0, len(values), self.width)]

    def store(self, matrix: Value, element: Type, row: Value, values: Values) -> None:
        """Store the instance's elements of a row."""
        vector = self._plan.vector
        accesses = Accesses(self._k, element, vector)
        target = accesses.of(matrix, self._begin(row))
        for number, at in enumerate(self._accesses_of_instance):
            with self._k.if_(at < self._width):
                accesses.store(target, at, values[number * vector : (number + 1) * vector])

    def _begin(self, row: Value) -> Value:
        return row.cast(u64) * self._width.cast(u64)


def slabs(rows: int) -> int:
    """Return the number of slabs of a matrix of `rows` rows."""
    return -(-rows // SLAB)


def slab_of(k: Builder, columns: Columns, rows: Value) -> tuple[Value, Value]:
    """Return the first row of the workgroup's slab, and its number of rows."""
    first = columns.slab * SLAB
    return first, k.minimum(rows - first, k.constant(SLAB, u32))

"""The accesses of one instance to its row, and reductions over all instances of a row."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TypeVar

from quod.frozen import frozen
from quod.kernel import Builder, Value, f32, u32, u64
from quod.kernel.ir.types import Type
from quod.tensor.accesses import Accesses, Values
from quod.tensor.rows.plan import RowPlan

T = TypeVar("T")

LOG2_E = 1.4426950408889634
"""log2(e): exp(x) is 2**(x * LOG2_E), and GPUs compute powers of two."""


@frozen(eq=False)
class Access:
    """One access of an instance to a row.

    number: The index of the access in its step.
    index: The index of the access in the row, which may be out of range.
    read_index: The index that is loaded: `index`, clamped to the last access of the row.
    in_range: True if `index` is in range; None if it always is.
    load: Returns the elements, as f32.
    """

    number: int
    index: Value
    read_index: Value
    in_range: Value | None
    load: Callable[[], Values]

    @property
    def values(self) -> Values:
        """The elements; those in shared memory are loaded at each use."""
        return self.load()


class Row:
    """The row of this instance, `width` accesses of `vector` elements long.

    Every instance of the workgroup must construct a `Row` and call its methods. Instances beyond
    the last row read the last row, and store nothing.
    """

    def __init__(
        self, k: Builder, element: Type, plan: RowPlan, rows: Value, width: Value, *,
        count: Value | None = None, parts: Value | None = None, shared: Sequence[Type] = (f32,),
        stored: Type | None = None,
    ) -> None:  # fmt: skip
        """Select the row of this instance.

        count: The number of accesses of all rows together, if the last row is shorter; with
            `parts`, the number of accesses of a long row.
        parts: The number of rows that each long row is split into.
        shared: The types of the values that `all_combined` reduces.
        stored: The type of stored elements, if not `element`.
        """
        self._k = k
        self._accesses = Accesses(k, element, plan.vector)
        self._stored = Accesses(k, stored or element, plan.vector)
        self._width = width
        self._threads, self._vector = plan.threads, plan.vector
        # `single_step`: one step covers the row, so its accesses are loaded once and kept.
        self._batch, self.single_step = plan.batch, plan.single_step
        self._copied = plan.copied
        self._full = plan.full
        if plan.resident:
            k.resident_workgroups(plan.resident)
        self._row_accesses: list[Access] = []
        # `_has_row` tells whether the instance has a row; it is None if all instances have one.
        row, self._lane, self._has_row = k.workgroup_id(), k.local_id(), None
        if plan.threads < k.workgroup_size:
            row = row * (k.workgroup_size // plan.threads) + self._lane // plan.threads
            self._lane %= plan.threads
            self._has_row = row < rows
            row = k.minimum(row, rows - 1)
        self._row_index = row
        self.before = k.constant(0, u32) if parts is None else row % parts * width
        """The number of elements of the long row before this part."""
        self._first = row.cast(u64) * width.cast(u64)
        if count is not None and parts is not None:
            self._first = (row // parts).cast(u64) * count.cast(u64) + self.before.cast(u64)
            self._width = k.minimum(count - self.before, width)
            self.before *= self._vector
        elif count is not None:
            remaining = count.cast(u64) - self._first
            self._width = k.minimum(remaining, width.cast(u64)).cast(u32)
        self._copies = self._allocate_buffers(plan.copied)
        spans_subgroups = plan.threads > k.subgroup_size
        subgroup_count = -(-k.workgroup_size // k.subgroup_size) if spans_subgroups else 0
        self._shared = (
            [k.shared(type_, subgroup_count) for type_ in shared] if spans_subgroups else []
        )

    @property
    def length(self) -> Value:
        """The number of elements of the row, as u32."""
        return self._width * self._vector

    @property
    def length_f32(self) -> Value:
        """The number of elements of the row, as f32."""
        return self.length.cast(f32)

    # --- memory

    def input_pointer(self, matrix: Value) -> Value:
        """Return the pointer to the row in a matrix of the element type, for `load`."""
        return self._accesses.of(matrix, self._first)

    def output_pointer(self, matrix: Value) -> Value:
        """Return the pointer to the row in a matrix of the stored type, for `store`."""
        return self._stored.of(matrix, self._first)

    def vector(self, memory: Value) -> Value:
        """Return the pointer to a vector as long as a row, which all rows share."""
        return self._accesses.of(memory)

    def vector_loader(self, memory: Value) -> Callable[[Access], Values]:
        """Return a function that loads the elements of a shared vector at an access."""
        pointer = self._accesses.of(memory)
        return lambda access: self.load(pointer, access.read_index)

    def load(self, pointer: Value, index: Value) -> Values:
        """Load one access through a pointer of `input_pointer` or `vector`; floats as f32."""
        return self._accesses.load(pointer, index)

    def element(self, matrix: Value, index: Value) -> Value:
        """Load element `index` of the row in a matrix."""
        return matrix[self._first * self._vector + index.cast(u64)]

    def own(self, vector: Value) -> Value:
        """Load the row's element of a vector with one element per row."""
        return vector[self._row_index]

    def put(self, vector: Value, value: Value) -> None:
        """Store the row's element of a vector with one element per row."""
        is_first = self._lane == 0
        with self._k.if_(is_first if self._has_row is None else is_first & self._has_row):
            vector[self._row_index] = value

    # --- passes over the row

    def once(self, values_of: Callable[[Access], Values]) -> Callable[[Access], Values]:
        """If one step covers the row, cache `values_of` by access: passes share the accesses."""
        cache: dict[int, Values] = {}

        def cached(access: Access) -> Values:
            if not self.single_step or id(access) not in cache:
                cache[id(access)] = values_of(access)
            return cache[id(access)]

        return cached

    def _step(self, pointer: Value, start: Value, *, full: bool) -> list[Access]:
        """Load the accesses of a step; accesses beyond the row load its last access."""
        accesses = []
        for index_in_step in range(self._batch):
            index = start + (index_in_step * self._threads + self._lane)
            in_range = None if full else index < self._width
            read_index = index if full else self._k.minimum(index, self._width - 1)
            if index_in_step < self._batch - self._copied:
                values = self.load(pointer, read_index)
                accesses.append(
                    Access(index_in_step, index, read_index, in_range, partial(_same, values))
                )
            else:
                buffer = self._copies[index_in_step - self._batch]
                accesses.append(
                    Access(
                        index_in_step,
                        index,
                        read_index,
                        in_range,
                        self._copy(pointer, read_index, buffer),
                    )
                )
        return accesses

    def _allocate_buffers(self, count: int) -> list[Value]:
        """Allocate shared memory for `count` accesses of each instance."""
        size = self._threads * self._accesses.words
        return [self._k.shared(self._accesses.held, size) for _ in range(count)]

    def _copy(self, pointer: Value, index: Value, buffer: Value) -> Callable[[], Values]:
        """Start a copy of an access to shared memory, and return the function that loads it."""
        words = self._accesses.words
        self._k.copy_async(buffer, self._lane * words, pointer, index * words, words)
        return partial(self.load, buffer, self._lane)

    def _whole_row(self, pointer: Value) -> list[Access]:
        """Return all accesses of a row that is read once (`single_step`)."""
        if not self._row_accesses:
            self._row_accesses = self._step(pointer, self._k.constant(0, u32), full=self._full)
            if self._copied:
                self._k.copy_async_commit()
                self._k.copy_async_wait()
        return self._row_accesses

    def fold(
        self, pointer: Value, initial: Values, step: Callable[[list[Access], Values], Values]
    ) -> Values:
        """Fold the instance's accesses; `step` folds a list of accesses into the carried values."""
        k = self._k
        if self.single_step:
            accesses = self._whole_row(pointer)
            register_count = self._batch - self._copied
            state = step(accesses[:register_count], initial)
            # One access in shared memory at a time, so that few elements are in registers.
            for access in accesses[register_count:]:
                state = step([access], state)
            return state
        size = self._threads * self._batch
        with k.range(0, self._width // size, carry=initial) as loop:
            accesses = self._step(pointer, loop.index * size, full=True)
            loop.next(step(accesses, loop.carried))
        last_accesses = self._step(pointer, self._width // size * size, full=False)
        return step(last_accesses, loop.results)

    def store(
        self, pointer: Value, target: Value, values_of: Callable[[Access], Sequence[Value]]
    ) -> None:
        """Store `values_of(access)` for each access, at its index in the row `target`."""
        k = self._k
        size = self._threads * self._batch
        if self.single_step:
            self._store_step(target, self._whole_row(pointer), values_of)
            return
        with k.range(0, self._width // size) as loop:
            self._store_step(target, self._step(pointer, loop.index * size, full=True), values_of)
        last_accesses = self._step(pointer, self._width // size * size, full=False)
        self._store_step(target, last_accesses, values_of)

    def _store_step(
        self, target: Value, accesses: list[Access], values_of: Callable[[Access], Sequence[Value]]
    ) -> None:
        """Store `values_of(access)` of some accesses, except beyond the row or without a row."""
        k = self._k
        for access in accesses:
            values, in_range = values_of(access), access.in_range
            if self._has_row is not None:
                in_range = self._has_row if in_range is None else in_range & self._has_row
            if in_range is None:
                self._stored.store(target, access.index, values)
                continue
            with k.if_(in_range):
                self._stored.store(target, access.index, values)

    # --- reductions over the instances of the row

    def combined(self, value: Value, combine: Callable[[Value, Value], Value]) -> Value:
        """Reduce one f32 over the row's instances, in pairs and in a fixed order."""
        return self.all_combined((value,), lambda a, b: (combine(*a, *b),))[0]

    def all_combined(self, values: Values, combine: Callable[[Values, Values], Values]) -> Values:
        """Reduce several numbers, of the shared types, over the row's instances; see `combined`.

        Every instance of the workgroup must call it.
        """
        k = self._k
        distance = min(self._threads, k.subgroup_size) // 2
        while distance:
            partner = k.lane_id() ^ distance
            values = combine(values, tuple(k.shuffle(value, partner) for value in values))
            distance //= 2
        if not self._shared:
            return values
        with k.if_(k.lane_id() == 0):
            for buffer, value in zip(self._shared, values, strict=True):
                buffer[k.subgroup_id()] = value
        k.barrier()
        subgroups_per_row = self._threads // k.subgroup_size
        first_subgroup = k.subgroup_id() // subgroups_per_row * subgroups_per_row
        values = tuple(buffer[first_subgroup] for buffer in self._shared)
        for subgroup in range(1, subgroups_per_row):
            values = combine(
                values, tuple(buffer[first_subgroup + subgroup] for buffer in self._shared)
            )
        k.barrier()
        return values

    def total(self, value: Value) -> Value:
        """Return the sum over the row's instances."""
        return self.combined(value, lambda a, b: a + b)


def _same(constant_values: Values) -> Values:
    return constant_values


def masked_terms(
    k: Builder, accesses: list[Access], term: Callable[..., Value],
    *other_operands: Callable[[Access], Values],
) -> Iterator[Value]:  # fmt: skip
    """Yield `term` of each element and the elements of other operands; 0 beyond the row."""
    for access in accesses:
        for values in zip(
            access.values, *(operand(access) for operand in other_operands), strict=True
        ):
            element_term = term(*values)
            yield (
                element_term
                if access.in_range is None
                else k.select(access.in_range, element_term, 0.0)
            )


def summed(terms: Iterator[Value], total: Value) -> Value:
    """Add terms in pairs, and their sum to `total`."""
    return total + in_pairs(list(terms), operator.add)


def in_pairs(values: list[T], combine: Callable[[T, T], T]) -> T:
    """Reduce a list by combining neighbours, in a balanced tree."""
    while len(values) > 1:
        values = [combine(a, b) for a, b in zip(values[::2], values[1::2], strict=False)] + (
            values[-1:] if len(values) % 2 else []
        )
    return values[0]

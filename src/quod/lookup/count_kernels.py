"""Kernels that count how often each entry of a table is looked up."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from quod.field.moduli import Modulus
from quod.frozen import frozen
from quod.kernel import U32, Builder, Pointer, kernel, u32
from quod.kernel.ir.value import Value
from quod.lookup.leaf_form import LeafForm, Leaves
from quod.sumcheck.mixed import MixedField

MISSING_NONE = 0xFFFFFFFF
"""The first missing lookup if none is missing."""

EMPTY = 0xFFFFFFFF
"""A slot of a hash table without an entry."""

_FACTOR = 0x9E3779B1


@frozen
class CountForm:
    """The static parameters of how a workgroup counts in shared memory.

    part_size: if above 0, counters of so many entries: workgroup i counts part i % parts of the
        table, and skips other entries.
    cache_size: else the number of counters of a cache, a power of two. The first entry that comes
        to a counter keeps it, and other entries there are counted in global memory.
    unrolled: rows per iteration of an instance.
    """

    part_size: int
    cache_size: int = 0
    unrolled: int = 4


@kernel
def count_integers(
    k: Builder, n: U32, size: U32, parts: U32, columns: Pointer[U32], parameters: Pointer[U32],
    counts: Pointer[U32], *, form: LeafForm, count: CountForm,
) -> None:  # fmt: skip
    """Add to counts[v] the number of lookups of v, for n lookups and v < size.

    counts[size] becomes the index of the first lookup that is not below `size`, at most
    `MISSING_NONE`.
    """
    mixed = MixedField(k, form.field)
    leaves = Leaves(mixed, form, columns, k.pointer_add(parameters, parameters[0]))

    def find(index: Value) -> tuple[Value, Value]:
        return _integer(k, form.field.modulus, leaves.leaf(index), size)

    _count_rows(k, count, n, size, parts, counts, find)


@kernel
def insert_entries(
    k: Builder, n: U32, entries: Pointer[U32], slots: Pointer[U32], *, modulus: Modulus, width: int
) -> None:
    """Insert the indices of n entries into a hash table of 2*n slots, which are `EMPTY` at first.

    entries: `width` arrays of n elements. Of equal entries the table keeps the lowest index.
    """
    mixed, i = MixedField(k, modulus), k.global_id()
    with k.if_(i < n):
        row = _entry(mixed, entries, n, i, width)
        slot = _hash(k, row) & (2 * n - 1)
        pending = k.constant(1, u32)
        with k.while_((slot, pending)) as loop:
            slot, pending = loop.carried
            loop.check(pending != 0)
            before = k.atomic_compare_exchange(slots, slot, EMPTY, i)
            occupant = k.select(before == EMPTY, i, before)
            is_equal = _are_equal(row, _entry(mixed, entries, n, occupant, width))
            with k.if_(is_equal):
                k.atomic_min(slots, slot, i)
            loop.next(((slot + 1) & (2 * n - 1), k.select(is_equal, 0, pending)))


@kernel
def count_entries(
    k: Builder, n: U32, size: U32, parts: U32, columns: Pointer[U32], parameters: Pointer[U32],
    entries: Pointer[U32], slots: Pointer[U32], counts: Pointer[U32], *,
    forms: tuple[LeafForm, ...], count: CountForm,
) -> None:  # fmt: skip
    """Add to counts[e] the number of lookups of entry e, for n lookups and `size` entries.

    counts[size] becomes the index of the first lookup that is not an entry, at most
    `MISSING_NONE`. See `insert_entries` for `entries` and `slots`.
    """
    mixed = MixedField(k, forms[0].field)
    elements = [
        Leaves(mixed, form, columns, k.pointer_add(parameters, parameters[number]))
        for number, form in enumerate(forms)
    ]

    def find(index: Value) -> tuple[Value, Value]:
        row = [word for leaves in elements for word in mixed.base.to_words(leaves.leaf(index))]
        slot = _hash(k, row) & (2 * size - 1)
        with k.while_((slot, k.constant(0, u32), k.constant(EMPTY, u32))) as loop:
            slot, is_done, entry = loop.carried
            loop.check(is_done == 0)
            occupant = slots[slot]
            is_empty = occupant == EMPTY
            candidate = k.select(is_empty, 0, occupant)
            words = _entry(mixed, entries, size, candidate, len(forms))
            is_equal = ~is_empty & _are_equal(row, words)
            loop.next((
                (slot + 1) & (2 * size - 1),
                k.select(is_empty | is_equal, 1, is_done),
                k.select(is_equal, occupant, entry),
            ))  # fmt: skip
        entry = loop.results[2]
        is_entry = entry != EMPTY
        return k.select(is_entry, entry, 0), is_entry

    _count_rows(k, count, n, size, parts, counts, find)


def _count_rows(
    k: Builder, form: CountForm, n: Value, size: Value, parts: Value, counts: Value,
    find: Callable[[Value], tuple[Value, Value]],
) -> None:  # fmt: skip
    """Count the entries of n rows; `find` returns a row's entry, and whether there is one."""
    part, group = k.workgroup_id() % parts, k.workgroup_id() // parts
    stride = (k.num_workgroups() // parts) * k.workgroup_size
    tally = _Tally(k, form, counts, part)
    first = group * k.workgroup_size + k.local_id()
    none = k.constant(MISSING_NONE, u32)
    with k.range(first, n, stride * form.unrolled, carry=none) as loop:
        # All loads come first, so that they wait for memory together.
        indices = [
            k.minimum(loop.index + stride * step, n - 1) if step else loop.index
            for step in range(form.unrolled)
        ]
        rows = [find(index) for index in indices]
        missing = loop.carried
        for step, (index, (entry, is_entry)) in enumerate(zip(indices, rows, strict=True)):
            is_row = loop.index + stride * step < n
            tally.add(entry, is_entry & is_row)
            missing = k.select(is_entry, missing, k.minimum(missing, index))
        loop.next(missing)
    k.atomic_min(counts, size, loop.results)
    tally.finish()


class _Tally:
    """The counters of a workgroup while a kernel is traced."""

    def __init__(self, k: Builder, form: CountForm, counts: Value, part: Value) -> None:
        """Clear the counters of a part of the table."""
        self._k, self._form, self._counts, self._part = k, form, counts, part
        self._size = form.part_size or form.cache_size
        self._counters = k.shared(u32, self._size)
        self._owners = None if form.part_size else k.shared(u32, self._size)
        with k.range(k.local_id(), self._size, k.workgroup_size) as loop:
            self._counters[loop.index] = k.constant(0, u32)
            if self._owners is not None:
                self._owners[loop.index] = k.constant(EMPTY, u32)
        k.barrier()

    def add(self, entry: Value, is_counted: Value) -> None:
        """Count an entry, if it is counted and in the workgroup's part."""
        k, size = self._k, self._size
        if self._owners is None:
            with k.if_(is_counted & (entry // size == self._part)):
                k.atomic_add(self._counters, entry % size, 1)
            return
        with k.if_(is_counted):
            counter = entry & (size - 1)
            owner = k.atomic_compare_exchange(self._owners, counter, EMPTY, entry)
            with k.if_((owner == EMPTY) | (owner == entry)) as branch:
                k.atomic_add(self._counters, counter, 1)
            with branch.otherwise():
                k.atomic_add(self._counts, entry, 1)

    def finish(self) -> None:
        """Add the counters to those in global memory."""
        k = self._k
        k.barrier()
        with k.range(k.local_id(), self._size, k.workgroup_size) as loop:
            counted = self._counters[loop.index]
            entry = (
                self._part * self._size + loop.index
                if self._owners is None
                else self._owners[loop.index]
            )
            with k.if_(counted != 0):
                k.atomic_add(self._counts, entry, counted)


def _integer(k: Builder, modulus: Modulus, a: Any, size: Value) -> tuple[Value, Value]:
    """Return the integer of an element if it is below `size`, else 0; and whether it is."""
    f, radix = a.field, modulus.montgomery_radix
    if radix != 1:
        a = f.multiply_constant(a, pow(radix, -1, modulus.value))
    low, *others = f.to_words(a)
    is_below = low < size.cast(low.type)
    for word in others:
        is_below = is_below & (word == 0)
    return k.select(is_below, low.cast(u32), 0), is_below


def _entry(mixed: MixedField, entries: Value, n: Value, index: Value, width: int) -> list[Value]:
    """Load the words of an entry: those of `width` elements, n elements apart."""
    base, words = mixed.base, []
    for number in range(width):
        words += base.load_words(entries, n * number + index)
    return words


def _hash(k: Builder, words: Sequence[Value]) -> Value:
    """Return a hash of words of 32 or 64 bits."""
    total = k.constant(0, u32)
    for word in words:
        halves = [word] if word.type.bits == 32 else [word.cast(u32), (word >> 32).cast(u32)]
        for half in halves:
            total = (total ^ half) * _FACTOR
            total = total ^ (total >> 15)
    return total


def _are_equal(a: Sequence[Value], b: Sequence[Value]) -> Value:
    equal = a[0] == b[0]
    for first, second in zip(a[1:], b[1:], strict=True):
        equal = equal & (first == second)
    return equal

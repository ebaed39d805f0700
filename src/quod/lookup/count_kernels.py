"""Kernels that count how often each entry of a table is looked up."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from quod.field.moduli import Modulus
from quod.kernel import U32, Builder, Pointer, kernel, u32
from quod.kernel.ir.value import Value
from quod.lookup.leaf_form import LeafForm, Leaves
from quod.sumcheck.mixed import MixedField

MISSING_NONE = 0xFFFFFFFF
"""The first missing lookup if none is missing."""

EMPTY = 0xFFFFFFFF
"""A slot of a hash table without an entry."""

_FACTOR = 0x9E3779B1


@kernel
def count_integers(
    k: Builder, n: U32, size: U32, parts: U32, columns: Pointer[U32], parameters: Pointer[U32],
    counts: Pointer[U32], *, form: LeafForm, part_size: int, unrolled: int,
) -> None:  # fmt: skip
    """Add to counts[v] the number of lookups of v, for n lookups and v < size.

    counts[size] becomes the index of the first lookup that is not below `size`, at most
    `MISSING_NONE`.
    parts: workgroup i counts part i % parts of the range in shared memory, of `part_size` numbers.
        If that is 0 all workgroups count in `counts`.
    unrolled: rows per iteration of an instance.
    """
    mixed = MixedField(k, form.field)
    leaves = Leaves(mixed, form, columns, k.pointer_add(parameters, parameters[0]))
    part, group = k.workgroup_id() % parts, k.workgroup_id() // parts
    stride = (k.num_workgroups() // parts) * k.workgroup_size
    shared = k.shared(u32, part_size) if part_size else None
    if shared is not None:
        with k.range(k.local_id(), part_size, k.workgroup_size) as loop:
            shared[loop.index] = k.constant(0, u32)
        k.barrier()
    none = k.constant(MISSING_NONE, u32)
    first = group * k.workgroup_size + k.local_id()
    with k.range(first, n, stride * unrolled, carry=none) as loop:
        # All loads come first, so that they wait for memory together.
        indices = [loop.index + stride * step for step in range(unrolled)]
        rows = [
            _integer(k, form.field.modulus, leaves.leaf(k.minimum(index, n - 1)), size)
            for index in indices
        ]
        missing = loop.carried
        for index, (number, is_below) in zip(indices, rows, strict=True):
            counted = is_below & (index < n)
            if shared is None:
                with k.if_(counted):
                    k.atomic_add(counts, number, 1)
            else:
                with k.if_(counted & (number // part_size == part)):
                    k.atomic_add(shared, number % part_size, 1)
            missing = k.select(is_below, missing, k.minimum(missing, k.minimum(index, n - 1)))
        loop.next(missing)
    k.atomic_min(counts, size, loop.results)
    if shared is not None:
        k.barrier()
        with k.range(k.local_id(), part_size, k.workgroup_size) as loop:
            counted = shared[loop.index]
            with k.if_(counted != 0):
                k.atomic_add(counts, part * part_size + loop.index, counted)


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
    k: Builder, n: U32, size: U32, columns: Pointer[U32], parameters: Pointer[U32],
    entries: Pointer[U32], slots: Pointer[U32], counts: Pointer[U32], *,
    forms: tuple[LeafForm, ...],
) -> None:  # fmt: skip
    """Add to counts[e] the number of lookups of entry e, for n lookups and `size` entries.

    counts[size] becomes the index of the first lookup that is not an entry, at most
    `MISSING_NONE`. See `insert_entries` for `entries` and `slots`.
    """
    mixed, i = MixedField(k, forms[0].field), k.global_id()
    elements = [
        Leaves(mixed, form, columns, k.pointer_add(parameters, parameters[number]))
        for number, form in enumerate(forms)
    ]
    with k.if_(i < n):
        row = [word for leaves in elements for word in mixed.base.to_words(leaves.leaf(i))]
        slot = _hash(k, row) & (2 * size - 1)
        with k.while_((slot, k.constant(0, u32), k.constant(EMPTY, u32))) as loop:
            slot, is_done, entry = loop.carried
            loop.check(is_done == 0)
            occupant = slots[slot]
            is_empty = occupant == EMPTY
            index = k.select(is_empty, 0, occupant)
            is_equal = ~is_empty & _are_equal(row, _entry(mixed, entries, size, index, len(forms)))
            loop.next((
                (slot + 1) & (2 * size - 1),
                k.select(is_empty | is_equal, 1, is_done),
                k.select(is_equal, occupant, entry),
            ))  # fmt: skip
        entry = loop.results[2]
        with k.if_(entry != EMPTY):
            k.atomic_add(counts, entry, 1)
        with k.if_(entry == EMPTY):
            k.atomic_min(counts, size, i)


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

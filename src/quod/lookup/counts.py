"""Counts of the lookups of each entry of a table, on a device.

A row of a range is the index of its entry. Rows of other tables are found by a hash table of the
entries, which has the first of equal entries. Sums and minima do not depend on the order of
instances, so the counts do not either.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from quod.device.memory.buffer import Buffer
from quod.device.protocol import AnyDevice, in_host_memory
from quod.device.runtime.sentinel import not_written
from quod.field.array import Words
from quod.field.plain_element import PlainElement
from quod.frozen import frozen
from quod.lookup.count_kernels import (
    EMPTY,
    MISSING_NONE,
    CountForm,
    count_entries,
    count_integers,
    insert_entries,
)
from quod.lookup.leaves import PlacedColumns
from quod.lookup.statement import Statement

_MAX_PARTS = 4
"""The maximum of parts of a range, each with its own pass over the columns."""

_LANES = 256
_LARGE_ROOM = 1 << 14
_LARGE_ROOM_LANES = 1024
_GROUPS_PER_THREAD = 4
_GROUPS_PER_MULTIPROCESSOR = 2
_ROWS_PER_INSTANCE = 16


def count(
    device: AnyDevice, statement: Statement, columns: PlacedColumns, table: Sequence[Words] | None
) -> tuple[NDArray[np.uint32], int | None]:
    """Return the number of lookups of each entry, and the first lookup that is not an entry.

    table: the arrays of the entries; None for a range.
    """
    modulus = statement.field.modulus
    zero, one = PlainElement.zero(modulus), PlainElement.one(modulus)
    forms, blocks = [], []
    for entry in range(statement.table.width):
        forms.append(columns.leaf_form(modulus, entry=entry))
        # alpha - power * entry is the entry itself.
        words, _ = columns.parameters(forms[-1], zero, [zero - one], entry=entry)
        blocks.append(words)
    starts, words_of_blocks = [], []
    position = -(-len(blocks) // 16) * 16
    for block in blocks:
        starts.append(position)
        padded = np.zeros(-(-len(block) // 16) * 16, np.uint32)
        padded[: len(block)] = block
        words_of_blocks.append(padded)
        position += len(padded)
    first = np.zeros(starts[0], np.uint32)
    first[: len(starts)] = starts
    parameters = device.upload(np.concatenate([first, *words_of_blocks]))
    size, lookups = 1 << statement.table.log2_size, statement.lookups
    # The last word is the first lookup that is missing.
    start = np.zeros(size + 1, np.uint32)
    start[-1] = MISSING_NONE
    counts = device.upload(start)
    # A part of a range takes one pass over the columns; rows of a table are searched only once.
    grid = Grid.of(device, lookups, size, max_parts=_MAX_PARTS if table is None else 1)
    memory = lookups, size, grid.parts, columns.memory, parameters
    if table is None:
        compiled = device.compile(count_integers, lanes=grid.lanes, form=forms[0], count=grid.form)
        device.launch(compiled, grid.groups, *memory, counts)
    else:
        entries, slots = _hash_table(device, statement, table)
        compiled = device.compile(
            count_entries, lanes=grid.lanes, forms=tuple(forms), count=grid.form
        )
        device.launch(compiled, grid.groups, *memory, entries, slots, counts)
    result = np.empty(size + 1, np.uint32)
    device.download(counts, result)
    missing, counted = int(result[-1]), result[:-1]
    if missing == MISSING_NONE and int(counted.sum(dtype=np.int64)) != lookups:
        raise not_written(device, "counts of lookups")
    return counted, None if missing == MISSING_NONE else missing


@frozen
class Grid:
    """The workgroups that count, and their static parameters."""

    lanes: int
    groups: int
    parts: int
    form: CountForm

    @classmethod
    def of(cls, device: AnyDevice, lookups: int, size: int, *, max_parts: int) -> Grid:
        """Choose counters for each entry if that takes at most `max_parts` parts, else a cache."""
        on_host = in_host_memory(device)
        lanes = device.lanes if on_host else _LANES
        room = device.machine(lanes).shared_bytes_limit // 4
        if not on_host and room >= _LARGE_ROOM:
            # One workgroup then has most of the memory of a multiprocessor.
            lanes = _LARGE_ROOM_LANES
        part_size = min(size, 1 << (room.bit_length() - 1))
        parts, cache_size = size // part_size, 0
        if parts > max_parts:
            parts, part_size, cache_size = 1, 0, 1 << ((room // 2).bit_length() - 1)
        groups = (
            _GROUPS_PER_THREAD * device.threads
            if in_host_memory(device)
            else _GROUPS_PER_MULTIPROCESSOR * device.multiprocessors
        )
        groups = max(1, min(groups, lookups // (_ROWS_PER_INSTANCE * lanes)))
        return cls(lanes, parts * groups, parts, CountForm(part_size, cache_size))


def _hash_table(
    device: AnyDevice, statement: Statement, table: Sequence[Words]
) -> tuple[Buffer, Buffer]:
    """Return the entries of a table in device memory, and a hash table of their indices."""
    modulus, size = statement.field.modulus, len(table[0])
    entries = device.upload(np.concatenate(table))
    slots = device.upload(np.full(2 * size, EMPTY, np.uint32))
    insert = device.compile(insert_entries, modulus=modulus, width=len(table))
    device.launch(insert, -(-size // insert.lanes), size, entries, slots)
    return entries, slots

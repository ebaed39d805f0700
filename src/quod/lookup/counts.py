"""Counts of the lookups of each entry of a table, on a device.

A row of a range is the index of its entry. Rows of other tables are found by a hash table of the
entries, which has the first of equal entries. Sums and minima do not depend on the order of
instances, so the counts do not either.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quod.device.memory.buffer import Buffer
from quod.device.protocol import AnyDevice, in_host_memory
from quod.device.runtime.sentinel import not_written
from quod.field.array import Words
from quod.field.plain_element import PlainElement
from quod.lookup.count_kernels import (
    EMPTY,
    MISSING_NONE,
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
_UNROLLED = 4
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
    form = tuple(forms)
    if table is None:
        _count_range(device, lookups, size, columns.memory, parameters, counts, form[0])
    else:
        _count_table(device, statement, columns.memory, parameters, counts, table, form)
    result = np.empty(size + 1, np.uint32)
    device.download(counts, result)
    missing, counted = int(result[-1]), result[:-1]
    if missing == MISSING_NONE and int(counted.sum(dtype=np.int64)) != lookups:
        raise not_written(device, "counts of lookups")
    return counted, None if missing == MISSING_NONE else missing


def _count_range(
    device: AnyDevice, lookups: int, size: int, columns: Buffer, parameters: Buffer,
    counts: Buffer, form: Any,
) -> None:  # fmt: skip
    """Count in shared memory, a part of the range at a time, if that takes few passes."""
    lanes = device.lanes if in_host_memory(device) else _LANES
    room = device.machine(lanes).shared_bytes_limit // 4
    if not in_host_memory(device) and room >= _LARGE_ROOM:
        # One workgroup then has most of the memory of a multiprocessor.
        lanes = _LARGE_ROOM_LANES
    part_size = min(size, 1 << (room.bit_length() - 1))
    parts = size // part_size
    if parts > _MAX_PARTS:
        parts, part_size = 1, 0
    groups = (
        _GROUPS_PER_THREAD * device.threads
        if in_host_memory(device)
        else _GROUPS_PER_MULTIPROCESSOR * device.multiprocessors
    )
    groups = max(1, min(groups, lookups // (_ROWS_PER_INSTANCE * lanes)))
    compiled = device.compile(
        count_integers, lanes=lanes, form=form, part_size=part_size, unrolled=_UNROLLED
    )
    device.launch(
        compiled, parts * groups, lookups, size, parts, columns, parameters, counts
    )  # fmt: skip


def _count_table(
    device: AnyDevice, statement: Statement, columns: Buffer, parameters: Buffer, counts: Buffer,
    table: Sequence[Words], forms: tuple[Any, ...],
) -> None:  # fmt: skip
    modulus, size = statement.field.modulus, len(table[0])
    entries = device.upload(np.concatenate(table))
    slots = device.upload(np.full(2 * size, EMPTY, np.uint32))
    insert = device.compile(insert_entries, modulus=modulus, width=len(table))
    device.launch(insert, -(-size // insert.lanes), size, entries, slots)
    compiled = device.compile(count_entries, forms=forms)
    lookups = statement.lookups
    device.launch(
        compiled, -(-lookups // compiled.lanes), lookups, size, columns, parameters, entries, slots,
        counts,
    )  # fmt: skip

"""One step of a partition: move a workgroup's tile of entries to their parts, in long runs.

A workgroup counts its tile in shared memory, which also ranks each entry. It reserves space in each
part by one atomic addition to a cursor in device memory. Then it sorts the tile in shared memory
and writes it, so that neighbouring lanes write neighbouring words. Scattered stores of four bytes
would cost the L2 cache eight times the traffic.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from quod.frozen import frozen
from quod.kernel.builder.builder import Builder
from quod.kernel.ir import types
from quod.kernel.ir.types import Type
from quod.kernel.ir.value import Value
from quod.kernel.machine import Capability
from quod.msm.gpu.sort.workgroup import NO_KEY, Histogram, Scan

# Bytes of shared memory that are left for other uses of a kernel.
_OTHER_BYTES = 1024

# A tag of 16 bits and a rank share a register.
_RANK_SHIFT = 16


@frozen
class Item:
    """An entry that an instance moves, if it exists; its tag determines the part."""

    exists: Value
    tag: Value
    entry: Value


class Partition:
    """A partition of tiles of entries into `parts` parts.

    items: the maximum number of entries per instance.
    tag: the type of tags: u32, or u16 if all are below 2**13.
    part_of: returns the part of a tag.
    staged: sort the tile in shared memory before writing, if it fits. With few entries per part,
        writing directly is faster.
    """

    def __init__(
        self, k: Builder, parts: int, items: int, tag: Type, part_of: Callable[[Value], Value],
        *, staged: bool,
    ) -> None:  # fmt: skip
        capacity = items * k.workgroup_size
        needed_bytes = 4 * parts + (4 + tag.bytes) * capacity + _OTHER_BYTES
        if k.machine.has(Capability.SLOW_SUBGROUPS):
            needed_bytes += 4 * k.workgroup_size  # the shared memory of a scan without shuffles
        self._k = k
        self._part_of = part_of
        self._packed = tag is types.u16
        self._tally = Histogram(k, parts)
        self._staged = staged and needed_bytes <= k.machine.shared_bytes_limit
        if self._staged:
            self._scan = Scan(k)
            self._tags, self._entries = k.shared(tag, capacity), k.shared(types.u32, capacity)

    def clear(self) -> None:
        """Clear the counters, before a barrier and `move`."""
        self._tally.clear()

    def move(
        self, items: Sequence[Item], cursors: Value, first: Value | int,
        write: Callable[[Value, Value, Value], None],
    ) -> None:  # fmt: skip
        """Call ``write(index, tag, entry)`` once for each item, in an arbitrary instance.

        Indices of part p are reserved by adding to ``cursors[first + p]``. All instances must call
        this; it contains barriers.
        """
        k, table = self._k, self._tally.table
        ranked_items = [self._pack_item(item, voter) for voter, item in enumerate(items)]
        k.barrier()
        if not self._staged:
            self._reserve_indices(cursors, first)
            k.barrier()
            for item, (tag, rank) in zip(items, ranked_items, strict=True):
                with k.if_(rank != NO_KEY):
                    tag, rank = self._unpack_item(tag, rank)
                    write(table[self._part_of(tag)] + rank, tag, item.entry)
            k.barrier()
            return
        distances, total = self._reserve_slots(cursors, first)
        k.barrier()
        for item, (tag, rank) in zip(items, ranked_items, strict=True):
            with k.if_(rank != NO_KEY):
                tag, rank = self._unpack_item(tag, rank)
                slot = table[self._part_of(tag)] + rank
                self._tags[slot], self._entries[slot] = tag, item.entry
        k.barrier()
        for part, exists, distance in distances:
            with k.if_(exists):
                table[part] = distance
        k.barrier()
        for j in range(len(items)):
            slot = k.local_id() + j * k.workgroup_size
            with k.if_(slot < total):
                tag = self._tags[slot]
                write(table[self._part_of(tag)] + slot, tag, self._entries[slot])
        k.barrier()

    def _pack_item(self, item: Item, voter: int) -> tuple[Value, Value]:
        """Return tag and rank of an item, packed in one register if possible.

        The rank is `NO_KEY` if the item does not exist.
        """
        k = self._k
        rank = self._tally.rank(self._part_of(item.tag), item.exists, voter)
        if self._packed:
            packed = k.select(item.exists, item.tag | (rank << _RANK_SHIFT), NO_KEY)
            return packed, packed
        return item.tag, k.select(item.exists, rank, NO_KEY)

    def _unpack_item(self, tag: Value, rank: Value) -> tuple[Value, Value]:
        if self._packed:
            return tag & ((1 << _RANK_SHIFT) - 1), rank >> _RANK_SHIFT
        return tag, rank

    def _reserve_indices(self, cursors: Value, first: Value | int) -> None:
        """Reserve indices in device memory; set each counter to the first index of its part."""
        k, tally = self._k, self._tally
        with k.range(k.local_id(), tally.size, k.workgroup_size) as loop:
            count = tally.table[loop.index]
            with k.if_(count != 0):
                tally.table[loop.index] = k.atomic_add(cursors, first + loop.index, count)

    def _reserve_slots(
        self, cursors: Value, first: Value | int
    ) -> tuple[list[tuple[Value, Value, Value]], Value]:  # fmt: skip
        """Reserve indices in device memory; set each counter to its first slot in shared memory.

        Returns (part, exists, first index - first slot) for each counter of the instance, and the
        number of slots of the workgroup.
        """
        k, tally = self._k, self._tally
        counters = []
        slots = k.constant(0, types.u32)
        for j in range(-(-tally.size // k.workgroup_size)):
            part = k.local_id() + j * k.workgroup_size
            exists = part < tally.size
            count = k.select(exists, tally.table[k.select(exists, part, 0)], 0)
            with k.if_(count != 0) as branch:
                branch.yield_(k.atomic_add(cursors, first + part, count))
            with branch.otherwise():
                branch.yield_(k.constant(0, types.u32))
            counters.append((part, exists, count, branch.results))
            slots = slots + count
        slot, total = self._scan.exclusive(slots)
        distances = []
        for part, exists, count, part_start in counters:
            with k.if_(exists):
                tally.table[part] = slot
            distances.append((part, exists, part_start - slot))
            slot = slot + count
        return distances, total

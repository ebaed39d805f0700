"""What the instances of a workgroup count together: counters in shared memory, and scans."""

from __future__ import annotations

from collections.abc import Callable

from quod.kernel import types
from quod.kernel.builder import Builder
from quod.kernel.value import Value

NOTHING = 0xFFFFFFFF
"""No key, rank or place: all of them are less."""


def clear(k: Builder, table: Value, size: int) -> None:
    """Sets `size` words of shared memory to zero; a barrier must follow."""
    with k.range(k.local_id(), size, k.workgroup_size) as loop:
        table[loop.index] = 0


class Tally:
    """Counters in shared memory that the instances of a workgroup add one to.

    One instance of a subgroup, `voter`, adds for all that hit the same counter as it does, so that
    many equal scalars are no queue for one place of memory. Callers that count several keys an
    instance choose another voter for each.
    """

    def __init__(self, k: Builder, size: int) -> None:
        self._k = k
        self.size = size
        self.table = k.shared(types.u32, size)

    def clear(self) -> None:
        clear(self._k, self.table, self.size)

    def count(self, key: Value, active: Value, voter: int) -> None:
        """Adds one to counter `key` where active. All instances of the workgroup come here."""
        self._add(key, active, voter % self._k.subgroup_size)

    def rank(self, key: Value, active: Value, voter: int) -> Value:
        """As `count`, and gives what an order of additions found there.

        The result means nothing where not active.
        """
        k, voter = self._k, voter % self._k.subgroup_size
        found, together, mask = self._add(key, active, voter)
        lower = mask & ((k.constant(1, types.u32) << k.lane_id()) - 1)
        shared = k.shuffle(found, voter) + k.emit("popcount", (lower,))
        return k.select(together, shared, found)

    def _add(self, key: Value, active: Value, voter: int) -> tuple[Value, Value, Value]:
        """What an instance's own addition found, whether the voter adds for it, and for whom."""
        k = self._k
        told = k.shuffle(k.select(active, key, NOTHING), voter)
        together = active & (key == told)
        mask = k.ballot(together)
        is_voter = k.lane_id() == voter
        amount = k.select(is_voter, k.emit("popcount", (mask,)), 1)
        with k.if_(active & (~together | is_voter)) as branch:
            branch.give(k.atomic_add(self.table, key, amount))
        with branch.otherwise():
            branch.give(k.constant(0, types.u32))
        found: Value = branch.results
        return found, together, mask


class Scan:
    """Exclusive sums over the instances of a workgroup."""

    def __init__(self, k: Builder) -> None:
        self._k = k
        self._subgroups = -(-k.workgroup_size // k.subgroup_size)
        self._sums = k.shared(types.u32, self._subgroups)

    def exclusive(self, value: Value) -> tuple[Value, Value]:
        """(the sum of the values of all instances before this one, the sum of all).

        All instances come here; it holds two barriers.
        """
        k, lane = self._k, self._k.lane_id()
        total = value
        distance = 1
        while distance < min(k.subgroup_size, k.workgroup_size):
            reaches = lane >= distance
            other = k.shuffle(total, k.select(reaches, lane - distance, lane))
            total = total + k.select(reaches, other, 0)
            distance *= 2
        last = min(k.subgroup_size, k.workgroup_size) - 1
        k.barrier()
        with k.if_(lane == last):
            self._sums[k.subgroup_id()] = total
        k.barrier()
        before, everything = total - value, k.constant(0, types.u32)
        mine = k.subgroup_id()
        for subgroup in range(self._subgroups):
            part = self._sums[subgroup]
            before = before + k.select(mine > subgroup, part, 0)
            everything = everything + part
        return before, everything

    def array(
        self, size: int, load: Callable[[Value], Value], store: Callable[[Value, Value], None]
    ) -> Value:
        """Exclusive sums of an array: ``store(i, sum of load(0) to load(i - 1))``; gives the sum.

        `load` is called for indices below `size` only.
        """
        k = self._k
        each = -(-size // k.workgroup_size)
        indices, values = [], []
        for part in range(each):
            index = k.local_id() * each + part
            inside = index < size
            value = load(k.select(inside, index, 0))
            indices.append((index, inside))
            values.append(k.select(inside, value, 0))
        own = values[0]
        for value in values[1:]:
            own = own + value
        before, total = self.exclusive(own)
        for (index, inside), value in zip(indices, values, strict=True):
            with k.if_(inside):
                store(index, before)
            before = before + value
        return total

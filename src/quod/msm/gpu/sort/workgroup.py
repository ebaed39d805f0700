"""Counters and scans in the shared memory of a workgroup."""

from __future__ import annotations

from collections.abc import Callable

from quod.kernel.builder.builder import Builder
from quod.kernel.ir import types
from quod.kernel.ir.value import Value
from quod.kernel.machine import Capability

# Values that one instance adds in a scan without shuffles.
_RUN = 16

NOTHING = 0xFFFFFFFF
"""A value above every key, rank and place."""


def clear(k: Builder, table: Value, size: int) -> None:
    """Set `size` words of shared memory to zero; a barrier must follow."""
    with k.range(k.local_id(), size, k.workgroup_size) as loop:
        table[loop.index] = 0


class Tally:
    """A histogram in shared memory.

    One lane of a subgroup, `voter`, adds for all lanes with its key, so that many equal scalars do
    not contend for one counter. Callers that count several keys an instance use a different voter
    for each. On devices with slow subgroup operations every lane adds on its own, because votes
    would take longer than the contention.
    """

    def __init__(self, k: Builder, size: int) -> None:
        self._k = k
        self.size = size
        self.table = k.shared(types.u32, size)
        self._votes = not k.machine.has(Capability.SLOW_SUBGROUPS)

    def clear(self) -> None:
        clear(self._k, self.table, self.size)

    def count(self, key: Value, active: Value, voter: int) -> None:
        """Add one to counter `key` if active. All instances of the workgroup must call this."""
        if not self._votes:
            self._add_own(key, active)
            return
        self._add(key, active, voter % self._k.subgroup_size)

    def rank(self, key: Value, active: Value, voter: int) -> Value:
        """Add one as `count` does; return the counter's value before, in some order of additions.

        The result is undefined for an instance that is not active.
        """
        if not self._votes:
            return self._add_own(key, active)
        k, voter = self._k, voter % self._k.subgroup_size
        before, shares_key, mask = self._add(key, active, voter)
        lower = mask & ((k.constant(1, types.u32) << k.lane_id()) - 1)
        shared = k.shuffle(before, voter) + k.emit("popcount", (lower,))
        return k.select(shares_key, shared, before)

    def _add_own(self, key: Value, active: Value) -> Value:
        """Add one for this instance alone; return the counter's value before."""
        k = self._k
        with k.if_(active) as branch:
            branch.give(k.atomic_add(self.table, key, 1))
        with branch.otherwise():
            branch.give(k.constant(0, types.u32))
        before: Value = branch.results
        return before

    def _add(self, key: Value, active: Value, voter: int) -> tuple[Value, Value, Value]:
        """Add one, with the voter adding for all lanes that share its key.

        Returns the counter's value before the instance's own addition, whether the voter adds for
        it, and the mask of the voter's lanes.
        """
        k = self._k
        voter_key = k.shuffle(k.select(active, key, NOTHING), voter)
        shares_key = active & (key == voter_key)
        mask = k.ballot(shares_key)
        is_voter = k.lane_id() == voter
        amount = k.select(is_voter, k.emit("popcount", (mask,)), 1)
        with k.if_(active & (~shares_key | is_voter)) as branch:
            branch.give(k.atomic_add(self.table, key, amount))
        with branch.otherwise():
            branch.give(k.constant(0, types.u32))
        before: Value = branch.results
        return before, shares_key, mask


class Scan:
    """Exclusive prefix sums over the instances of a workgroup."""

    def __init__(self, k: Builder) -> None:
        self._k = k
        self._shuffles = not k.machine.has(Capability.SLOW_SUBGROUPS)
        self._run = min(k.workgroup_size, k.subgroup_size if self._shuffles else _RUN)
        self._runs = -(-k.workgroup_size // self._run)
        self._sums = k.shared(types.u32, self._runs)
        if not self._shuffles:
            self._values = k.shared(types.u32, k.workgroup_size)

    def exclusive(self, value: Value) -> tuple[Value, Value]:
        """Return the sum of the values of all instances before this one, and the total.

        Contains barriers: all instances must call this.
        """
        if not self._shuffles:
            return self._exclusive_through_memory(value)
        k, lane = self._k, self._k.lane_id()
        total = value
        distance = 1
        while distance < self._run:
            reaches = lane >= distance
            other = k.shuffle(total, k.select(reaches, lane - distance, lane))
            total = total + k.select(reaches, other, 0)
            distance *= 2
        last = self._run - 1
        k.barrier()
        with k.if_(lane == last):
            self._sums[k.subgroup_id()] = total
        k.barrier()
        return self._with_runs_before(total - value, k.subgroup_id())

    def _with_runs_before(self, before: Value, own_run: Value) -> tuple[Value, Value]:
        """Turn a prefix sum within a run into one over the workgroup; return it and the total."""
        k = self._k
        everything = k.constant(0, types.u32)
        for run in range(self._runs):
            part = self._sums[run]
            before = before + k.select(own_run > run, part, 0)
            everything = everything + part
        return before, everything

    def _exclusive_through_memory(self, value: Value) -> tuple[Value, Value]:
        """Scan without shuffles: each of the first instances adds a run of values."""
        k, lane = self._k, self._k.local_id()
        k.barrier()
        self._values[lane] = value
        k.barrier()
        with k.if_(lane < self._runs):
            first = lane * self._run
            last = k.minimum(first + self._run, k.workgroup_size)
            with k.range(first, last, carry=k.constant(0, types.u32)) as loop:
                addend = self._values[loop.index]
                self._values[loop.index] = loop.carried
                loop.next(loop.carried + addend)
            self._sums[lane] = loop.results
        k.barrier()
        return self._with_runs_before(self._values[lane], lane // self._run)

    def array(
        self, size: int, load: Callable[[Value], Value], store: Callable[[Value, Value], None]
    ) -> Value:
        """Compute an array's prefix sums: ``store(i, load(0) + ... + load(i - 1))``.

        Calls `load` only for indices below `size`. Returns the total.
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
        part_total = values[0]
        for value in values[1:]:
            part_total = part_total + value
        before, total = self.exclusive(part_total)
        for (index, inside), value in zip(indices, values, strict=True):
            with k.if_(inside):
                store(index, before)
            before = before + value
        return total

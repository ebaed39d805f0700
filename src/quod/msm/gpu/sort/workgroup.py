"""Histograms and prefix sums in the shared memory of a workgroup."""

from __future__ import annotations

from collections.abc import Callable

from quod.kernel.builder.builder import Builder
from quod.kernel.ir import types
from quod.kernel.ir.value import Value
from quod.kernel.machine import Capability

# The number of values that one instance scans if there are no shuffles.
_RUN_LENGTH = 16

NO_KEY = 0xFFFFFFFF
"""A value above every key, rank and index."""


def clear(k: Builder, table: Value, size: int) -> None:
    """Set `size` words of shared memory to zero; a barrier must follow."""
    with k.range(k.local_id(), size, k.workgroup_size) as loop:
        table[loop.index] = 0


class Histogram:
    """A histogram in shared memory, with atomics aggregated over a subgroup.

    One lane of a subgroup, the voter, adds for all lanes with its key, so that many equal keys do
    not contend for one counter. A caller that counts several keys per instance passes a different
    voter for each, so that different lanes' keys are aggregated. On devices with slow subgroup
    operations every lane adds alone, because ballots would take longer than the contention.
    """

    def __init__(self, k: Builder, size: int) -> None:
        self._k = k
        self.size = size
        self.table = k.shared(types.u32, size)
        self._aggregates = not k.machine.has(Capability.SLOW_SUBGROUPS)

    def clear(self) -> None:
        """Set all counters to zero; a barrier must follow."""
        clear(self._k, self.table, self.size)

    def count(self, key: Value, active: Value, voter: int) -> None:
        """Add one to counter `key` if active. All instances of the workgroup must call this.

        voter: any integer; the voter is this lane modulo the subgroup size.
        """
        if not self._aggregates:
            self._add_alone(key, active)
            return
        self._add(key, active, voter % self._k.subgroup_size)

    def rank(self, key: Value, active: Value, voter: int) -> Value:
        """Add one as `count` does; return the counter's previous value, in some order of additions.

        The result is undefined for an instance that is not active.
        """
        if not self._aggregates:
            return self._add_alone(key, active)
        k, voter = self._k, voter % self._k.subgroup_size
        old_count, shares_key, key_mask = self._add(key, active, voter)
        lower_lanes = key_mask & ((k.constant(1, types.u32) << k.lane_id()) - 1)
        aggregated = k.shuffle(old_count, voter) + k.emit("popcount", (lower_lanes,))
        return k.select(shares_key, aggregated, old_count)

    def _add_alone(self, key: Value, active: Value) -> Value:
        """Add one for this instance alone; return the counter's previous value."""
        k = self._k
        with k.if_(active) as branch:
            branch.yield_(k.atomic_add(self.table, key, 1))
        with branch.otherwise():
            branch.yield_(k.constant(0, types.u32))
        old_count: Value = branch.results
        return old_count

    def _add(self, key: Value, active: Value, voter: int) -> tuple[Value, Value, Value]:
        """Add one, with the voter adding for all lanes that share its key.

        Returns the counter's previous value (0 for a lane for which the voter adds), whether the
        lane shares the voter's key, and the mask of the lanes that do.
        """
        k = self._k
        voter_key = k.shuffle(k.select(active, key, NO_KEY), voter)
        shares_key = active & (key == voter_key)
        key_mask = k.ballot(shares_key)
        is_voter = k.lane_id() == voter
        amount = k.select(is_voter, k.emit("popcount", (key_mask,)), 1)
        with k.if_(active & (~shares_key | is_voter)) as branch:
            branch.yield_(k.atomic_add(self.table, key, amount))
        with branch.otherwise():
            branch.yield_(k.constant(0, types.u32))
        old_count: Value = branch.results
        return old_count, shares_key, key_mask


class Scan:
    """Exclusive prefix sums over the instances of a workgroup."""

    def __init__(self, k: Builder) -> None:
        self._k = k
        self._shuffles = not k.machine.has(Capability.SLOW_SUBGROUPS)
        self._run_length = min(k.workgroup_size, k.subgroup_size if self._shuffles else _RUN_LENGTH)
        self._run_count = -(-k.workgroup_size // self._run_length)
        self._sums = k.shared(types.u32, self._run_count)
        if not self._shuffles:
            self._values = k.shared(types.u32, k.workgroup_size)

    def exclusive(self, value: Value) -> tuple[Value, Value]:
        """Return the sum of the values of all instances before this one, and the total.

        Contains barriers: all instances must call this.
        """
        if not self._shuffles:
            return self._exclusive_through_memory(value)
        k, lane = self._k, self._k.lane_id()
        inclusive = value
        distance = 1
        while distance < self._run_length:
            has_source = lane >= distance
            other = k.shuffle(inclusive, k.select(has_source, lane - distance, lane))
            inclusive = inclusive + k.select(has_source, other, 0)
            distance *= 2
        last = self._run_length - 1
        k.barrier()
        with k.if_(lane == last):
            self._sums[k.subgroup_id()] = inclusive
        k.barrier()
        return self._add_preceding_runs(inclusive - value, k.subgroup_id())

    def _add_preceding_runs(self, prefix: Value, own_run: Value) -> tuple[Value, Value]:
        """Turn a prefix sum within a run into the workgroup's; return it and the total."""
        k = self._k
        total = k.constant(0, types.u32)
        for run in range(self._run_count):
            run_sum = self._sums[run]
            prefix = prefix + k.select(own_run > run, run_sum, 0)
            total = total + run_sum
        return prefix, total

    def _exclusive_through_memory(self, value: Value) -> tuple[Value, Value]:
        """Scan without shuffles: instance r scans run r."""
        k, instance = self._k, self._k.local_id()
        k.barrier()
        self._values[instance] = value
        k.barrier()
        with k.if_(instance < self._run_count):
            first = instance * self._run_length
            stop = k.minimum(first + self._run_length, k.workgroup_size)
            with k.range(first, stop, carry=k.constant(0, types.u32)) as loop:
                addend = self._values[loop.index]
                self._values[loop.index] = loop.carried
                loop.next(loop.carried + addend)
            self._sums[instance] = loop.results
        k.barrier()
        return self._add_preceding_runs(self._values[instance], instance // self._run_length)

    def array(
        self, size: int, load: Callable[[Value], Value], store: Callable[[Value, Value], None]
    ) -> Value:
        """Compute an array's prefix sums: ``store(i, load(0) + ... + load(i - 1))`` for each i.

        Calls `load` only for indices below `size`. Returns the total. Contains barriers: all
        instances must call this.
        """
        k = self._k
        values_per_instance = -(-size // k.workgroup_size)
        indices, values = [], []
        for j in range(values_per_instance):
            index = k.local_id() * values_per_instance + j
            exists = index < size
            value = load(k.select(exists, index, 0))
            indices.append((index, exists))
            values.append(k.select(exists, value, 0))
        instance_total = values[0]
        for value in values[1:]:
            instance_total = instance_total + value
        prefix, total = self.exclusive(instance_total)
        for (index, exists), value in zip(indices, values, strict=True):
            with k.if_(exists):
                store(index, prefix)
            prefix = prefix + value
        return total

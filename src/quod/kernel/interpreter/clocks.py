"""Vector clocks of subgroups that synchronise at named barriers and mbarriers.

Everything that happens before an arrival at a barrier happens before the instances that wait at the
barrier continue. Instances that only arrive are not ordered after other arrivals. Copies counted by
an mbarrier belong to no instance and are visible to the instances that have waited for the
mbarrier, so an mbarrier has a clock like a subgroup. Sources: Fidge, "Timestamps in message-passing
systems that preserve the partial ordering" (1988); PTX ISA 9.0, "barrier", "mbarrier" and "Memory
Consistency Model".
"""

from __future__ import annotations

import numpy as np

from quod.kernel.interpreter.accesses import MANY, Accesses
from quod.kernel.ops.semantics import Array


class Clocks:
    """The vector clocks of one workgroup's subgroups, followed by those of its mbarriers.

    now[s]: the time of subgroup s, incremented at each barrier it arrives at.
    known[s, t]: accesses of t up to this time happen before the current ones of s. `known[s, s]`
        covers accesses of other instances in s, as subgroups arrive as a whole; an instance's own
        accesses are always ordered.
    """

    def __init__(self, lanes: int, subgroup_size: int) -> None:
        self.subgroup_of = np.arange(lanes) // subgroup_size
        count = int(self.subgroup_of[-1]) + 1
        self.now = np.ones(count, np.int32)
        self.known = np.zeros((count, count), np.int32)
        self._knowledge: dict[int, Array] = {}
        self._arrival_times: dict[int, Array] = {}
        self._completed_times: dict[int, Array] = {}
        self._waiting_subgroups: dict[int, Array] = {}
        self._phase_ends: dict[int, Array] = {}
        self._wait_times: dict[int, Array] = {}
        self._initialisations: dict[int, tuple[int, int]] = {}
        self._records: list[_Record] = []

    def come(self, number: int, lanes: Array, *, waits: bool) -> bool:
        """Record the arrival of the subgroups in a mask at a barrier.

        Returns whether each arrival is ordered after all arrivals of the barrier's previous use. If
        not, another schedule could mix the two uses.
        """
        arriving = np.zeros(len(self.now), np.bool_)
        arriving[self.subgroup_of[lanes]] = True
        arrival_times = self._arrival_times.setdefault(number, np.zeros_like(self.now))
        unknown = self._completed_times.setdefault(number, np.zeros_like(self.now)) > self.known
        np.fill_diagonal(unknown, val=False)
        arrival_times[arriving] = self.now[arriving]
        knowledge = np.where(arriving, self.now, self.known[arriving].max(axis=0))
        self._knowledge[number] = np.maximum(knowledge, self._knowledge.get(number, knowledge))
        self.now[arriving] += 1
        if waits:
            self._waiting_subgroups[number] = arriving | self._waiting_subgroups.get(
                number, arriving
            )
        return not unknown[arriving].any()

    def meet(self, number: int) -> None:
        """Complete a barrier: the waiting subgroups learn what the arrivals knew."""
        knowledge, self._completed_times[number] = (
            self._knowledge.pop(number),
            self._arrival_times.pop(number),
        )
        waited = self._waiting_subgroups.pop(number, None)
        if waited is not None:
            # This includes what the waiting subgroups knew, as they have arrived themselves.
            self.known[waited] = knowledge

    # --- mbarriers

    def begin_mbarrier(self, lane: int) -> int:
        """Add a clock for an mbarrier that an instance initialises; return its index."""
        index, subgroup = len(self.now), int(self.subgroup_of[lane])
        self._initialisations[index] = lane, int(self.now[subgroup])
        self.now = np.append(self.now, np.int32(1))
        self.known = np.pad(self.known, (0, 1))
        for table in (
            self._knowledge, self._arrival_times, self._completed_times, self._waiting_subgroups,
            self._phase_ends, self._wait_times,
        ):  # fmt: skip
            table.update({number: np.pad(row, (0, 1)) for number, row in table.items()})
        for record in self._records:
            record.add_row()
        return index

    def keep(self, record: _Record) -> None:
        """Register a record of accesses, which gets a row for each new mbarrier."""
        self._records.append(record)

    def knows(self, mbarrier: int, lanes: Array) -> bool:
        """Return whether the initialisation of an mbarrier is visible to all these instances."""
        lane, time = self._initialisations[mbarrier]
        visible = self.known[self.subgroup_of[lanes], self.subgroup_of[lane]] >= time
        return bool((visible | (lanes == lane)).all())

    def arrive(self, mbarrier: int, lanes: Array) -> bool:
        """Record the arrival of the subgroups in a mask at an mbarrier.

        Returns whether the order is safe, as in `come`, and no subgroup of the mask has arrived in
        this phase before.
        """
        # The negative numbers ~mbarrier keep mbarriers apart from named barriers.
        previous_arrivals = self._arrival_times.get(~mbarrier)
        is_first = previous_arrivals is None or not previous_arrivals[self.subgroup_of[lanes]].any()
        return self.come(~mbarrier, lanes, waits=False) and is_first

    def end_phase(self, mbarrier: int) -> bool:
        """End a phase of an mbarrier, including its copies.

        Returns whether all waits for the previous phase are ordered before this end. If not, in
        another schedule they could miss that phase and observe a later one.
        """
        no_times = np.zeros_like(self.now)
        knowledge = self._knowledge.get(~mbarrier, no_times).copy()
        waited = self._wait_times.pop(mbarrier, no_times)
        knowledge[mbarrier] = self.now[mbarrier]
        self.now[mbarrier] += 1
        self.meet(~mbarrier)
        self._phase_ends[mbarrier] = knowledge
        return bool((waited <= knowledge).all())

    def learn(self, mbarrier: int, lanes: Array) -> bool:
        """Record that the subgroups in a mask have waited for the phase that ended last.

        Returns whether they knew that the previous phase had ended. If not, in another schedule
        they could take the end of an older phase, of equal parity, for this one.
        """
        subgroups = np.unique(self.subgroup_of[lanes])
        # An mbarrier's time is the number of ended phases plus one.
        is_ordered = bool((self.known[subgroups, mbarrier] >= self.now[mbarrier] - 2).all())
        if mbarrier in self._phase_ends:
            self.known[subgroups] = np.maximum(self.known[subgroups], self._phase_ends[mbarrier])
        waited = self._wait_times.setdefault(mbarrier, np.zeros_like(self.now))
        waited[subgroups] = self.now[subgroups]
        return is_ordered


class _Record:
    """The time and instance of the last access of one kind, per subgroup and unit."""

    def __init__(self, clocks: Clocks, units: int) -> None:
        self._clocks = clocks
        self._units = units
        self._clear()
        clocks.keep(self)

    def _clear(self) -> None:
        shape = (len(self._clocks.now), self._units)
        self._times = np.zeros(shape, np.int32)  # 0: no access
        self._instances = np.zeros(shape, np.int32)
        self._is_empty = True

    def add_row(self) -> None:
        """Add a row for a new clock."""
        if self._is_empty:
            self._clear()
        else:
            self._times, self._instances = (
                np.pad(rows, ((0, 1), (0, 0))) for rows in (self._times, self._instances)
            )

    def unordered(self, units: Array, lanes: Array, *, by_itself: bool = False) -> Array:
        """Mark units with accesses by another instance, or any, not ordered before the lanes'."""
        if self._is_empty:
            return np.zeros(units.shape, np.bool_)
        known_times = self._clocks.known[self._clocks.subgroup_of[lanes]].T
        is_unordered = self._times[:, units] > known_times[:, :, None]
        if not by_itself:
            is_unordered &= self._instances[:, units] != lanes[:, None]
        unordered: Array = np.any(is_unordered, axis=0)
        return unordered

    def add(self, units: Array, lanes: Array, *, for_others: bool = False) -> None:
        clocks, instance = self._clocks, lanes[:, None]
        subgroup = np.broadcast_to(clocks.subgroup_of[instance], units.shape)
        entries = subgroup, units
        self._is_empty = False
        if for_others:
            self._instances[entries] = MANY
        else:
            # The new access replaces an earlier one that this lane made, or that is ordered before:
            # instances that learn of the new access also learn of the earlier one.
            is_alone = (self._instances[entries] == instance) | (
                self._times[entries] <= clocks.known[subgroup, subgroup]
            )
            self._instances[entries] = np.where(is_alone, instance, MANY)
            # If two lanes access one unit, the assignment above kept only the last.
            has_several = self._instances[entries] != instance
            self._instances[subgroup[has_several], units[has_several]] = MANY
        self._times[entries] = clocks.now[subgroup]

    def add_copy(self, units: Array, mbarrier: int) -> None:
        """Record the stores of a copy that an mbarrier counts."""
        self._is_empty = False
        self._times[mbarrier, units] = self._clocks.now[mbarrier]
        self._instances[mbarrier, units] = MANY

    def forget(self, units: slice | Array) -> None:
        self._times[:, units] = 0


class OrderedAccesses(Accesses):
    """The accesses of one workgroup whose subgroups use named barriers."""

    def __init__(self, clocks: Clocks, units: int) -> None:
        self._records = [_Record(clocks, units) for _ in range(4)]
        super().__init__(*self._records)
        self._clocks = clocks

    def record_copy(self, units: Array, mbarrier: int) -> None:
        """Record the start of a copy to some units, counted by an mbarrier."""
        # The copy is ordered after these accesses, so instances that know of the copy know of them.
        for record in self._records:
            record.forget(units)
        self._records[2].add_copy(units, mbarrier)

    def copied(self, units: slice) -> None:
        pass  # waiting instances learn of the copy by the mbarrier's clock

    def barrier(self, groups: Array | None, *, products_only: bool) -> None:
        if not products_only:
            self._clocks.come(0, np.ones(len(self._clocks.subgroup_of), np.bool_), waits=True)
            self._clocks.meet(0)

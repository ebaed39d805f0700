"""Vector clocks of subgroups that meet at named barriers, and the accesses that they order.

What an instance did before it came to a barrier comes before what those do who waited there, and so
does all that comes before it. Who only arrived learns nothing from the others. Sources: Fidge,
"Timestamps in message-passing systems that preserve the partial ordering" (1988); PTX ISA 9.0,
"barrier" and "Memory Consistency Model".
"""

from __future__ import annotations

import numpy as np

from quod.kernel.interpreter_accesses import MANY, Accesses
from quod.kernel.semantics import Array


class Clocks:
    """What the subgroups of one workgroup know of each other.

    The time `now[s]` of a subgroup goes on whenever it comes to a barrier. What subgroup t did up
    to its time `known[s, t]` comes before what s does now. As a subgroup comes to barriers as a
    whole, `known[s, s]` says the same of what its instances know of each other; each of them knows
    all that it did itself.
    """

    def __init__(self, lanes: int, subgroup_size: int) -> None:
        self.subgroup_of = np.arange(lanes) // subgroup_size
        count = int(self.subgroup_of[-1]) + 1
        self.now = np.ones(count, np.int32)
        self.known = np.zeros((count, count), np.int32)
        self._told: dict[int, Array] = {}
        self._came: dict[int, Array] = {}
        self._met: dict[int, Array] = {}
        self._waiting: dict[int, Array] = {}

    def come(self, number: int, lanes: Array, *, waits: bool) -> bool:
        """The subgroups of a mask come to a barrier, and tell what they know.

        Gives whether each knows that all had come who met there the time before: else, in another
        order of the subgroups, it comes again before they have.
        """
        here = np.zeros(len(self.now), np.bool_)
        here[self.subgroup_of[lanes]] = True
        came = self._came.setdefault(number, np.zeros_like(self.now))
        unknown = self._met.setdefault(number, np.zeros_like(self.now)) > self.known
        np.fill_diagonal(unknown, val=False)
        came[here] = self.now[here]
        told = np.where(here, self.now, self.known[here].max(axis=0))
        self._told[number] = np.maximum(told, self._told.get(number, told))
        self.now[here] += 1
        if waits:
            self._waiting[number] = here | self._waiting.get(number, here)
        return not unknown[here].any()

    def meet(self, number: int) -> None:
        """All have come to a barrier: those who wait there go on."""
        told, self._met[number] = self._told.pop(number), self._came.pop(number)
        waited = self._waiting.pop(number, None)
        if waited is not None:
            self.known[waited] = told  # their own knowledge is in it


class _Record:
    """The last access of one kind to each unit by each subgroup: its time, and the instance."""

    def __init__(self, clocks: Clocks, units: int) -> None:
        self._clocks = clocks
        shape = (len(clocks.now), units)
        self._time = np.zeros(shape, np.int32)  # 0 is before all
        self._who = np.zeros(shape, np.int32)
        self._is_empty = True

    def unordered(self, places: Array, lanes: Array, *, by_itself: bool = False) -> Array:
        """Which units another instance accessed, or any one, that the lanes do not know of."""
        if self._is_empty:
            return np.zeros(places.shape, np.bool_)
        known = self._clocks.known[self._clocks.subgroup_of[lanes]].T
        late = self._time[:, places] > known[:, :, None]
        if not by_itself:
            late &= self._who[:, places] != lanes[:, None]
        found: Array = np.any(late, axis=0)
        return found

    def add(self, places: Array, lanes: Array, *, for_others: bool = False) -> None:
        clocks, who = self._clocks, lanes[:, None]
        subgroup = np.broadcast_to(clocks.subgroup_of[who], places.shape)
        at = subgroup, places
        self._is_empty = False
        if for_others:
            self._who[at] = MANY
        else:
            # Who will know of this access will know of an earlier one as well.
            alone = (self._who[at] == who) | (self._time[at] <= clocks.known[subgroup, subgroup])
            self._who[at] = np.where(alone, who, MANY)
            # Two lanes at one place: the later one overwrote the earlier.
            several = self._who[at] != who
            self._who[subgroup[several], places[several]] = MANY
        self._time[at] = clocks.now[subgroup]

    def forget(self, places: slice | Array) -> None:
        self._time[:, places] = 0


class OrderedAccesses(Accesses):
    """The accesses of one workgroup whose subgroups meet at named barriers."""

    def __init__(self, clocks: Clocks, units: int) -> None:
        super().__init__(*(_Record(clocks, units) for _ in range(4)))
        self._clocks = clocks

    def barrier(self, groups: Array | None, *, products_only: bool) -> None:
        if not products_only:
            self._clocks.come(0, np.ones(len(self._clocks.subgroup_of), np.bool_), waits=True)
            self._clocks.meet(0)

"""Vector clocks of subgroups that meet at named barriers and mbarriers, and what they order.

What an instance did before it came to a barrier comes before what those do who waited there, and so
does all that comes before it. Who only arrived learns nothing from the others. Copies that an
mbarrier counts are nobody's: those know of them who have waited for it, and so the mbarrier has a
clock as a subgroup has. Sources: Fidge, "Timestamps in message-passing systems that preserve the
partial ordering" (1988); PTX ISA 9.0, "barrier", "mbarrier" and "Memory Consistency Model".
"""

from __future__ import annotations

import numpy as np

from quod.kernel.interpreter.accesses import MANY, Accesses
from quod.kernel.ops.semantics import Array


class Clocks:
    """What the subgroups of one workgroup know of each other.

    The time `now[s]` of a subgroup goes on whenever it comes to a barrier. What subgroup t did up
    to its time `known[s, t]` comes before what s does now. As a subgroup comes to barriers as a
    whole, `known[s, s]` says the same of what its instances know of each other; each of them knows
    all that it did itself. Behind the subgroups are mbarriers, as they are made.
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
        self._ended: dict[int, Array] = {}
        self._waited: dict[int, Array] = {}
        self._made: dict[int, tuple[int, int]] = {}
        self._records: list[_Record] = []

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

    # --- mbarriers

    def begin_mbarrier(self, lane: int) -> int:
        """The place of a new mbarrier, which an instance makes, among the clocks."""
        made, subgroup = len(self.now), int(self.subgroup_of[lane])
        self._made[made] = lane, int(self.now[subgroup])
        self.now = np.append(self.now, np.int32(1))
        self.known = np.pad(self.known, (0, 1))
        for kept in (
            self._told, self._came, self._met, self._waiting, self._ended, self._waited,
        ):  # fmt: skip
            kept.update({number: np.pad(row, (0, 1)) for number, row in kept.items()})
        for record in self._records:
            record.add_row()
        return made

    def keep(self, record: _Record) -> None:
        """Gives a record of accesses a row for each new mbarrier."""
        self._records.append(record)

    def knows(self, mbarrier: int, lanes: Array) -> bool:
        """Whether instances know that an mbarrier was made."""
        lane, time = self._made[mbarrier]
        known = self.known[self.subgroup_of[lanes], self.subgroup_of[lane]] >= time
        return bool((known | (lanes == lane)).all())

    def arrive(self, mbarrier: int, lanes: Array) -> bool:
        """The subgroups of a mask arrive at an mbarrier; as `come`, and for the first time in this
        phase."""
        before = self._came.get(~mbarrier)
        is_first = before is None or not before[self.subgroup_of[lanes]].any()
        return self.come(~mbarrier, lanes, waits=False) and is_first

    def end_phase(self, mbarrier: int) -> bool:
        """A phase of an mbarrier ends, with all that was copied.

        Gives whether it is known of all who waited for the phase before that they have seen its
        end: else, in another order of the subgroups, they see one that they do not mean.
        """
        nobody = np.zeros_like(self.now)
        told = self._told.get(~mbarrier, nobody).copy()
        waited = self._waited.pop(mbarrier, nobody)
        told[mbarrier] = self.now[mbarrier]
        self.now[mbarrier] += 1
        self.meet(~mbarrier)
        self._ended[mbarrier] = told
        return bool((waited <= told).all())

    def learn(self, mbarrier: int, lanes: Array) -> bool:
        """The subgroups of a mask have waited for the phase of an mbarrier that ended last.

        Gives whether they knew that the phase before has ended: else, in another order of the
        subgroups, they see the end of one before that, which looks the same.
        """
        here = np.unique(self.subgroup_of[lanes])
        # An mbarrier's time is how many of its phases have ended, and one.
        knew = bool((self.known[here, mbarrier] >= self.now[mbarrier] - 2).all())
        if mbarrier in self._ended:
            self.known[here] = np.maximum(self.known[here], self._ended[mbarrier])
        waited = self._waited.setdefault(mbarrier, np.zeros_like(self.now))
        waited[here] = self.now[here]
        return knew


class _Record:
    """The last access of one kind to each unit by each subgroup: its time, and the instance."""

    def __init__(self, clocks: Clocks, units: int) -> None:
        self._clocks = clocks
        self._units = units
        self._clear()
        clocks.keep(self)

    def _clear(self) -> None:
        shape = (len(self._clocks.now), self._units)
        self._time = np.zeros(shape, np.int32)  # 0 is before all
        self._who = np.zeros(shape, np.int32)
        self._is_empty = True

    def add_row(self) -> None:
        """A row for what is new among the clocks."""
        if self._is_empty:
            self._clear()
        else:
            self._time, self._who = (
                np.pad(rows, ((0, 1), (0, 0))) for rows in (self._time, self._who)
            )

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

    def add_copy(self, places: Array, mbarrier: int) -> None:
        """A copy that an mbarrier counts stores to the units."""
        self._is_empty = False
        self._time[mbarrier, places] = self._clocks.now[mbarrier]
        self._who[mbarrier, places] = MANY

    def forget(self, places: slice | Array) -> None:
        self._time[:, places] = 0


class OrderedAccesses(Accesses):
    """The accesses of one workgroup whose subgroups meet at named barriers."""

    def __init__(self, clocks: Clocks, units: int) -> None:
        self._records = [_Record(clocks, units) for _ in range(4)]
        super().__init__(*self._records)
        self._clocks = clocks

    def record_copy(self, places: Array, mbarrier: int) -> None:
        """A copy to some units has begun, that an mbarrier counts."""
        # Who knows of the copy knows of what came before it: whoever began it did.
        for record in self._records:
            record.forget(places)
        self._records[2].add_copy(places, mbarrier)

    def copied(self, places: slice) -> None:
        pass  # who has waited knows by its clock

    def barrier(self, groups: Array | None, *, products_only: bool) -> None:
        if not products_only:
            self._clocks.come(0, np.ones(len(self._clocks.subgroup_of), np.bool_), waits=True)
            self._clocks.meet(0)

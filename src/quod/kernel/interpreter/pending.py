"""What is under way between tiles in shared memory and products, while a kernel is interpreted."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from quod.frozen import frozen
from quod.kernel.interpreter.memory import SharedBuffer
from quod.kernel.ir.nodes import Location
from quod.kernel.ops.semantics import Array


@frozen(eq=False)
class Copy:
    """A copy on its way: what brings it, and where the kernel asked for it."""

    arrive: Callable[[], None]
    location: Location


class Mbarrier:
    """An mbarrier: how many phases have ended, and what is missing to this one's end."""

    def __init__(self, count: int, location: Location) -> None:
        self.location = location
        """Where the kernel made it."""
        self.count = self.missing = count
        """Arrivals of a phase, and those that this one lacks."""
        self.ended = self.expected = self.come = 0
        self.clock = 0
        """Its place among the clocks of a workgroup of roles."""
        self.known = self.known_to_cluster = False
        """Whether a barrier came after it was made: of the workgroup, or of the cluster."""
        self.copies: list[Copy] = []

    def settle(self) -> bool:
        """Ends the phase if all of it has come; gives whether it has."""
        if self.missing or self.come != self.expected:
            return False
        self.ended += 1
        self.missing, self.expected, self.come = self.count, 0, 0
        return True

    def lacking(self) -> str:
        """What this phase waits for, in words."""
        if self.count > 1:
            told = f"{self.missing} of {self.count} arrivals are missing, and "
        else:
            told = ""
        expected = "that were not expected" if self.missing == self.count else "expected"
        return (
            f"{told}{self.come} bytes have come of {self.expected} {expected} in phase "
            f"{self.ended} of an mbarrier"
        )

    def unseen(self) -> str:
        """What a phase that has just ended does to who waited for the one before, in words."""
        return (
            f"may end phase {self.ended - 1} of an mbarrier before all who wait for the one before "
            "have seen its end"
        )

    def unsure(self) -> str:
        """What those do who do not know which phase they have waited for, in words."""
        return (
            f"may take the end of phase {self.ended - 3} of an mbarrier for that of phase "
            f"{self.ended - 1}: it does not know that the one between has ended"
        )


@frozen(eq=False)
class Reading:
    """What products under way read, of the instances from `lane` on: elements of 16 bits of a
    workgroup's tile at the bytes `places`, and the group they are in."""

    room: SharedBuffer
    group: int
    places: Array
    lane: int
    number: int

    def overlaps(self, first: int, last: int) -> bool:
        """Whether it reads between two bytes."""
        return int(self.places.min()) < last and first < int(self.places.max()) + 2


class Tiles:
    """The barriers and products of the workgroups that run."""

    def __init__(self, warpgroups: int) -> None:
        self.barriers: dict[tuple[int, int, int], Mbarrier] = {}
        self.readings: list[Reading] = []
        self.committed: Array = np.zeros(warpgroups, np.int64)
        """Groups of products of each four subgroups."""

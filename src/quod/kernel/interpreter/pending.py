"""The interpreter's pending operations on tiles: copies, mbarriers and asynchronous products."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from quod.frozen import frozen
from quod.kernel.interpreter.memory import SharedBuffer
from quod.kernel.ir.nodes import Location
from quod.kernel.ops.semantics import Array


@frozen(eq=False)
class Copy:
    """A pending copy: the function that completes it, and where the kernel started it."""

    arrive: Callable[[], None]
    location: Location


class Mbarrier:
    """An mbarrier: the number of ended phases and the state of the current one."""

    def __init__(self, count: int, location: Location) -> None:
        self.location = location
        """The kernel's line that initialised it."""
        self.count = self.missing = count
        """The arrivals of a phase, and those still missing in the current one."""
        self.ended = self.expected = self.come = 0
        self.clock = 0
        """The index of its clock, in a workgroup with roles."""
        self.known = self.known_to_cluster = False
        """True after a barrier that followed its initialisation: of the workgroup, the cluster."""
        self.copies: list[Copy] = []

    def settle(self) -> bool:
        """End the phase if all arrivals and bytes have come; return whether it ended."""
        if self.missing or self.come != self.expected:
            return False
        self.ended += 1
        self.missing, self.expected, self.come = self.count, 0, 0
        return True

    def lacking(self) -> str:
        """Describe what the current phase lacks, for a message."""
        if self.count > 1:
            arrivals_text = f"{self.missing} of {self.count} arrivals are missing, and "
        else:
            arrivals_text = ""
        expected = "that were not expected" if self.missing == self.count else "expected"
        return (
            f"{arrivals_text}{self.come} bytes have come of {self.expected} {expected} in phase "
            f"{self.ended} of an mbarrier"
        )

    def unseen(self) -> str:
        """Describe the error of ending a phase before all waits for the previous one are done."""
        return (
            f"may end phase {self.ended - 1} of an mbarrier before all who wait for the one before "
            "have seen its end"
        )

    def unsure(self) -> str:
        """Describe the error of a wait that could confuse two phases of equal parity."""
        return (
            f"may take the end of phase {self.ended - 3} of an mbarrier for that of phase "
            f"{self.ended - 1}: it does not know that the one between has ended"
        )


@frozen(eq=False)
class Reading:
    """The reads of a pending product from a tile in shared memory.

    room: the shared array.
    group: the workgroup.
    places: byte offsets of 16-bit elements.
    lane: the first lane of the product's instances.
    number: the group of products that it belongs to.
    """

    room: SharedBuffer
    group: int
    places: Array
    lane: int
    number: int

    def overlaps(self, first: int, last: int) -> bool:
        """Return whether it may read bytes from `first` up to `last`."""
        return int(self.places.min()) < last and first < int(self.places.max()) + 2


class Tiles:
    """The mbarriers and pending products of the workgroups that run."""

    def __init__(self, warpgroups: int) -> None:
        self.barriers: dict[tuple[int, int, int], Mbarrier] = {}
        self.readings: list[Reading] = []
        self.committed: Array = np.zeros(warpgroups, np.int64)
        """The number of committed groups of products per warpgroup."""

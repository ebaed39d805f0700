"""State of asynchronous operations in the interpreter: tile copies, mbarriers, matrix products."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from quod.frozen import frozen
from quod.kernel.interpreter.memory import SharedBuffer
from quod.kernel.ir.nodes import Location
from quod.kernel.ops.semantics import Array


@frozen(eq=False)
class Copy:
    """A pending copy.

    arrive: stores the copied bytes in shared memory.
    location: the kernel's line that started it.
    """

    arrive: Callable[[], None]
    location: Location


class Mbarrier:
    """An mbarrier.

    location: the kernel's line that initialised it.
    count, missing: arrivals that a phase needs, and those still missing in the current phase.
    ended: number of completed phases.
    expected, arrived_bytes: bytes expected in the current phase, and bytes of the copies started in
        it.
    clock: index of its vector clock, if the workgroup's warps have roles (warp specialisation).
    visible_to_workgroup, known_to_cluster: whether a barrier of the workgroup, or of the cluster,
        has followed the initialisation.
    copies: the pending copies that signal it.
    """

    def __init__(self, count: int, location: Location) -> None:
        self.location = location
        self.count = self.missing = count
        self.ended = self.expected = self.arrived_bytes = 0
        self.clock = 0
        self.visible_to_workgroup = self.known_to_cluster = False
        self.copies: list[Copy] = []

    def try_end_phase(self) -> bool:
        """End the phase if no arrival is missing and its copies have the expected bytes.

        Returns whether the phase ended.
        """
        if self.missing or self.arrived_bytes != self.expected:
            return False
        self.ended += 1
        self.missing, self.expected, self.arrived_bytes = self.count, 0, 0
        return True

    def describe_missing_arrivals(self) -> str:
        """Describe the missing arrivals and bytes of the current phase, for an error message."""
        if self.count > 1:
            missing_arrivals = f"{self.missing} of {self.count} arrivals are missing, and "
        else:
            missing_arrivals = ""
        expected = "that were not expected" if self.missing == self.count else "expected"
        return (
            f"{missing_arrivals}{self.arrived_bytes} bytes have come of {self.expected} {expected} "
            "in phase "
            f"{self.ended} of an mbarrier"
        )

    def describe_early_end(self) -> str:
        """Describe the error of ending a phase while instances still wait for the previous one.

        Returns a verb phrase, which follows the op's name. `ended` counts the ended phase already.
        """
        return (
            f"may end phase {self.ended - 1} of an mbarrier before all who wait for the one before "
            "have seen its end"
        )

    def describe_ambiguous_wait(self) -> str:
        """Describe the error of a wait that could confuse two phases of equal parity.

        Returns a verb phrase, which follows the op's name.
        """
        return (
            f"may take the end of phase {self.ended - 3} of an mbarrier for that of phase "
            f"{self.ended - 1}: it does not know that the one between has ended"
        )


@frozen(eq=False)
class PendingReads:
    """The shared-memory reads of a pending matrix product.

    room: the shared array.
    group: index of the workgroup.
    places: byte offsets of the 16-bit elements that the product reads.
    lane: the first lane of the instances that compute the product.
    number: index of the product's commit group, among those of its warpgroup.
    """

    room: SharedBuffer
    group: int
    places: Array
    lane: int
    number: int

    def overlaps(self, first: int, last: int) -> bool:
        """Return whether the product may read one of the bytes `first` to `last` - 1."""
        return int(self.places.min()) < last and first < int(self.places.max()) + 2


class Tiles:
    """The mbarriers and pending matrix products of the workgroups that run.

    barriers: mbarriers by index of the shared array, workgroup and byte offset.
    committed: number of committed groups of products per warpgroup.
    """

    def __init__(self, warpgroups: int) -> None:
        self.barriers: dict[tuple[int, int, int], Mbarrier] = {}
        self.readings: list[PendingReads] = []
        self.committed: Array = np.zeros(warpgroups, np.int64)

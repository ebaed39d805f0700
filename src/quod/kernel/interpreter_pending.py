"""What is under way between tiles in shared memory and products, while a kernel is interpreted."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from quod.frozen import frozen
from quod.kernel.interpreter_memory import SharedBuffer
from quod.kernel.ir import Location
from quod.kernel.semantics import Array


@frozen(eq=False)
class Copy:
    """A copy on its way: what brings it, and where the kernel asked for it."""

    arrive: Callable[[], None]
    location: Location


class Mbarrier:
    """An mbarrier: how many phases have ended, and what is missing to this one's end."""

    def __init__(self) -> None:
        self.ended = 0
        self.expected: int | None = None
        self.come = 0
        self.known = self.known_to_cluster = False
        """Whether a barrier came after it was made: of the workgroup, or of the cluster."""
        self.copies: list[Copy] = []

    def settle(self) -> None:
        """Ends the phase if all of it has come."""
        if self.expected is not None and self.come == self.expected:
            self.ended += 1
            self.expected, self.come = None, 0


@frozen(eq=False)
class Reading:
    """What products under way read: bytes of a workgroup's tile, and the group they are in."""

    room: SharedBuffer
    group: int
    first: int
    last: int
    number: int


class Tiles:
    """The barriers and products of the workgroups that run."""

    def __init__(self, groups: int) -> None:
        self.barriers: dict[tuple[int, int, int], Mbarrier] = {}
        self.readings: list[Reading] = []
        self.committed: Array = np.zeros(groups, np.int64)
        """Groups of products of each workgroup."""

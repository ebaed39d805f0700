"""The state of workgroups that run in lockstep, and masks of their active instances."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Protocol

import numpy as np

from quod.kernel.errors import InterpreterError
from quod.kernel.interpreter.clocks import Clocks
from quod.kernel.interpreter.copies import PendingCopies
from quod.kernel.interpreter.memory import AccessSite, Buffer, Pointers
from quod.kernel.interpreter.pending import Tiles
from quod.kernel.ir.nodes import Kernel, Location, Op
from quod.kernel.ops.semantics import Array
from quod.kernel.ops.tile import WARPGROUP

Lanes = Array | Pointers
"""The values or addresses of all lanes, one per instance."""

Frame = list[Lanes]
"""The values of a running body, by slot."""


def array(lanes: Lanes) -> Array:
    """Narrow a value that is not an address to an array."""
    assert isinstance(lanes, np.ndarray)
    return lanes


class Mask:
    """The active instances."""

    __slots__ = ("_lanes", "any", "bits", "full")

    def __init__(self, bits: Array) -> None:
        count = np.count_nonzero(bits)
        self.bits = bits
        self.any = count > 0
        self.full = count == len(bits)
        self._lanes: Array | None = None

    def where(self, condition: Array) -> Mask:
        """Restrict the mask to lanes for which a condition holds."""
        return Mask(condition if self.full else self.bits & condition)

    @property
    def lanes(self) -> Array:
        """The indices of the active lanes."""
        if self._lanes is None:
            self._lanes = np.flatnonzero(self.bits)
        return self._lanes


class RoleParts(Protocol):
    """A workgroup divided into parts that run different code (warp specialisation).

    See `quod.kernel.interpreter.roles.Parts`.
    """

    @property
    def clocks(self) -> Clocks: ...

    def arrive(self, op: Op, barrier: int, expected: int, *, waits: bool) -> None: ...

    def wait_for_all(self, op: Op) -> None: ...

    def first_instance(self, op: Op) -> int: ...

    def first_value(self, op: Op, value: Array) -> Array: ...

    def wait(
        self, is_over: Callable[[], bool], deadlock_error: Callable[[], InterpreterError]
    ) -> None: ...


class Run:
    """Workgroups `first` to `first + count - 1` of a kernel while they run, one lane per instance.

    granule: bytes of a unit of race detection in shared memory.
    waiting: called where instances wait for preceding launches.
    """

    def __init__(
        self, kernel: Kernel, first: int, count: int, groups: int, buffers: list[Buffer],
        iteration_limit: int, granule: int, waiting: Callable[[], None] | None = None,
    ) -> None:  # fmt: skip
        self.granule = granule
        self.waiting = waiting
        self.parts: RoleParts | None = None
        """The parts of the workgroup, if it has roles."""
        self.buffer_by_declaration: dict[Op, int] = {}
        """The index in `buffers` of the memory that an op declares."""
        self.width = kernel.workgroup_size
        self.subgroup_size = kernel.subgroup_size
        self.lanes = self.width * count
        """The number of lanes, the instances of all `count` workgroups."""
        self.first = first
        self.iteration_limit = iteration_limit
        self.buffers = buffers
        self.copies = PendingCopies(self.lanes)
        self.tiles = Tiles(-(-self.lanes // WARPGROUP))
        self.cluster = kernel.cluster
        self.everyone = Mask(np.ones(self.lanes, np.bool_))
        lane_index = np.arange(self.lanes, dtype=np.uint32)
        self.local_id = lane_index % np.uint32(self.width)
        self.workgroup_id = lane_index // np.uint32(self.width) + np.uint32(first)
        self.cluster_rank = self.workgroup_id % np.uint32(self.cluster)
        self.num_workgroups = np.full(self.lanes, groups, np.uint32)

    @functools.cached_property
    def subgroup_start(self) -> Array:
        """The first lane of each lane's subgroup."""
        lane_index = np.arange(self.lanes)
        return lane_index - lane_index % self.width % self.subgroup_size

    @functools.cached_property
    def workgroup_end(self) -> Array:
        """The end (exclusive) of each lane's workgroup."""
        lane_index = np.arange(self.lanes)
        return lane_index - lane_index % self.width + self.width

    def place(self, location: Location) -> AccessSite:
        """Return the site of an access at a source location, for errors."""
        return AccessSite(location, self.first, self.width)

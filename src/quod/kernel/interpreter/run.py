"""What is running: some workgroups of a kernel in step, and which of their instances are active."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Protocol

import numpy as np

from quod.kernel.errors import InterpreterError
from quod.kernel.interpreter.clocks import Clocks
from quod.kernel.interpreter.copies import PendingCopies
from quod.kernel.interpreter.memory import Buffer, Place, Pointers
from quod.kernel.interpreter.pending import Tiles
from quod.kernel.ir.nodes import Kernel, Location, Op
from quod.kernel.ops.semantics import Array
from quod.kernel.ops.tile import WARPGROUP

Lanes = Array | Pointers
"""One value, or one address, an instance."""

Frame = list[Lanes]
"""The values of one body while it runs, by their slots."""


def array(lanes: Lanes) -> Array:
    """A value that is no address."""
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
        """Those of them for which a condition holds."""
        return Mask(condition if self.full else self.bits & condition)

    @property
    def lanes(self) -> Array:
        """Their indices."""
        if self._lanes is None:
            self._lanes = np.flatnonzero(self.bits)
        return self._lanes


class Divided(Protocol):
    """Parts of a workgroup that meet; see `quod.kernel.interpreter.roles.Parts`."""

    @property
    def clocks(self) -> Clocks: ...

    def come(self, op: Op, number: int, count: int, *, waits: bool) -> None: ...

    def meet_all(self, op: Op) -> None: ...

    def first_instance(self, op: Op) -> int: ...

    def agree(self, op: Op, value: Array) -> Array: ...

    def wait(self, is_over: Callable[[], bool], never: Callable[[], InterpreterError]) -> None: ...


class Run:
    """Workgroups `first` to `first + count - 1` of a kernel while they run, in one lane each
    instance. Shared memory is watched in units of `granule` bytes. `waiting` is called where
    instances wait for the launches before."""

    def __init__(
        self, kernel: Kernel, first: int, count: int, groups: int, buffers: list[Buffer],
        iteration_limit: int, granule: int, waiting: Callable[[], None] | None = None,
    ) -> None:  # fmt: skip
        self.granule = granule
        self.waiting = waiting
        self.parts: Divided | None = None
        """The instances that go ways of their own, if some do."""
        self.declared: dict[Op, int] = {}
        self.width = kernel.workgroup_size
        self.subgroup_size = kernel.subgroup_size
        self.lanes = self.width * count
        self.first = first
        self.iteration_limit = iteration_limit
        self.buffers = buffers
        self.copies = PendingCopies(self.lanes)
        self.tiles = Tiles(-(-self.lanes // WARPGROUP))
        self.cluster = kernel.cluster
        self.everyone = Mask(np.ones(self.lanes, np.bool_))
        every = np.arange(self.lanes, dtype=np.uint32)
        self.local_id = every % np.uint32(self.width)
        self.workgroup_id = every // np.uint32(self.width) + np.uint32(first)
        self.cluster_rank = self.workgroup_id % np.uint32(self.cluster)
        self.num_workgroups = np.full(self.lanes, groups, np.uint32)

    @functools.cached_property
    def subgroup_start(self) -> Array:
        """The lane in which each lane's subgroup begins."""
        every = np.arange(self.lanes)
        return every - every % self.width % self.subgroup_size

    @functools.cached_property
    def workgroup_end(self) -> Array:
        """The lane after the last one of each lane's workgroup."""
        every = np.arange(self.lanes)
        return every - every % self.width + self.width

    def place(self, location: Location) -> Place:
        """For the message of an error at that line."""
        return Place(location, self.first, self.width)

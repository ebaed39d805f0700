"""Race detection: records of shared-memory accesses that are not ordered before current ones.

If all instances of a workgroup meet at each barrier, accesses before the last barrier are
forgotten. Subgroups with named barriers need vector clocks: see `quod.kernel.interpreter.clocks`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Protocol

import numpy as np

from quod.kernel.ops.semantics import Array

NOBODY, MANY = -1, -2
"""Special values in place of an instance's index.
`NOBODY` is no instance; `MANY` is several instances, or a whole subgroup.
"""


class Record(Protocol):
    """The accesses of one kind. `units` are indices of units of shared memory, one row per lane."""

    def unordered(self, units: Array, lanes: Array, *, by_itself: bool = False) -> Array:
        """Mark the units that another instance has accessed since a barrier.

        With `by_itself`, accesses by the lane's own instance count as well.
        """

    def add(self, units: Array, lanes: Array, *, for_others: bool = False) -> None:
        """Record accesses of the lanes to the units; with `for_others`, of their subgroups."""

    def forget(self, units: slice | Array) -> None:
        """Forget the accesses to some units: they are ordered before all later accesses."""


class Accesses(ABC):
    """The recorded accesses to units of shared memory; `units` has one row per lane."""

    def __init__(self, loads: Record, products: Record, stores: Record, atomics: Record) -> None:
        self._loads, self._products = loads, products
        self._stores, self._atomics = stores, atomics

    def stored(
        self, units: Array, lanes: Array, *, by_itself: bool = False, atomically: bool = True
    ) -> Array:
        """Mark the units that another instance has stored to since a barrier.

        `by_itself` counts the lane's own stores too; `atomically` counts atomic changes too.
        """
        marks = self._stores.unordered(units, lanes, by_itself=by_itself)
        if atomically:
            marks |= self._atomics.unordered(units, lanes, by_itself=by_itself)
        return marks

    def loaded(self, units: Array, lanes: Array) -> Array:
        """Mark the units that another instance has loaded since a barrier."""
        marks = self._loads.unordered(units, lanes)
        marks |= self._products.unordered(units, lanes)
        return marks

    def record_loads(self, units: Array, lanes: Array, *, for_others: bool = False) -> None:
        """Record loads of the lanes; with `for_others`, of their subgroups."""
        self._loads.add(units, lanes, for_others=for_others)

    def record_stores(self, units: Array, lanes: Array, *, for_others: bool = False) -> None:
        """Record stores of the lanes; with `for_others`, of their subgroups."""
        self._stores.add(units, lanes, for_others=for_others)

    def record_atomics(self, units: Array, lanes: Array) -> None:
        """Record atomic changes by the lanes."""
        self._atomics.add(units, lanes)

    def record_products(self, units: Array, lanes: Array) -> None:
        """Record loads by asynchronous products of the lanes."""
        self._products.add(units, lanes, for_others=True)

    def forget_stores(self, units: slice | Array) -> None:
        """Forget the stores to some units: they are visible to all instances."""
        self._stores.forget(units)
        self._atomics.forget(units)

    def copied(self, units: slice) -> None:
        """Record that a copy to some units has been waited for."""
        self.forget_stores(units)

    @abstractmethod
    def barrier(self, groups: Array | None, *, products_only: bool) -> None:
        """Record a barrier of some workgroups, or all; `products_only` forgets only products."""


class _Record:
    """For each unit, the lane that made all accesses of one kind, or `NOBODY` or `MANY`."""

    def __init__(self, groups: int, units: int) -> None:
        self._instances = np.full((groups, units), NOBODY, np.int64)
        self._flat = self._instances.reshape(-1)
        self._is_empty = True

    def unordered(self, units: Array, lanes: Array, *, by_itself: bool = False) -> Array:
        if self._is_empty:
            return np.zeros(units.shape, np.bool_)
        instance = self._flat[units]
        marks: Array = instance != NOBODY
        if not by_itself:
            marks &= instance != lanes[:, None]
        return marks

    def add(self, units: Array, lanes: Array, *, for_others: bool = False) -> None:
        was_empty, self._is_empty = self._is_empty, False
        if for_others:
            self._flat[units] = MANY
            return
        instance = lanes[:, None]
        if was_empty:
            self._flat[units] = instance
        else:
            previous = self._flat[units]
            self._flat[units] = np.where(
                (previous == NOBODY) | (previous == instance), instance, MANY
            )
        # If two lanes access one unit, the assignment above kept only the last.
        has_several = self._flat[units] != instance
        if np.count_nonzero(has_several):
            self._flat[units[has_several]] = MANY

    def forget(self, units: slice | Array) -> None:
        self._flat[units] = NOBODY

    def forget_all(self, groups: Array | None) -> None:
        """Forget the accesses of some workgroups, or of all."""
        if self._is_empty:
            return
        if groups is None:
            self._flat.fill(NOBODY)
            self._is_empty = True
        else:
            self._instances[groups] = NOBODY


class SinceBarrier(Accesses):
    """The accesses of workgroups whose barriers synchronise all instances."""

    def __init__(self, groups: int, units: int) -> None:
        self._records = [_Record(groups, units) for _ in range(4)]
        super().__init__(*self._records)

    def barrier(self, groups: Array | None, *, products_only: bool) -> None:
        for record in self._records:
            if not products_only or record is self._products:
                record.forget_all(groups)

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
"""Values in place of an instance's index: none; several, or all of a subgroup."""


class Record(Protocol):
    """The accesses of one kind; `places` are units of shared memory, one row per lane."""

    def unordered(self, places: Array, lanes: Array, *, by_itself: bool = False) -> Array:
        """Mark the units accessed by another instance, with `by_itself` by any, since a barrier."""

    def add(self, places: Array, lanes: Array, *, for_others: bool = False) -> None:
        """Record accesses of the lanes to the units; with `for_others`, of their subgroups."""

    def forget(self, places: slice | Array) -> None:
        """Forget the accesses to some units: they are ordered before all later accesses."""


class Accesses(ABC):
    """The recorded accesses to units of shared memory; `places` has one row per lane."""

    def __init__(self, loads: Record, products: Record, stores: Record, atomics: Record) -> None:
        self._loads, self._products = loads, products
        self._stores, self._atomics = stores, atomics

    def stored(
        self, places: Array, lanes: Array, *, by_itself: bool = False, atomically: bool = True
    ) -> Array:
        """Mark the units that another instance has stored to since a barrier.

        `by_itself` counts the lane's own stores too; `atomically` counts atomic changes.
        """
        marks = self._stores.unordered(places, lanes, by_itself=by_itself)
        if atomically:
            marks |= self._atomics.unordered(places, lanes, by_itself=by_itself)
        return marks

    def loaded(self, places: Array, lanes: Array) -> Array:
        """Mark the units that another instance has loaded since a barrier."""
        marks = self._loads.unordered(places, lanes)
        marks |= self._products.unordered(places, lanes)
        return marks

    def record_loads(self, places: Array, lanes: Array, *, for_others: bool = False) -> None:
        """Record loads of the lanes; with `for_others`, of their subgroups."""
        self._loads.add(places, lanes, for_others=for_others)

    def record_stores(self, places: Array, lanes: Array, *, for_others: bool = False) -> None:
        """Record stores of the lanes; with `for_others`, of their subgroups."""
        self._stores.add(places, lanes, for_others=for_others)

    def record_atomics(self, places: Array, lanes: Array) -> None:
        """Record atomic changes by the lanes."""
        self._atomics.add(places, lanes)

    def record_products(self, places: Array, lanes: Array) -> None:
        """Record loads by asynchronous products of the lanes."""
        self._products.add(places, lanes, for_others=True)

    def forget_stores(self, places: slice | Array) -> None:
        """Forget the stores to some units: they are visible to all instances."""
        self._stores.forget(places)
        self._atomics.forget(places)

    def copied(self, places: slice) -> None:
        """Record that a copy to some units has been waited for."""
        self.forget_stores(places)

    @abstractmethod
    def barrier(self, groups: Array | None, *, products_only: bool) -> None:
        """Record a barrier of some workgroups, or all; `products_only` orders products alone."""


class _Record:
    """For each unit, the instance behind all accesses of one kind, or `NOBODY` or `MANY`."""

    def __init__(self, groups: int, units: int) -> None:
        self._who = np.full((groups, units), NOBODY, np.int64)
        self._flat = self._who.reshape(-1)
        self._is_empty = True

    def unordered(self, places: Array, lanes: Array, *, by_itself: bool = False) -> Array:
        if self._is_empty:
            return np.zeros(places.shape, np.bool_)
        who = self._flat[places]
        marks: Array = who != NOBODY
        if not by_itself:
            marks &= who != lanes[:, None]
        return marks

    def add(self, places: Array, lanes: Array, *, for_others: bool = False) -> None:
        was_empty, self._is_empty = self._is_empty, False
        if for_others:
            self._flat[places] = MANY
            return
        who = lanes[:, None]
        if was_empty:
            self._flat[places] = who
        else:
            before = self._flat[places]
            self._flat[places] = np.where((before == NOBODY) | (before == who), who, MANY)
        # If two lanes access one unit, the assignment above kept only the last.
        several = self._flat[places] != who
        if np.count_nonzero(several):
            self._flat[places[several]] = MANY

    def forget(self, places: slice | Array) -> None:
        self._flat[places] = NOBODY

    def forget_all(self, groups: Array | None) -> None:
        """Forget the accesses of some workgroups, or of all."""
        if self._is_empty:
            return
        if groups is None:
            self._flat.fill(NOBODY)
            self._is_empty = True
        else:
            self._who[groups] = NOBODY


class SinceBarrier(Accesses):
    """The accesses of workgroups whose barriers synchronise all instances."""

    def __init__(self, groups: int, units: int) -> None:
        self._records = [_Record(groups, units) for _ in range(4)]
        super().__init__(*self._records)

    def barrier(self, groups: Array | None, *, products_only: bool) -> None:
        for record in self._records:
            if not products_only or record is self._products:
                record.forget_all(groups)

"""Who touched what in shared memory: what of it is not ordered before what is done now.

Where all instances of a workgroup meet at each barrier, what was done before the last one is
forgotten. Subgroups that meet at named barriers need more: see `quod.kernel.interpreter.clocks`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Protocol

import numpy as np

from quod.kernel.ops.semantics import Array

NOBODY, MANY = -1, -2
"""In the place of an instance: none, and several or all of a subgroup."""


class Record(Protocol):
    """The accesses of one kind. `places` are units of shared memory, a row for each of `lanes`."""

    def unordered(self, places: Array, lanes: Array, *, by_itself: bool = False) -> Array:
        """Which units another instance accessed, or with `by_itself` any one, without a barrier
        since."""

    def add(self, places: Array, lanes: Array, *, for_others: bool = False) -> None:
        """The lanes access the units, or with `for_others` their subgroups do."""

    def forget(self, places: slice | Array) -> None:
        """All instances know of the accesses to some units."""


class Accesses(ABC):
    """What was done to units of shared memory. `places` are units, a row for each of `lanes`."""

    def __init__(self, loads: Record, products: Record, stores: Record, atomics: Record) -> None:
        self._loads, self._products = loads, products
        self._stores, self._atomics = stores, atomics

    def stored(
        self, places: Array, lanes: Array, *, by_itself: bool = False, atomically: bool = True
    ) -> Array:
        """Which of the units another instance stored to, or with `by_itself` any one, without a
        barrier since; what was changed atomically counts if `atomically`."""
        found = self._stores.unordered(places, lanes, by_itself=by_itself)
        if atomically:
            found |= self._atomics.unordered(places, lanes, by_itself=by_itself)
        return found

    def loaded(self, places: Array, lanes: Array) -> Array:
        """Which of the units another instance loaded, without a barrier since."""
        found = self._loads.unordered(places, lanes)
        found |= self._products.unordered(places, lanes)
        return found

    def record_loads(self, places: Array, lanes: Array, *, for_others: bool = False) -> None:
        """The lanes load the units, or with `for_others` their subgroups do."""
        self._loads.add(places, lanes, for_others=for_others)

    def record_stores(self, places: Array, lanes: Array, *, for_others: bool = False) -> None:
        """The lanes store to the units, or with `for_others` their subgroups do."""
        self._stores.add(places, lanes, for_others=for_others)

    def record_atomics(self, places: Array, lanes: Array) -> None:
        """The lanes change the units atomically."""
        self._atomics.add(places, lanes)

    def record_products(self, places: Array, lanes: Array) -> None:
        """Products of the instances beside the lanes load the units."""
        self._products.add(places, lanes, for_others=True)

    def forget_stores(self, places: slice | Array) -> None:
        """All instances know what was stored to some units."""
        self._stores.forget(places)
        self._atomics.forget(places)

    def copied(self, places: slice) -> None:
        """What a copy brought to some units was waited for."""
        self.forget_stores(places)

    @abstractmethod
    def barrier(self, groups: Array | None, *, products_only: bool) -> None:
        """All instances of all workgroups, or of some, meet; or they know what products read."""


class _Record:
    """The instance that made all accesses of one kind to each unit, if one did."""

    def __init__(self, groups: int, units: int) -> None:
        self._who = np.full((groups, units), NOBODY, np.int64)
        self._flat = self._who.reshape(-1)
        self._is_empty = True

    def unordered(self, places: Array, lanes: Array, *, by_itself: bool = False) -> Array:
        if self._is_empty:
            return np.zeros(places.shape, np.bool_)
        who = self._flat[places]
        found: Array = who != NOBODY
        if not by_itself:
            found &= who != lanes[:, None]
        return found

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
        # Two lanes at one place: the later one overwrote the earlier.
        several = self._flat[places] != who
        if np.count_nonzero(several):
            self._flat[places[several]] = MANY

    def forget(self, places: slice | Array) -> None:
        self._flat[places] = NOBODY

    def forget_all(self, groups: Array | None) -> None:
        """Forgets the accesses of some workgroups, or of all."""
        if self._is_empty:
            return
        if groups is None:
            self._flat.fill(NOBODY)
            self._is_empty = True
        else:
            self._who[groups] = NOBODY


class SinceBarrier(Accesses):
    """The accesses of workgroups of which all instances meet at each barrier."""

    def __init__(self, groups: int, units: int) -> None:
        self._records = [_Record(groups, units) for _ in range(4)]
        super().__init__(*self._records)

    def barrier(self, groups: Array | None, *, products_only: bool) -> None:
        for record in self._records:
            if not products_only or record is self._products:
                record.forget_all(groups)

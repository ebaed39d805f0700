"""Who touched what in shared memory: what of it is not ordered before what is done now.

Where all instances of a workgroup meet at each barrier, what was done before the last one is
forgotten. Subgroups that meet at named barriers need more: see `quod.kernel.interpreter_clocks`.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from quod.kernel.semantics import Array

NOBODY, MANY = -1, -2
"""In the place of an instance: none, and several or all of a subgroup."""
_ATOMIC, _PRODUCT = -3, -4


class Accesses(Protocol):
    """What was done to units of shared memory. `places` are units, a row for each of `lanes`."""

    def stored(
        self, places: Array, lanes: Array, *, by_itself: bool = False, atomically: bool = True
    ) -> Array:
        """Which of the units another instance stored to, or with `by_itself` any one, without a
        barrier since; what was changed atomically counts if `atomically`."""

    def loaded(self, places: Array, lanes: Array) -> Array:
        """Which of the units another instance loaded, without a barrier since."""

    def record_loads(self, places: Array, lanes: Array, *, for_others: bool = False) -> None:
        """The lanes load the units, or with `for_others` their subgroups do."""

    def record_stores(self, places: Array, lanes: Array, *, for_others: bool = False) -> None:
        """The lanes store to the units, or with `for_others` their subgroups do."""

    def record_atomics(self, places: Array, lanes: Array) -> None:
        """The lanes change the units atomically."""

    def record_products(self, places: Array, lanes: Array) -> None:
        """Products of the instances beside the lanes load the units."""

    def forget_stores(self, places: slice | Array) -> None:
        """All instances know what was stored to some units."""

    def barrier(self, groups: Array | None, *, products_only: bool) -> None:
        """All instances of all workgroups, or of some, meet; or they know what products read."""


class SinceBarrier:
    """The accesses of workgroups of which all instances meet at each barrier."""

    def __init__(self, groups: int, units: int) -> None:
        self._shape = (groups, units)
        self._writer = np.full(groups * units, NOBODY, np.int64)
        self._reader = np.full(groups * units, NOBODY, np.int64)

    def stored(
        self, places: Array, lanes: Array, *, by_itself: bool = False, atomically: bool = True
    ) -> Array:
        writer = self._writer[places]
        found: Array = writer != NOBODY
        if not by_itself:
            found &= writer != lanes[:, None]
        if not atomically:
            found &= writer != _ATOMIC
        return found

    def loaded(self, places: Array, lanes: Array) -> Array:
        reader = self._reader[places]
        found: Array = (reader != NOBODY) & (reader != lanes[:, None])
        return found

    def record_loads(self, places: Array, lanes: Array, *, for_others: bool = False) -> None:
        if for_others:
            self._reader[places] = MANY
            return
        known, who = self._reader[places], lanes[:, None]
        self._reader[places] = np.where((known == NOBODY) | (known == who), who, MANY)
        # Two lanes of this very load at one place: the later one overwrote the earlier.
        several = (self._reader[places] != who) | (known == MANY)
        self._reader[places[several]] = MANY

    def record_stores(self, places: Array, lanes: Array, *, for_others: bool = False) -> None:
        self._writer[places] = MANY if for_others else lanes[:, None]

    def record_atomics(self, places: Array, lanes: Array) -> None:
        self._writer[places] = _ATOMIC

    def record_products(self, places: Array, lanes: Array) -> None:
        self._reader[places] = _PRODUCT

    def forget_stores(self, places: slice | Array) -> None:
        self._writer[places] = NOBODY

    def barrier(self, groups: Array | None, *, products_only: bool) -> None:
        if products_only:
            rows = slice(None) if groups is None else groups
            readers = self._reader.reshape(self._shape)
            readers[rows] = np.where(readers[rows] == _PRODUCT, NOBODY, readers[rows])
            return
        for record in (self._writer, self._reader):
            if groups is None:
                record.fill(NOBODY)
            else:
                record.reshape(self._shape)[groups] = NOBODY

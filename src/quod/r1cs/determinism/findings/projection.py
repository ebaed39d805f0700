"""Projection: the constraints that limit some signals of a system, without the others.

A wire that occurs in a single constraint, which has a solution for it whatever the values of the
other wires, limits nothing: without both, the other wires have the same values in witnesses.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from heapq import heapify, heappop, heappush

import numpy as np

from quod.r1cs.determinism.rows import Rows


class Occurrences:
    """The number of rows in which each wire of a system occurs, and the sum of their numbers."""

    def __init__(self, rows: Rows) -> None:
        keys = []
        for matrix in rows.matrices:
            ends = np.asarray([0, *matrix.ends], np.int64)
            row = np.repeat(np.arange(rows.count), ends[1:] - ends[:-1])
            keys.append(row * rows.wires + np.asarray(matrix.wires, np.int64))
        row, wire = np.divmod(np.unique(np.concatenate(keys)), rows.wires)
        self.counts: list[int] = np.bincount(wire, minlength=rows.wires).tolist()
        sums = np.zeros(rows.wires, np.int64)
        np.add.at(sums, wire, row)
        self.sums: list[int] = sums.tolist()


class Projection:
    """The constraints of a system that limit some wires.

    counts: the number of remaining rows in which each wire occurs.
    removed: the wire for which each removed row has a solution.
    """

    def __init__(
        self, rows: Rows, occurrences: Occurrences, kept: Collection[int],
        first: Collection[int] = (), spared: Collection[int] = (),
    ) -> None:  # fmt: skip
        """Remove wires that are not `kept`, with their constraints.

        first: wires that are removed before others.
        spared: wires whose last constraint remains.
        """
        self._rows, self._kept, self._spared = rows, frozenset(kept), frozenset(spared)
        self._first = frozenset(first)
        self.counts, self._sums = occurrences.counts.copy(), occurrences.sums.copy()
        self.removed: dict[int, int] = {}
        # Wires that become removable with another one; see `_remove_zero_test`.
        self._waiting: dict[int, int] = {}
        self._queue = [
            self._key(wire)
            for wire, count in enumerate(self.counts)
            if count == 1 and wire and wire not in self._kept
        ]
        heapify(self._queue)
        while self._queue:
            wire = abs(heappop(self._queue)[1])
            if self.counts[wire] != 1:
                continue
            row = self._sums[wire]
            if not self._is_spared(row):
                if self._has_solution(row, wire):
                    self._remove(row, wire)
                else:
                    self._remove_zero_test(row, wire)

    def _key(self, wire: int) -> tuple[bool, int]:
        """Return a sort key: a circuit computes a wire from others with lower numbers."""
        return wire not in self._first, -wire

    def _is_spared(self, row: int) -> bool:
        return bool(self._spared) and any(
            wire in self._spared and self.counts[wire] == 1 for wire in self._rows.wires_of(row)
        )

    def _has_solution(self, row: int, wire: int) -> bool:
        """Return whether a row has a solution for a wire whatever the other wires are."""
        prime = self._rows.prime
        a, b, c = (self._rows.side(matrix, row) for matrix in range(3))
        if wire not in a[0] and wire not in b[0]:
            return list(c[0]).count(wire) == 1 and c[1][c[0].index(wire)] % prime != 0
        for factor, other in ((a, b), (b, a)):
            # A constant factor makes the row linear.
            if not any(factor[0]) and sum(factor[1]) % prime and wire not in c[0]:
                wires, coefficients = other
                return list(wires).count(wire) == 1 and coefficients[wires.index(wire)] % prime != 0
        return False

    def _remove(self, row: int, wire: int) -> None:
        self.removed[row] = wire
        for each in self._rows.wires_of(row):
            self.counts[each] -= 1
            self._sums[each] -= row
            if self.counts[each] == 1 and each not in self._kept:
                heappush(self._queue, self._key(each))
            elif self.counts[each] == 2 and each in self._waiting:
                heappush(self._queue, self._key(self._waiting.pop(each)))

    def _remove_zero_test(self, row: int, inverse: int) -> None:
        """Remove X·inverse = 1 - flag and X·flag = 0, which have a solution for every X."""
        for flag in self._flags(row, inverse):
            if self.counts[flag] != 2:
                self._waiting[flag] = inverse
                continue
            other = self._sums[flag] - row
            first, second = self._factors(row, inverse), self._factors(other, flag)
            if first and second and not any(self._rows.side(2, other)[1]):
                if _is_multiple(first, second, self._rows.prime):
                    self._remove(other, flag)
                    self._remove(row, inverse)
                    return

    def _flags(self, row: int, inverse: int) -> list[int]:
        """Return the wires of C that may be flags, if the inverse is a factor by itself."""
        if (factor := self._factors(row, inverse)) is None:
            return []
        wires = self._rows.side(2, row)[0]
        if inverse in wires:
            return []
        return [
            wire
            for wire in wires
            if wire and wire not in self._kept and wire not in factor and wires.count(wire) == 1
        ]

    def _factors(self, row: int, wire: int) -> dict[int, int] | None:
        """Return the other factor of a row in which a wire is one factor; None if it is not."""
        a, b = self._rows.side(0, row), self._rows.side(1, row)
        for factor, other in ((a, b), (b, a)):
            if list(factor[0]) == [wire] and wire not in other[0]:
                return _terms(*other, self._rows.prime)
        return None


def _terms(wires: Sequence[int], coefficients: Sequence[int], prime: int) -> dict[int, int]:
    sums: dict[int, int] = {}
    for wire, k in zip(wires, coefficients):
        sums[wire] = (sums.get(wire, 0) + k) % prime
    return {wire: k for wire, k in sums.items() if k}


def _is_multiple(first: dict[int, int], second: dict[int, int], prime: int) -> bool:
    """Return whether one combination is a multiple of another one."""
    if not first or first.keys() != second.keys():
        return False
    lead = next(iter(first))
    return all(
        (first[wire] * second[lead] - second[wire] * first[lead]) % prime == 0 for wire in first
    )

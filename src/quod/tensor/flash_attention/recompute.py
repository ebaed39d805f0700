"""Recompute sums of attention that are NaN over the unmasked pairs of queries and keys.

Matrix units multiply whole tiles. A weight of 0 masks a finite line, but 0 * NaN and 0 * infinity
are NaN. Such lines are rare, so the main loops do not handle them: at its end a kernel checks its
sums, and recomputes those that are NaN without matrix units and masked pairs. A sum that is still
NaN then has an unmasked NaN.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from functools import reduce

from quod.frozen import frozen
from quod.kernel import Builder, Value, f32, u32, u64
from quod.kernel.ir.types import Type
from quod.tensor.accesses import Accesses
from quod.tensor.matmul.mma_fragments import QUAD

_TOGETHER = 8
"""Elements of a line in one load; the size of a head is a multiple of it."""

Blocks = Sequence[tuple[Value, ...]]
"""Sums of an instance: for every eight elements of a line, two elements of two rows each."""


@frozen(eq=False)
class RowPairs:
    """The unmasked pairs of a row.

    there: Whether the row exists.
    count: The number of pairs.
    pair: The weight of a pair by its index, and the line that it weighs.
    """

    there: Value
    count: Value
    pair: Callable[[Value], tuple[Value, Value]]


class PlainSums:
    """Sums of weighted lines, for the fragment of a row that matrix units give an instance.

    The fragment has two of every eight elements.
    """

    def __init__(self, k: Builder, element: Type, size: Value, lane: Value) -> None:
        self._k, self._size, self._lane = k, size, lane
        self._several = Accesses(k, element, _TOGETHER)
        self._two = Accesses(k, element, 2)

    def line(self, head: Value, row: Value) -> Value:
        """Return the pointer to a line of a head."""
        return self._k.pointer_add(head.cast(u32), row.cast(u64) * (self._size >> 1).cast(u64))

    def product(self, left: Value, right: Value) -> Value:
        """Return the product of two lines."""
        k = self._k
        zero = k.constant(0.0, f32)
        with k.range(k.constant(0, u32), self._size // _TOGETHER, carry=zero) as loop:
            total = loop.carried
            pairs = zip(*(self._several.load(x, loop.index) for x in (left, right)), strict=True)
            for a, b in pairs:
                total = k.fma(a, b, total)
            loop.next(total)
        result: Value = loop.results
        return result

    def corrected(
        self, sums: Sequence[Value], rows: Sequence[RowPairs]
    ) -> list[Value]:  # fmt: skip
        """Return the sums of two rows, with NaN recomputed from unmasked pairs.

        Sums have two elements of each row in turn.
        """
        results = list(sums)
        for half, row in enumerate(rows):
            indices = [at for at in range(len(results)) if at // 2 % 2 == half]
            sums_of_row = self._of_row([results[at] for at in indices], row)
            for at, value in zip(indices, sums_of_row, strict=True):
                results[at] = value
        return results

    def _of_row(self, sums: Sequence[Value], row: RowPairs) -> list[Value]:
        k = self._k
        total = reduce(operator.add, sums)
        with k.if_(row.there & (total != total)) as branch:
            zeros = [k.constant(0.0, f32)] * len(sums)
            with k.range(k.constant(0, u32), row.count, carry=zeros) as loop:
                weight, line = row.pair(loop.index)
                terms = zip(self._elements(line, len(sums)), loop.carried, strict=True)
                loop.next([k.fma(weight, value, before) for value, before in terms])
            again = zip(sums, loop.results, strict=True)
            branch.give([k.select(old != old, new, old) for old, new in again])
        with branch.otherwise():
            branch.give(list(sums))
        results: list[Value] = branch.results
        return results

    def _elements(self, line: Value, count: int) -> list[Value]:
        """Load the instance's elements of a line; indices beyond its end are clamped."""
        last = (self._size >> 1) - 1
        lane = self._lane & (QUAD - 1)
        return [
            value
            for word in range(count // 2)
            for value in self._two.load(line, self._k.minimum(lane + QUAD * word, last))
        ]


def flat(blocks: Blocks) -> list[Value]:
    """Flatten blocks to a list of sums."""
    return [value for block in blocks for value in block]


def in_blocks(sums: Sequence[Value]) -> list[tuple[Value, ...]]:
    """Group a list of sums into blocks; inverse of `flat`."""
    return [tuple(sums[at : at + 4]) for at in range(0, len(sums), 4)]

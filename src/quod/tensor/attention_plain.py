"""Sums that came out NaN, taken again over the pairs of queries and keys that count alone.

Matrix units multiply whole tiles. A weight of 0 masks a line that is finite, but 0 * NaN and 0 *
infinity are NaN. Such lines are rare, so the loops stay as they are: a kernel looks at its sums
once, at its end, and computes those that are NaN again, without matrix units. What is NaN then sees
a NaN itself.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from functools import reduce

from quod.frozen import frozen
from quod.kernel import Builder, Value, f32, u32, u64
from quod.kernel.types import Type
from quod.tensor.accesses import Accesses
from quod.tensor.quads import QUAD

_TOGETHER = 8
"""Elements of a line that are read together; the size of a head is a multiple of them."""

Blocks = Sequence[tuple[Value, ...]]
"""Of two rows two elements each, of every eight elements."""


@frozen(eq=False)
class RowPairs:
    """The pairs of a row that count: whether the row is `there`, how many pairs it has, and of each
    its weight and the line that it weighs."""

    there: Value
    count: Value
    pair: Callable[[Value], tuple[Value, Value]]


class PlainSums:
    """Sums of weighted lines for two elements of every eight, which an instance of matrix units has
    of a row."""

    def __init__(self, k: Builder, element: Type, size: Value, lane: Value) -> None:
        self._k, self._size, self._lane = k, size, lane
        self._several = Accesses(k, element, _TOGETHER)
        self._two = Accesses(k, element, 2)

    def line(self, head: Value, row: Value) -> Value:
        """A line of a head."""
        return self._k.pointer_add(head.cast(u32), row.cast(u64) * (self._size >> 1).cast(u64))

    def product(self, one: Value, other: Value) -> Value:
        """The product of two lines."""
        k = self._k
        zero = k.constant(0.0, f32)
        with k.range(k.constant(0, u32), self._size // _TOGETHER, carry=zero) as loop:
            total = loop.carried
            pairs = zip(*(self._several.load(x, loop.index) for x in (one, other)), strict=True)
            for a, b in pairs:
                total = k.fma(a, b, total)
            loop.next(total)
        result: Value = loop.results
        return result

    def corrected(
        self, sums: Sequence[Value], rows: Sequence[RowPairs]
    ) -> list[Value]:  # fmt: skip
        """Sums of two rows, two elements of each in turn; where they are NaN, those of the pairs
        that count."""
        found = list(sums)
        for half, row in enumerate(rows):
            own = [at for at in range(len(found)) if at // 2 % 2 == half]
            made = self._of_row([found[at] for at in own], row)
            for at, value in zip(own, made, strict=True):
                found[at] = value
        return found

    def _of_row(self, sums: Sequence[Value], row: RowPairs) -> list[Value]:
        k = self._k
        total = reduce(operator.add, sums)
        with k.if_(row.there & (total != total)) as branch:
            zeros = [k.constant(0.0, f32)] * len(sums)
            with k.range(k.constant(0, u32), row.count, carry=zeros) as loop:
                weight, line = row.pair(loop.index)
                terms = zip(self._own(line, len(sums)), loop.carried, strict=True)
                loop.next([k.fma(weight, value, before) for value, before in terms])
            again = zip(sums, loop.results, strict=True)
            branch.give([k.select(old != old, new, old) for old, new in again])
        with branch.otherwise():
            branch.give(list(sums))
        results: list[Value] = branch.results
        return results

    def _own(self, line: Value, count: int) -> list[Value]:
        """The instance's elements of a line; beyond its end they are the last ones."""
        last = (self._size >> 1) - 1
        own = self._lane & (QUAD - 1)
        return [
            value
            for word in range(count // 2)
            for value in self._two.load(line, self._k.minimum(own + QUAD * word, last))
        ]


def flat(blocks: Blocks) -> list[Value]:
    """The sums of blocks after each other."""
    return [value for block in blocks for value in block]


def in_blocks(sums: Sequence[Value]) -> list[tuple[Value, ...]]:
    """The blocks of which `sums` are."""
    return [tuple(sums[at : at + 4]) for at in range(0, len(sums), 4)]

"""Recompute sums of attention that are NaN over the unmasked pairs of queries and keys.

Matrix units multiply whole tiles. A weight of 0 masks a finite line, but 0 * NaN and 0 * infinity
are NaN. Such lines are rare, so the main loops do not handle them. Instead, at its end a kernel
recomputes each sum that is NaN, without matrix units and without the masked pairs. If the sum is
still NaN, an unmasked operand is NaN.
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

_LOAD_ELEMENTS = 8
"""Elements of a line in one load; the size of a head is a multiple of it."""

Blocks = Sequence[tuple[Value, ...]]
"""An instance's accumulators: for every eight elements of a line, two elements of two rows each."""


@frozen(eq=False)
class RowPairs:
    """The unmasked pairs of a row.

    is_recomputed: Whether NaN sums of the row are to be recomputed.
    count: The number of pairs.
    pair: Given the index of a pair, returns its weight and the pointer to its line.
    """

    is_recomputed: Value
    count: Value
    pair: Callable[[Value], tuple[Value, Value]]


class PlainSums:
    """Sums of weighted lines, computed without matrix units.

    An instance sums two of every eight elements, the fragment of a row that it has in an MMA
    accumulator.
    """

    def __init__(self, k: Builder, element: Type, size: Value, lane: Value) -> None:
        self._k, self._size, self._lane = k, size, lane
        self._wide_accesses = Accesses(k, element, _LOAD_ELEMENTS)
        self._pair_accesses = Accesses(k, element, 2)

    def line(self, head: Value, row: Value) -> Value:
        """Return the pointer to a line of a head: row `row` of its matrix."""
        return self._k.pointer_add(head.cast(u32), row.cast(u64) * (self._size >> 1).cast(u64))

    def product(self, left: Value, right: Value) -> Value:
        """Return the inner product of two lines."""
        k = self._k
        zero = k.constant(0.0, f32)
        with k.range(k.constant(0, u32), self._size // _LOAD_ELEMENTS, carry=zero) as loop:
            total = loop.carried
            pairs = zip(
                *(self._wide_accesses.load(x, loop.index) for x in (left, right)), strict=True
            )
            for a, b in pairs:
                total = k.fma(a, b, total)
            loop.next(total)
        result: Value = loop.results
        return result

    def corrected(
        self, sums: Sequence[Value], rows: Sequence[RowPairs]
    ) -> list[Value]:  # fmt: skip
        """Return the sums of two rows, with NaN recomputed from unmasked pairs.

        Elements of the two rows alternate in `sums` in pairs, as in an MMA accumulator.
        """
        results = list(sums)
        for row_index, row in enumerate(rows):
            indices = [index for index in range(len(results)) if index // 2 % 2 == row_index]
            sums_of_row = self._recompute_row([results[index] for index in indices], row)
            for index, value in zip(indices, sums_of_row, strict=True):
                results[index] = value
        return results

    def _recompute_row(self, sums: Sequence[Value], row: RowPairs) -> list[Value]:
        """Return a row's sums; those that are NaN are computed again if the row allows it."""
        k = self._k
        total = reduce(operator.add, sums)
        with k.if_(row.is_recomputed & (total != total)) as branch:
            zeros = [k.constant(0.0, f32)] * len(sums)
            with k.range(k.constant(0, u32), row.count, carry=zeros) as loop:
                weight, line = row.pair(loop.index)
                terms = zip(self._elements(line, len(sums)), loop.carried, strict=True)
                loop.next([k.fma(weight, value, partial_sum) for value, partial_sum in terms])
            sum_pairs = zip(sums, loop.results, strict=True)
            branch.yield_([k.select(old != old, new, old) for old, new in sum_pairs])
        with branch.otherwise():
            branch.yield_(list(sums))
        results: list[Value] = branch.results
        return results

    def _elements(self, line: Value, count: int) -> list[Value]:
        """Load the instance's elements of a line; indices beyond its end are clamped."""
        last_word = (self._size >> 1) - 1
        lane = self._lane & (QUAD - 1)
        return [
            value
            for word in range(count // 2)
            for value in self._pair_accesses.load(
                line, self._k.minimum(lane + QUAD * word, last_word)
            )
        ]


def flat(blocks: Blocks) -> list[Value]:
    """Flatten blocks to a list of sums."""
    return [value for block in blocks for value in block]


def in_blocks(sums: Sequence[Value]) -> list[tuple[Value, ...]]:
    """Group a list of sums into blocks; inverse of `flat`."""
    return [tuple(sums[start : start + 4]) for start in range(0, len(sums), 4)]

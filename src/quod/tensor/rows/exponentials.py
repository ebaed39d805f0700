"""The exponentials of a row, which softmax and the cross-entropy use."""

from __future__ import annotations

from quod.kernel import Builder, Value, f32
from quod.tensor.accesses import Values
from quod.tensor.rows.row import LOG2_E, Access, Row, masked_terms, summed

LEAST = -3.4028234663852886e38
"""The least finite f32: WGSL has no infinity."""


class Powers:
    """exp(x - top) of a row's elements, with `top` the greatest of them, and their sum `total`.

    If a row is not kept in registers, one pass over it computes both: the sum is rescaled whenever
    a greater element occurs (Milakov and Gimelshein, Online normalizer calculation for softmax,
    2018).
    """

    def __init__(self, k: Builder, row: Row, source: Value, element: Value | None = None) -> None:
        """Reduce the row at `source`; all instances have loaded `element` of it."""
        self._k = k
        least, zero = k.constant(LEAST, f32), k.constant(0.0, f32)
        if element is not None:
            least = k.maximum(element, least)
        if row.single_step:
            (lane_top,) = row.fold(
                source, (least,), lambda accesses, carried: (_highest(k, accesses, carried[0]),)
            )
            self.top = row.combined(lane_top, k.maximum)
            (total,) = row.fold(
                source, (zero,), lambda accesses, carried: (self._sum(accesses, carried[0]),)
            )
        else:
            lane_top, total = row.fold(source, (least, zero), self._top_and_sum)
            self.top = row.combined(lane_top, k.maximum)
            total = total * self.of(lane_top)
        self.total = row.total(total)

    def of(self, value: Value, top: Value | None = None) -> Value:
        """Return exp(value - top)."""
        return self._k.exp2((value - (self.top if top is None else top)) * LOG2_E)

    def _sum(self, accesses: list[Access], total: Value, top: Value | None = None) -> Value:
        return summed(masked_terms(self._k, accesses, lambda value: self.of(value, top)), total)

    def _top_and_sum(self, accesses: list[Access], carried: Values) -> Values:
        top = _highest(self._k, accesses, carried[0])
        return top, self._sum(accesses, carried[1] * self.of(carried[0], top), top)


def _highest(k: Builder, accesses: list[Access], top: Value) -> Value:
    """Return the maximum of `top` and of all elements of some accesses."""
    for access in accesses:
        for value in access.values:
            top = k.maximum(top, value)
    return top

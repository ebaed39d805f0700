"""Accumulators of loops over table entries: reduced elements, or unreduced sums of products."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from quod.field.running_sum import RunningSum
from quod.sumcheck.mixed import MixedField


class Terms(Protocol):
    """The terms of a sum: products of two elements, and single elements in `alone`."""

    products: list[tuple[Any, Any]]
    alone: list[Any]

    def total(self) -> Any:
        """Return the sum of all terms."""


class Reduced:
    """An accumulator whose sum is a reduced element."""

    def __init__(self, mixed: MixedField) -> None:
        self._mixed = mixed

    def zero(self) -> Any:
        """Return an empty sum, in the form of a loop-carried value."""
        f = self._mixed.extended
        return f.bounded(f.zero())

    def part(self, terms: Terms) -> Any:
        """Convert terms to the argument of `added`."""
        return terms.total()

    def added(self, total: Any, part: Any) -> Any:
        """Return the sum of `total` and the result of `part`, for the loop's next iteration."""
        return self._mixed.extended.bounded(self._mixed.add(total, part))

    def element(self, total: Any) -> Any:
        """Convert a sum to an element."""
        return total


class Unreduced:
    """An accumulator that sums products before their reduction, with the field's `RunningSum`.

    See `Reduced` for the methods.
    """

    def __init__(self, running_sum: RunningSum) -> None:
        self._running_sum = running_sum

    def zero(self) -> Any:
        return self._running_sum.zero()

    def part(self, terms: Terms) -> Any:
        return terms.products, terms.alone

    def added(self, total: Any, part: tuple[Sequence[Any], Sequence[Any]]) -> Any:
        return self._running_sum.added(total, *part)

    def element(self, total: Any) -> Any:
        return self._running_sum.element(total)


Accumulator = Reduced | Unreduced


def accumulator_for(mixed: MixedField) -> Accumulator:
    """Return the accumulator for the loops of a kernel.

    It is unreduced if the challenges are in the prime field and that field has a `RunningSum`.
    """
    running_sum = mixed.extended.running_sum() if mixed.base is mixed.extended else None
    return Reduced(mixed) if running_sum is None else Unreduced(running_sum)

"""Accumulators of loops over entries: reduced elements, or unreduced sums of products."""

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
    """The accumulator of reduced elements."""

    def __init__(self, mixed: MixedField) -> None:
        self._mixed = mixed

    def zero(self) -> Any:
        """Return an empty sum, as a loop carries it."""
        f = self._mixed.extended
        return f.carried(f.zero())

    def part(self, terms: Terms) -> Any:
        """Convert terms to the argument of `added`."""
        return terms.total()

    def added(self, total: Any, part: Any) -> Any:
        """Add a part to a sum."""
        return self._mixed.extended.carried(self._mixed.add(total, part))

    def element(self, total: Any) -> Any:
        """Return a sum as an element."""
        return total


class Unreduced:
    """The accumulator of unreduced products, by the field's `RunningSum`."""

    def __init__(self, accumulator: RunningSum) -> None:
        self._accumulator = accumulator

    def zero(self) -> Any:
        return self._accumulator.zero()

    def part(self, terms: Terms) -> Any:
        return terms.products, terms.alone

    def added(self, total: Any, part: tuple[Sequence[Any], Sequence[Any]]) -> Any:
        return self._accumulator.added(total, *part)

    def element(self, total: Any) -> Any:
        return self._accumulator.element(total)


Running = Reduced | Unreduced


def running_sum(mixed: MixedField) -> Running:
    """Return the accumulator for the loops of a kernel."""
    accumulator = mixed.extended.running_sum() if mixed.base is mixed.extended else None
    return Reduced(mixed) if accumulator is None else Unreduced(accumulator)

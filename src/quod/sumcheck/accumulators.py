"""What a loop over entries adds up: elements, or sums of products that are not reduced yet."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from quod.field.running_sum import RunningSum
from quod.sumcheck.mixed import MixedField


class Terms(Protocol):
    """Products of two elements, and elements, to be added up."""

    products: list[tuple[Any, Any]]
    alone: list[Any]

    def total(self) -> Any:
        """The sum of all."""


class Reduced:
    """Each part of a sum is an element."""

    def __init__(self, mixed: MixedField) -> None:
        self._mixed = mixed

    def begun(self) -> Any:
        """The sum of nothing, as a loop carries it."""
        f = self._mixed.extended
        return f.carried(f.zero())

    def part(self, terms: Terms) -> Any:
        """What is to be added."""
        return terms.total()

    def added(self, total: Any, part: Any) -> Any:
        """A sum and a part."""
        return self._mixed.extended.carried(self._mixed.add(total, part))

    def element(self, total: Any) -> Any:
        """The element that a sum is."""
        return total


class Unreduced:
    """Products are added in the words that a field has for it."""

    def __init__(self, own: RunningSum) -> None:
        self._own = own

    def begun(self) -> Any:
        return self._own.begun()

    def part(self, terms: Terms) -> Any:
        return terms.products, terms.alone

    def added(self, total: Any, part: tuple[Sequence[Any], Sequence[Any]]) -> Any:
        return self._own.added(total, *part)

    def element(self, total: Any) -> Any:
        return self._own.element(total)


Running = Reduced | Unreduced


def running_sum(mixed: MixedField) -> Running:
    """How the loops of a kernel add up."""
    own = mixed.extended.running_sum() if mixed.base is mixed.extended else None
    return Reduced(mixed) if own is None else Unreduced(own)

"""Accumulators of unreduced products in loops, reduced once at the end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from quod.field.element import Element
from quod.kernel.ir.value import Value


class RunningSum(Protocol):
    """The accumulator of a limb strategy, which represents a sum as several words."""

    def zero(self) -> tuple[Value, ...]:
        """Return the words of an empty sum."""

    def added(
        self, total: Sequence[Value], pairs: Sequence[tuple[Element, Element]],
        others: Sequence[Element],
    ) -> tuple[Value, ...]:  # fmt: skip
        """Return a sum plus all products a * b and all elements of `others`."""

    def element(self, total: Sequence[Value]) -> Element:
        """Reduce a sum to an element."""

"""Sums of products that a loop adds to, reduced when they are complete."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from quod.field.element import Element
from quod.kernel.ir.value import Value


class RunningSum(Protocol):
    """What a strategy does for such sums, which are some words of its own."""

    def begun(self) -> tuple[Value, ...]:
        """The sum of nothing."""

    def added(
        self, total: Sequence[Value], pairs: Sequence[tuple[Element, Element]],
        others: Sequence[Element],
    ) -> tuple[Value, ...]:  # fmt: skip
        """A sum and all products a * b and all others."""

    def element(self, total: Sequence[Value]) -> Element:
        """The element that a sum is."""

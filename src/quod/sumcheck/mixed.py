"""Arithmetic on elements of a prime field and of an extension of it side by side.

What is in the prime field stays there as long as possible: a product of it with an element of the
extension takes a product a coefficient.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from quod.field.extension import ExtensionElement, ExtensionField, field_arithmetic
from quod.field.moduli import Modulus
from quod.field.spec import FieldSpec
from quod.kernel.builder.builder import Builder


class MixedField:
    """The field of challenges in one kernel, `extended`, and the prime field `base` in it."""

    def __init__(self, k: Builder, field: FieldSpec) -> None:
        extended: Any = field_arithmetic(k, field, inlined=True)
        self.extended = extended
        self.base: Any = extended if isinstance(field, Modulus) else extended.base

    def multiply(self, a: Any, b: Any) -> Any:
        """a * b."""
        if self.is_extended(a) == self.is_extended(b):
            return a * b
        extended, factor = (a, b) if self.is_extended(a) else (b, a)
        assert isinstance(self.extended, ExtensionField)
        return self.extended.scale(extended, factor)

    def add(self, a: Any, b: Any) -> Any:
        """a + b."""
        if self.is_extended(a) == self.is_extended(b):
            return a + b
        extended, other = (a, b) if self.is_extended(a) else (b, a)
        first, *others = extended.coefficients
        return self.extended.from_coefficients(first + other, *others)

    def embedded(self, a: Any) -> Any:
        """The element as one of the extension."""
        if self.base is self.extended or self.is_extended(a):
            return a
        return self.extended.embed(a)

    def sum_of_products(self, pairs: Sequence[tuple[Any, Any]]) -> Any:
        """The sum of a * b over all pairs, with as few reductions as there are kinds of pairs."""
        kinds: dict[int, list[tuple[Any, Any]]] = {}
        for a, b in pairs:
            first, second = (a, b) if self.is_extended(a) else (b, a)
            kinds.setdefault(self.is_extended(a) + self.is_extended(b), []).append((first, second))
        total = None
        for kind, alike in kinds.items():
            part = self._of_one_kind(kind, alike)
            total = part if total is None else self.add(total, part)
        return total

    def _of_one_kind(self, kind: int, pairs: Sequence[tuple[Any, Any]]) -> Any:
        if len(pairs) == 1:
            return self.multiply(*pairs[0])
        if kind != 1:
            return (self.extended if kind else self.base).sum_of_products(pairs)
        columns = [
            [(a.coefficients[place], b) for a, b in pairs] for place in range(self.extended.degree)
        ]
        return self.extended.from_coefficients(*self.base.sums_of_products(columns))

    @staticmethod
    def is_extended(a: Any) -> bool:
        return isinstance(a, ExtensionElement)

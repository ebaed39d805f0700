"""Arithmetic that mixes elements of a prime field and of an extension of it.

Prime field elements are not embedded in the extension before a product: multiplying one by an
element of the extension takes one multiplication per coefficient.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from quod.field.any_field import field_arithmetic
from quod.field.extension import ExtensionElement, ExtensionField
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
        """Return a * b, in the prime field if both factors are."""
        if self.is_extended(a) == self.is_extended(b):
            return a * b
        extended, factor = (a, b) if self.is_extended(a) else (b, a)
        assert isinstance(self.extended, ExtensionField)
        return self.extended.scale(extended, factor)

    def add(self, a: Any, b: Any) -> Any:
        """Return a + b, in the prime field if both terms are."""
        if self.is_extended(a) == self.is_extended(b):
            return a + b
        extended, other = (a, b) if self.is_extended(a) else (b, a)
        first, *others = extended.coefficients
        return self.extended.from_coefficients(first + other, *others)

    def embedded(self, a: Any) -> Any:
        """Return an element of either field as one of the field of challenges."""
        if self.base is self.extended or self.is_extended(a):
            return a
        return self.extended.embed(a)

    def sum_of_products(self, pairs: Sequence[tuple[Any, Any]]) -> Any:
        """Return the sum of a * b over all pairs, or None if there are none.

        Pairs are grouped by their number of factors in the extension; each group is reduced once.
        """
        # The key is the number of factors in the extension: 0, 1 or 2.
        pairs_by_kind: dict[int, list[tuple[Any, Any]]] = {}
        for a, b in pairs:
            first, second = (a, b) if self.is_extended(a) else (b, a)
            pairs_by_kind.setdefault(self.is_extended(a) + self.is_extended(b), []).append(
                (first, second)
            )
        total = None
        for kind, pairs_of_kind in pairs_by_kind.items():
            kind_sum = self._sum_of_one_kind(kind, pairs_of_kind)
            total = kind_sum if total is None else self.add(total, kind_sum)
        return total

    def _sum_of_one_kind(self, kind: int, pairs: Sequence[tuple[Any, Any]]) -> Any:
        """Return the sum of products of pairs with `kind` factors in the extension."""
        if len(pairs) == 1:
            return self.multiply(*pairs[0])
        if kind != 1:
            return (self.extended if kind else self.base).sum_of_products(pairs)
        columns = [
            [(a.coefficients[position], b) for a, b in pairs]
            for position in range(self.extended.degree)
        ]
        return self.extended.from_coefficients(*self.base.sums_of_products(columns))

    @staticmethod
    def is_extended(a: Any) -> bool:
        return isinstance(a, ExtensionElement)

"""Transforms of a few elements in the registers of one instance."""

from __future__ import annotations

from collections.abc import Sequence

from quod.field.element import Element
from quod.field.prime import PrimeField
from quod.ntt.steps import Direction


class Butterflies:
    """Transforms of up to 2**log_order field elements; `root` is a root of unity of that order.

    Descending transforms (decimation in frequency) go from natural to bit-reversed order, ascending
    ones (in time) back. Elements are reduced only if a sum would not fit their limbs.
    """

    def __init__(self, f: PrimeField, direction: Direction, root: int, log_order: int) -> None:
        self.f = f
        self.direction = direction
        self._root = root
        self._log_order = log_order
        # A multiple of p; elements below it can be added or subtracted without overflow.
        self.half = max((1 << self.f.native_exponent) // 2 // f.p, 1) * f.p
        self.limit = max(self.half, 2 * f.p)
        """The exclusive bound of elements between steps, at least that of a product."""

    def restrict(self, most: int) -> None:
        """Lower the bound between steps to `most`, which is at least twice the modulus."""
        self.limit = min(self.limit, most // self.f.p * self.f.p)

    def transform(self, elements: Sequence[Element], levels: int) -> list[Element]:
        """Return the transform of 2**levels elements, not divided by their number."""
        rows = list(elements)
        descending = self.direction == "descending"
        for level in reversed(range(levels)) if descending else range(levels):
            distance = 1 << level
            for low in range(1 << levels):
                if not low & distance:
                    pair = rows[low], rows[low + distance]
                    rows[low], rows[low + distance] = self._butterfly(
                        *pair, level, low & (distance - 1)
                    )
        return rows

    def unify(self, elements: Sequence[Element]) -> list[Element]:
        """Reduce elements above `limit`, and give all elements their largest bound."""
        bound = max(min(element.bound, self.limit) for element in elements)
        return self.f.unify(elements, bound)

    def bounded(self, elements: Sequence[Element]) -> list[Element]:
        """Reduce elements above `limit`, and give all elements the bound `limit`."""
        return self.f.unify(elements, self.limit)

    def _butterfly(
        self, a: Element, b: Element, level: int, position: int
    ) -> tuple[Element, Element]:
        """Return a + T*b and a - T*b, or descending a + b and T*(a - b), for the twiddle T."""
        factor, ascending = self._factor(level, position), self.direction == "ascending"
        negated = False
        if factor is not None and self.f.is_shorter_negated(factor):
            negated, factor = True, -factor
        if ascending and factor is not None:
            b = self.f.multiply_constant(b, factor)
        if max(a.bound + b.bound, a.bound + self._added_multiple(b)) > 1 << self.f.native_exponent:
            a, b = (x if x.bound <= self.half else self.f.reduce(x, self.half) for x in (a, b))
        if ascending:
            return (a - b, a + b) if negated else (a + b, a - b)
        low, high = a + b, b - a if negated else a - b
        return low, high if factor is None else self.f.multiply_constant(high, factor)

    def _added_multiple(self, b: Element) -> int:
        """Return the multiple of p that a subtraction adds before it subtracts b."""
        return -(-b.bound // self.f.p) * self.f.p

    def _factor(self, level: int, position: int) -> int | None:
        """Return the root of order 2**(level + 1) to the power `position`; None stands for 1."""
        if position == 0:
            return None
        exponent = position << (self._log_order - level - 1)
        return pow(self._root, exponent, self.f.p)

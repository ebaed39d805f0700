"""The base class of strategies with saturated limbs: sums, reductions and memory.

The Montgomery radix is that of memory, so elements are loaded and stored without conversion. A
modulus without a spare bit in its words gets one more limb for sums and products. Factors are
reduced below the radix, so products do not use the additional limb.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

from quod.field.element import Element
from quod.field.moduli import Modulus
from quod.field.prime import PrimeField
from quod.field.strategies.carry_chains import with_carry
from quod.field.strategies.limb_counts import is_full
from quod.kernel.builder.builder import Builder
from quod.kernel.errors import TraceError
from quod.kernel.ir.value import Value


class SaturatedLimbs(PrimeField):
    """Elements in limbs without spare bits, joined by carries.

    factor_limbs: limbs of a factor; elements have one more if `is_full`.
    """

    def __init__(self, k: Builder, modulus: Modulus) -> None:
        super().__init__(k, modulus)
        self.is_full = self._is_full(modulus)
        self.factor_limbs = self.limb_count - self.is_full
        self.native_exponent = self.limb_bits * self.factor_limbs

    def _is_full(self, modulus: Modulus) -> bool:
        """Return whether the sum of two elements, or a product's row, may exceed the words."""
        return is_full(modulus)

    def _limbs_for(self, modulus: Modulus) -> int:
        return modulus.words * 32 // self.limb_bits + self._is_full(modulus)

    def _holds(self, modulus: Modulus) -> bool:
        return True

    def _element(self, limbs: Sequence[Value], bound: int, exponent: int) -> Element:
        """Return an element of these limbs, with zeros above the limbs that its bound reaches."""
        if self._overflows(bound):
            raise TraceError(f"an element of {self.modulus.name} could overflow its limbs")
        zero = self.k.constant(0, self.limb_type)
        used = limbs[: self._limbs_below(bound)]
        padded = (*used, *[zero] * (self.limb_count - len(used)))
        return Element(self, padded, bound, self._full_maxima(bound), exponent)

    def _limbs_below(self, bound: int) -> int:
        """Return the number of limbs for a number below a bound."""
        return self.factor_limbs if bound <= 1 << self.native_exponent else self.limb_count

    def _normalise(self, a: Element) -> Element:
        return a

    def _fit(self, a: Element) -> Element:
        return self._reduce_below(a, 1 << self.native_exponent)

    @property
    def standard_bound(self) -> int:
        """The standard bound of elements: the radix if full, else 4p, 2p or p, by spare bits."""
        radix = 1 << self.native_exponent
        if self.is_full:
            return radix
        multiple = next((multiple for multiple in (4, 2) if 2 * multiple * self.p <= radix), 1)
        return multiple * self.p

    # --- linear operations

    def _overflows(self, bound: int) -> bool:
        return bound > self.room

    def add(self, a: Element, b: Element) -> Element:
        self._check_same(a, b)
        if self._overflows(a.bound + b.bound):
            a = self._reduce_below(a, self.p)
        if self._overflows(a.bound + b.bound):
            b = self._reduce_below(b, self.p)
        bound = a.bound + b.bound - 1
        size = self._limbs_below(bound)
        limbs, _ = with_carry(self.k, "add", a.limbs[:size], b.limbs[:size])
        return self._element(limbs, bound, a.exponent)

    def subtract(self, a: Element, b: Element) -> Element:
        self._check_same(a, b)
        if self._overflows(a.bound + self._multiple_above(b)):
            b = self._reduce_below(b, self.p)
        if self._overflows(a.bound + self._multiple_above(b)):
            a = self._reduce_below(a, self.p)
        multiple = self._multiple_above(b)
        size = self._limbs_below(a.bound + multiple)
        raised, _ = with_carry(
            self.k, "add", a.limbs[:size], self.raw_constant(multiple).limbs[:size]
        )
        limbs, _ = with_carry(self.k, "sub", raised, b.limbs[:size])
        return self._element(limbs, a.bound + multiple, a.exponent)

    def _multiple_above(self, b: Element) -> int:
        """Return the smallest multiple of p that is at least every value of b."""
        return -(-(b.bound - 1) // self.p) * self.p

    # --- products

    def _product(self, a: Element, b: Element) -> Element:
        return self._sum_of_products([(a, b)])

    def _square(self, a: Element) -> Element:
        return self._sum_of_products([(a, a)])

    def _fit_rows(
        self, pairs: Sequence[tuple[Element, Element]]
    ) -> Sequence[tuple[Element, Element]] | None:
        """Return the pairs with factors swapped or reduced so that their rows fit, or None.

        The total after a row is below the sum of the first factors and p, so during the row it is
        below this sum times the range of a limb.
        """
        if self._rows_fit(pairs):
            return pairs
        smaller_first = [(a, b) if a.bound <= b.bound else (b, a) for a, b in pairs]
        if self._rows_fit(smaller_first):
            return smaller_first
        reduced = [(self._reduce_below(a, self.p), b) for a, b in smaller_first]
        return reduced if self._rows_fit(reduced) else None

    @abstractmethod
    def _rows_fit(self, pairs: Sequence[tuple[Element, Element]]) -> bool:
        """Return whether rows of these first factors and of p fit."""

    # --- reductions

    def _reduce(self, a: Element, bound: int | None) -> Element:
        return self._reduce_below(a, bound or 2 * self.p)

    def _reduce_below(self, a: Element, target_bound: int) -> Element:
        while a.bound > target_bound:
            power_of_two = 1
            while self.p * 2 * power_of_two < a.bound:
                power_of_two *= 2
            amount = self.p * power_of_two
            used_limbs = a.limbs[: self._limbs_below(a.bound)]
            limbs, borrow = with_carry(
                self.k, "sub", used_limbs, self.raw_constant(amount).limbs[: len(used_limbs)]
            )
            is_less = self._is_set(borrow)
            reduced = [self.k.select(is_less, x, y) for x, y in zip(used_limbs, limbs, strict=True)]
            a = self._element(reduced, max(amount, a.bound - amount), a.exponent)
        return a

    def _is_set(self, borrow: Value) -> Value:
        zero = self.k.constant(0, self.limb_type)
        return self.k.emit("addc", (zero, zero, borrow)) != 0

    def _canonical(self, a: Element) -> Element:
        return self._reduce_below(a, self.p)

    def _reduce_long(self, limbs: Sequence[Value], bound: int) -> Element:
        """Reduce an integer with surplus limbs below p."""
        mask = (1 << self.limb_bits) - 1
        while bound > self.p:
            power_of_two = 1
            while self.p * 2 * power_of_two < bound:
                power_of_two *= 2
            amount = self.p * power_of_two
            constant = [
                self.k.constant((amount >> (self.limb_bits * j)) & mask, self.limb_type)
                for j in range(len(limbs))
            ]
            difference, borrow = with_carry(self.k, "sub", limbs, constant)
            negative = self._is_set(borrow)
            limbs = [self.k.select(negative, x, y) for x, y in zip(limbs, difference, strict=True)]
            bound = max(amount, bound - amount)
        return self._element(limbs[: self.limb_count], bound, self.native_exponent)

    # --- memory

    def _from_memory(self, limbs: Sequence[Value]) -> Element:
        return self._element(limbs, self.p, self.native_exponent)

    def _for_memory(self, a: Element) -> tuple[Value, ...]:
        if a.exponent != self.memory_exponent:
            raise TraceError(
                "an element with this Montgomery radix cannot be stored; multiply it by a constant "
                "first"
            )
        return self._reduce_below(a, self.p).limbs[: self.factor_limbs]

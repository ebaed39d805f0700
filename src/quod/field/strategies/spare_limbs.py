"""The base class of strategies whose limbs have spare bits: sums with delayed carries.

A limb has fewer bits than its word. Exact bounds of every limb allow sums without carries. Code
that reads a limb relies only on its maximum, `most` or `last_most`. These leave room for everything
that is added before the next carry.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence

from quod.field.element import Element
from quod.field.prime import PrimeField
from quod.kernel.errors import TraceError
from quod.kernel.ir.value import Value


class SpareLimbs(PrimeField):
    """Elements in limbs of `limb_bits` bits, in words that have more."""

    @property
    def most(self) -> int:
        """The maximum of all limbs but the last, so that carries and reductions fit their words.

        It is the same for all of these limbs, so that selected limbs satisfy it too.
        """
        return (1 << self.limb_type.bits) - 1 - self._added_to_limbs

    @property
    def _added_to_limbs(self) -> int:
        """The maximum that normalisation and reduction add to a limb: a full word's carry."""
        return (1 << self.limb_type.bits) - 1 >> self.limb_bits

    @property
    @abstractmethod
    def last_most(self) -> int:
        """The maximum of the last limb, which holds all higher bits."""

    def _top(self, bound: int) -> int:
        """Return the maximum of the last limb of a number below a bound."""
        return (bound - 1) >> (self.limb_bits * (self.limb_count - 1))

    def _overflows(self, maxima: Sequence[int], bound: int) -> bool:
        """Return whether a limb could overflow, now or after carries.

        The last limb is bounded by the whole number, which for the intermediate sum of a difference
        with its padding is also below `bound`.
        """
        return max(maxima[:-1]) > self.most or self._top(bound) > self.last_most

    def _element(
        self, limbs: Sequence[Value], bound: int, maxima: Sequence[int], exponent: int
    ) -> Element:
        """Return an element, bounding its last limb by the whole number."""
        if self._overflows(maxima, bound):
            raise TraceError(
                f"limbs of {self.modulus.name} could overflow: write field.bounded(...) of operands"
            )
        checked = (*maxima[:-1], min(maxima[-1], self._top(bound)))
        return Element(self, tuple(limbs), bound, checked, exponent)

    @abstractmethod
    def _subtract_if_not_less(self, a: Element, amount: int) -> Element:
        """Return a - amount if a is not less, else a; a must be normalised."""

    # --- reductions

    def _reduce_below_unit(self, a: Element, unit: int) -> Element:
        """Subtract multiples of `unit`, p times a power of two, until the element is below it."""
        a = self.normalise(a)
        while a.bound > unit:
            a = self._subtract_if_not_less(a, self._amount(a.bound, unit))
        return a

    @staticmethod
    def _amount(bound: int, unit: int) -> int:
        """Return `unit` times the power of two that about halves a bound when subtracted."""
        power_of_two = 1
        while unit * 2 * power_of_two < bound:
            power_of_two *= 2
        return unit * power_of_two

    # --- linear operations

    def add(self, a: Element, b: Element) -> Element:
        self._check_same(a, b)
        return self._apply_with_room(self._add_limbs, a, b)

    def subtract(self, a: Element, b: Element) -> Element:
        self._check_same(a, b)
        return self._apply_with_room(self._subtract_limbs, a, b)

    def _apply_with_room(
        self, operation: Callable[[Element, Element], Element | None], a: Element, b: Element
    ) -> Element:
        """Apply an operation; while it returns None, normalise and then reduce the operands."""
        result = operation(a, b)
        if result is None:
            result = operation(self.normalise(a), self.normalise(b))
        if result is None:
            # The last limbs are full as well.
            result = operation(self.fit(self.reduce(a)), self.fit(self.reduce(b)))
        assert result is not None
        return result

    def _add_limbs(self, a: Element, b: Element) -> Element | None:
        """Return a + b, or None if it could overflow the limbs."""
        bound = a.bound + b.bound - 1
        maxima = [x + y for x, y in zip(a.maxima, b.maxima, strict=True)]
        if self._overflows(maxima, bound):
            return None
        limbs = [x + y for x, y in zip(a.limbs, b.limbs, strict=True)]
        return self._element(limbs, bound, maxima, a.exponent)

    def _subtract_limbs(self, a: Element, b: Element) -> Element | None:
        """Return a - b plus a multiple of p, or None if it could overflow the limbs."""
        multiple, padding = self._padding(b)
        bound = a.bound + multiple
        maxima = [x + pad for x, pad in zip(a.maxima, padding, strict=True)]
        if self._overflows(maxima, bound):
            return None
        limbs = [(x + pad) - y for x, pad, y in zip(a.limbs, padding, b.limbs, strict=True)]
        return self._element(limbs, bound, maxima, a.exponent)

    def _padding(self, b: Element) -> tuple[int, list[int]]:
        """Return a small multiple of p, and limbs of it that are at least b's maxima."""
        bits, p = self.limb_bits, self.p
        last_limb_shift = bits * (self.limb_count - 1)
        multiple = -(-(b.bound - 1) // p) * p
        while True:
            limbs, remainder = [], multiple
            for maximum in b.maxima[:-1]:
                limb = remainder & ((1 << bits) - 1)
                if limb < maximum:
                    limb += -(-(maximum - limb) >> bits) << bits
                limbs.append(limb)
                remainder = (remainder - limb) >> bits
            limbs.append(remainder)
            missing = b.maxima[-1] - remainder
            if missing <= 0:
                return multiple, limbs
            # A larger multiple may leave its last limb one lower, so this is repeated. A modulus
            # below the last limb's weight takes a whole limb more, not single multiples.
            step = max(missing - 1 << last_limb_shift, 1 << last_limb_shift) // p
            multiple += max(1, step) * p

"""The base class of strategies with limbs in the 64-bit lanes of CPU vectors.

A product adds columns without carrying, in the spare bits of the lanes. Subclasses provide the
products of limbs, quotient estimates and inversion.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Generator, Sequence
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from quod.field.element import Element
from quod.field.strategies.inversion import VectorInversion
from quod.field.strategies.spare_limbs import SpareLimbs
from quod.kernel.errors import TraceError
from quod.kernel.ir import types
from quod.kernel.ir.value import Value

if TYPE_CHECKING:
    from quod.kernel.builder.builder import Builder

WORD_LIMIT = 1 << 64

Pairs: TypeAlias = Sequence[tuple[Element, Element]]
Limbs: TypeAlias = Sequence[Value]

T = TypeVar("T")

Steps: TypeAlias = Generator[None, None, T]
"""A computation that pauses after each step."""


class VectorLimbs(SpareLimbs):
    """Elements in limbs of one 64-bit lane each.

    estimate_limbs: the number of highest limbs from which quotients by p are estimated.
    """

    estimate_limbs: int = 1

    @property
    def limb_mask(self) -> int:
        """The largest normalised limb."""
        return (1 << self.limb_bits) - 1

    # --- what a subclass provides

    @abstractmethod
    def _product_limits(self, pairs: Pairs) -> tuple[list[int], int]:
        """Return the maxima of the limbs of a sum of products, and its bound."""

    @abstractmethod
    def _factor_limbs(self, a: Element) -> tuple[Value, ...]:
        """Return the limbs that a product reads of a factor."""

    @abstractmethod
    def _sum_steps(
        self, k: Builder, a: Sequence[Limbs], b: Sequence[Limbs]
    ) -> Steps[tuple[Value, ...]]:
        """Return the limbs of a sum of Montgomery products, normalised or not."""

    @abstractmethod
    def _square_steps(self, k: Builder, a: Limbs) -> Steps[tuple[Value, ...]]:
        """Return the limbs of a Montgomery square, normalised or not."""

    @abstractmethod
    def _estimate_quotient(self, a: Element) -> tuple[Value, int]:
        """Estimate the quotient by p from the highest limbs; never too large.

        Returns the estimate, and the bound of the remainder without the limbs that it ignores.
        """

    @abstractmethod
    def _low_bits_of_product(self, a: Value, b: Value, count: int) -> Value:
        """Return the lowest `count` bits of a product; `count` is at most the bits of a limb."""

    @abstractmethod
    def _multiple_steps(self, columns: list[Value], factor: Value, number: Limbs) -> Steps[None]:
        """Add a multiple of a number to columns of the same count, modulo their range.

        The factor is a quotient by p or by a power of two.
        """

    @abstractmethod
    def _most_of_multiple(self, factor: int) -> int:
        """Return the maximum that `_multiple_steps` adds to a column for factors up to `factor`."""

    @abstractmethod
    def _inversion(self, k: Builder, scale: int) -> VectorInversion:
        """Return the inversion that yields `scale` over an element."""

    # --- carries

    def _normalise(self, a: Element) -> Element:
        return interleaved([self._normalise_steps(a)])[0]

    def _normalise_steps(self, a: Element) -> Steps[Element]:
        """Carry the bits of each limb above `limb_bits` into the next limb."""
        if max(a.maxima) <= self.limb_mask:
            return a
        limbs, maxima = [], []
        carry: Value | None = None
        carry_maximum = 0
        for j, (limb, maximum) in enumerate(zip(a.limbs, a.maxima, strict=True)):
            if carry is not None:
                limb, maximum = limb + carry, maximum + carry_maximum
            if j + 1 < self.limb_count and maximum > self.limb_mask:
                carry, carry_maximum = limb >> self.limb_bits, maximum >> self.limb_bits
                limb, maximum = limb & self.limb_mask, self.limb_mask
            else:
                carry, carry_maximum = None, 0
            limbs.append(limb)
            maxima.append(maximum)
            yield
        return self._element(limbs, a.bound, maxima, a.exponent)

    def _fit(self, a: Element) -> Element:
        return self._fit_many([a])[0]

    def _fit_many(self, elements: Sequence[Element]) -> list[Element]:
        return self._below_many(elements, self.room)

    def _below_many(self, elements: Sequence[Element], bound: int) -> list[Element]:
        return interleaved(
            [
                self._normalise_steps(a) if a.bound <= bound else self._reduce_steps(a)
                for a in elements
            ]
        )

    # --- products

    def _product_element(self, pairs: Pairs, limbs: Limbs) -> Element:
        maxima, bound = self._product_limits(pairs)
        exponent = pairs[0][0].exponent + pairs[0][1].exponent - self.native_exponent
        return self._element(limbs, bound, maxima, exponent)

    def _product(self, a: Element, b: Element) -> Element:
        return self._sums_of_products([[(a, b)]])[0]

    def _square(self, a: Element) -> Element:
        return self._squares([a])[0]

    def _sum_of_products(self, pairs: Pairs) -> Element:
        if not self._overflows(*self._product_limits(pairs)):
            return self._sums_of_products([pairs])[0]
        half = len(pairs) // 2
        return self.add(self._sum_of_products(pairs[:half]), self._sum_of_products(pairs[half:]))

    def _sums_of_products(self, sums: Sequence[Pairs]) -> list[Element]:
        """Interleave `interleaved_products` sums of equally many products at a time."""
        if any(self._overflows(*self._product_limits(pairs)) for pairs in sums):
            return [self._sum_of_products(pairs) for pairs in sums]
        results: list[Element] = []
        while len(results) < len(sums):
            group = sums[len(results) : len(results) + self.interleaved_products]
            if len({len(pairs) for pairs in group}) > 1:
                group = group[:1]
            factors = [
                (
                    [self._factor_limbs(a) for a, _ in pairs],
                    [self._factor_limbs(b) for _, b in pairs],
                )
                for pairs in group
            ]
            limbs = self._call("products", self._sums_body, factors, key=self.limb_count)
            results += [
                self._product_element(pairs, sum_limbs)
                for pairs, sum_limbs in zip(group, limbs, strict=True)
            ]
        return results

    def _squares(self, elements: Sequence[Element]) -> list[Element]:
        results: list[Element] = []
        for start in range(0, len(elements), self.interleaved_products):
            group = elements[start : start + self.interleaved_products]
            factors = [self._factor_limbs(a) for a in group]
            limbs = self._call("squares", self._squares_body, factors, key=self.limb_count)
            results += [
                self._product_element([(a, a)], square_limbs)
                for a, square_limbs in zip(group, limbs, strict=True)
            ]
        return results

    def _sums_body(
        self, k: Builder, factors: Sequence[tuple[Sequence[Limbs], Sequence[Limbs]]]
    ) -> list[tuple[Value, ...]]:
        return interleaved([self._sum_steps(k, a, b) for a, b in factors])

    def _squares_body(self, k: Builder, elements: Sequence[Limbs]) -> list[tuple[Value, ...]]:
        return interleaved([self._square_steps(k, a) for a in elements])

    # --- reductions

    def _reduce(self, a: Element, bound: int | None) -> Element:
        """Reduce by a quotient estimated from the highest limbs, to slightly above 2p."""
        if a.bound <= (bound or 2 * self.p):
            return a
        a = self._reduce_once(a)
        while bound is not None and a.bound > bound:
            # An estimate from limbs with pending carries may leave a large remainder.
            remainder = self._reduce_once(a) if a.bound > 4 * self.p else a
            if remainder.bound == a.bound:
                remainder = self._subtract_if_not_less(a, self.p)
            a = remainder
        return a

    def _reduce_once(self, a: Element) -> Element:
        return interleaved([self._reduce_steps(a)])[0]

    def _reduce_steps(self, a: Element) -> Steps[Element]:
        n = self.limb_count
        quotient, remainder_bound = self._estimate_quotient(a)
        yield
        complement = self._complement(self.p)
        columns = list(a.limbs)
        yield from self._multiple_steps(columns, quotient, complement)
        limbs: list[Value] = []
        carry: Value | None = None
        for column in columns:
            total = column if carry is None else column + carry
            carry = total >> self.limb_bits
            limbs.append(total & self.limb_mask)
            yield
        bound = min(a.bound, remainder_bound + self._most_ignored(a))
        return self._element(limbs, bound, [self.limb_mask] * n, a.exponent)

    def _most_ignored(self, a: Element) -> int:
        """Return the maximum of the integer in the limbs that quotient estimates do not read."""
        ignored = a.maxima[: -self.estimate_limbs]
        return sum(maximum << (self.limb_bits * j) for j, maximum in enumerate(ignored))

    def _complement(self, number: int) -> Limbs:
        """Return the constant limbs of -number modulo the range of the limbs."""
        bits, integer = self.limb_bits, (1 << (self.limb_bits * self.limb_count)) - number
        return tuple(
            self.k.constant((integer >> (bits * j)) & self.limb_mask, types.u64)
            for j in range(self.limb_count)
        )

    def _subtract_if_not_less(self, a: Element, amount: int) -> Element:
        n = self.limb_count
        complement = self._complement(amount)
        limbs: list[Value] = []
        carry: Value | None = None
        for limb, addend in zip(a.limbs, complement, strict=True):
            total = limb + addend
            if carry is not None:
                total = total + carry
            carry = total >> self.limb_bits
            limbs.append(total & self.limb_mask)
        assert carry is not None
        is_not_less = carry != 0
        chosen = [self.k.select(is_not_less, x, y) for x, y in zip(limbs, a.limbs, strict=True)]
        bound = max(amount, a.bound - amount)
        return self._element(chosen, bound, [self.limb_mask] * n, a.exponent)

    def _canonical(self, a: Element) -> Element:
        return self._reduce_below_unit(self.fit(a), self.p)

    def _inverse_body(self, k: Builder, a: Element) -> Element:
        n = self.limb_count
        scale = pow(2, a.exponent + self.native_exponent, self.p)
        inversion = self._inversion(k, scale)
        limbs = inversion.inverse(k, a.limbs)
        maxima = [self.limb_mask] * (n - 1) + [WORD_LIMIT - 1]
        return self._element(limbs, 2 * inversion.size * self.p, maxima, self.native_exponent)

    # --- memory

    def from_words(self, words: Sequence[Value], *, linear: bool = False) -> Element:
        shift = 0 if linear else self.native_exponent - self.memory_exponent
        limbs = [self._bits_of(words, self.limb_bits * j - shift) for j in range(self.limb_count)]
        bound = ((self.p - 1) << shift) + 1
        exponent = self.memory_exponent + shift
        return self._element(limbs, bound, [self.limb_mask] * self.limb_count, exponent)

    def _bits_of(self, words: Sequence[Value], low: int) -> Value:
        """Return a limb's bits of packed words from bit `low` on; bits below zero are zero."""
        parts = []
        for index, word in enumerate(words):
            offset = 64 * index - low
            if offset >= self.limb_bits or offset <= -64:
                continue
            parts.append(word << offset if offset >= 0 else word >> -offset)
        if not parts:
            return self.k.constant(0, types.u64)
        combined = parts[0]
        for part in parts[1:]:
            combined = combined | part
        return combined & self.limb_mask

    def _to_words(self, a: Element) -> tuple[Value, ...]:
        shift = a.exponent - self.memory_exponent
        if not 0 <= shift <= self.limb_bits:
            raise TraceError(
                "an element with this Montgomery radix cannot be stored; multiply it by a constant "
                "first"
            )
        # The comparisons below need values within the limbs; clearing low bits adds multiples of p.
        max_bound = self.room - ((1 << shift) - 1) * self.p
        if a.bound > max_bound:
            a = self.reduce(a, max(max_bound, self.p))
        if shift:
            a = self._clear_low_bits(self.normalise(a), shift)
        a = self._reduce_below_unit(a, self.p << shift)
        words = []
        for index in range(self.word_count):
            low = 64 * index + shift
            parts = []
            for j, limb in enumerate(a.limbs):
                offset = self.limb_bits * j - low
                if offset >= 64 or offset <= -self.limb_bits:
                    continue
                parts.append(limb << offset if offset >= 0 else limb >> -offset)
            word = parts[0]
            for part in parts[1:]:
                word = word | part
            words.append(word)
        return tuple(words)

    def _clear_low_bits(self, a: Element, count: int) -> Element:
        """Add the multiple of p that makes a a multiple of 2**count."""
        unit = 1 << count
        inverse = self.k.constant(-pow(self.p, -1, unit) % unit, types.u64)
        quotient = self._low_bits_of_product(a.limbs[0], inverse, count)
        limbs = list(a.limbs)
        interleaved([self._multiple_steps(limbs, quotient, self.raw_constant(self.p).limbs)])
        bound = a.bound + (unit - 1) * self.p
        maxima = [maximum + self._most_of_multiple(unit - 1) for maximum in a.maxima]
        return self._element(limbs, bound, maxima, a.exponent)


def interleaved(computations: Sequence[Steps[T]]) -> list[T]:
    """Interleave independent computations step by step, and return their results.

    While one product waits for a column, the CPU executes the other. Without interleaving, the
    CPU's reorder window is too small to reach the next product.
    """
    results: dict[int, T] = {}
    running = dict(enumerate(computations))
    while running:
        for index in list(running):
            try:
                next(running[index])
            except StopIteration as stop:
                results[index] = stop.value
                del running[index]
    return [results[index] for index in range(len(computations))]

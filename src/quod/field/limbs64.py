"""Saturated 64-bit limbs: one element an instance, for processors without vector multiply-add.

Products are coarsely integrated operand scanning (Koç, Acar, Kaliski, "Analyzing and comparing
Montgomery multiplication algorithms", 1996); LLVM turns its carries into mulx, add and adc.
"""

from __future__ import annotations

from collections.abc import Sequence

from quod.field.element import Element
from quod.field.inversion import Inversion64
from quod.field.moduli import Modulus
from quod.field.strategy import PrimeField
from quod.kernel import types
from quod.kernel.builder import Builder
from quod.kernel.errors import TraceError
from quod.kernel.value import Value

_FULL = (1 << 64) - 1


class Limbs64(PrimeField):
    """Elements in as many 64-bit limbs as they have words in memory."""

    limb_bits = 64

    def _limbs_for(self, modulus: Modulus) -> int:
        return modulus.words // 2

    def _made(self, limbs: Sequence[Value], bound: int, exponent: int) -> Element:
        if bound > 1 << self.native_exponent:
            raise TraceError(f"an element of {self.modulus.name} outgrew its limbs")
        return Element(self, tuple(limbs), bound, self._full_maxima(bound), exponent)

    def normalise(self, a: Element) -> Element:
        return a

    # --- linear operations

    def _overflows(self, bound: int) -> bool:
        return bound > 1 << self.native_exponent

    def add(self, a: Element, b: Element) -> Element:
        if a.exponent != b.exponent:
            raise TraceError("elements of different radix cannot be added")
        if self._overflows(a.bound + b.bound):
            a = self._below(a, self.p)
        if self._overflows(a.bound + b.bound):
            b = self._below(b, self.p)
        limbs, _ = self._add_chain(a.limbs, b.limbs)
        return self._made(limbs, a.bound + b.bound - 1, a.exponent)

    def _add_chain(self, a: Sequence[Value], b: Sequence[Value]) -> tuple[list[Value], Value]:
        total, carry = self.k.emit_many("add_cc", (a[0], b[0]))
        limbs = [total]
        for x, y in zip(a[1:], b[1:], strict=True):
            total, carry = self.k.emit_many("addc_cc", (x, y, carry))
            limbs.append(total)
        return limbs, carry

    def _subtract_chain(self, a: Sequence[Value], b: Sequence[Value]) -> tuple[list[Value], Value]:
        total, borrow = self.k.emit_many("sub_cc", (a[0], b[0]))
        limbs = [total]
        for x, y in zip(a[1:], b[1:], strict=True):
            total, borrow = self.k.emit_many("subc_cc", (x, y, borrow))
            limbs.append(total)
        return limbs, borrow

    def subtract(self, a: Element, b: Element) -> Element:
        if a.exponent != b.exponent:
            raise TraceError("elements of different radix cannot be subtracted")
        if self._overflows(a.bound + self._multiple_above(b)):
            b = self._below(b, self.p)
        if self._overflows(a.bound + self._multiple_above(b)):
            a = self._below(a, self.p)
        multiple = self._multiple_above(b)
        raised, _ = self._add_chain(a.limbs, self.raw_constant(multiple).limbs)
        limbs, _ = self._subtract_chain(raised, b.limbs)
        return self._made(limbs, a.bound + multiple, a.exponent)

    def _multiple_above(self, b: Element) -> int:
        """The least multiple of p that no value of b exceeds."""
        return -(-(b.bound - 1) // self.p) * self.p

    # --- products

    def _product(self, a: Element, b: Element) -> Element:
        return self._sum_of_products([(a, b)])

    def _square(self, a: Element) -> Element:
        return self._sum_of_products([(a, a)])

    def _sum_of_products(self, pairs: Sequence[tuple[Element, Element]]) -> Element:
        fitted = self._fit_rows(pairs)
        if fitted is None:
            half = len(pairs) // 2
            return self.add(
                self._sum_of_products(pairs[:half]), self._sum_of_products(pairs[half:])
            )
        limbs = self.k.call(
            f"sum_of_{len(fitted)}_products.{self.modulus.name}", self._sum_body,
            [a.limbs for a, _ in fitted], [b.limbs for _, b in fitted], key=self.limb_count,
        )  # fmt: skip
        radix = 1 << self.native_exponent
        products = sum((a.bound - 1) * (b.bound - 1) for a, b in fitted)
        bound = (products + (radix - 1) * self.p) // radix + 1
        exponent = fitted[0][0].exponent + fitted[0][1].exponent - self.native_exponent
        return self._made(limbs, bound, exponent)

    def _fit_rows(
        self, pairs: Sequence[tuple[Element, Element]]
    ) -> Sequence[tuple[Element, Element]] | None:
        """Pairs whose rows stay within one limb more than their first factors have, if they can.

        What a row leaves is below the sum of the first factors and p, so the row itself is below
        2**64 times that.
        """
        smaller_first = [(a, b) if a.bound <= b.bound else (b, a) for a, b in pairs]
        reduced = [(self._below(a, self.p), b) for a, b in smaller_first]
        return next(filter(self._rows_fit, (pairs, smaller_first, reduced)), None)

    def _rows_fit(self, pairs: Sequence[tuple[Element, Element]]) -> bool:
        return sum(a.bound for a, _ in pairs) + self.p <= 1 << self.native_exponent

    def _sum_body(
        self, k: Builder, a: Sequence[Sequence[Value]], b: Sequence[Sequence[Value]]
    ) -> tuple[Value, ...]:
        zero = k.constant(0, types.u64)
        inverse = k.constant(-pow(self.p, -1, 1 << 64) % (1 << 64), types.u64)
        modulus = self.raw_constant(self.p).limbs
        total = [zero] * self.limb_count
        for i in range(self.limb_count):
            top = zero
            for x, y in zip(a, b, strict=True):
                total, high = self._add_multiple(k, total, x, y[i])
                top = top + high
            quotient = total[0] * inverse
            total, high = self._add_multiple(k, total, modulus, quotient)
            total = [*total[1:], top + high]
        return tuple(total)

    def _add_multiple(
        self, k: Builder, total: Sequence[Value], a: Sequence[Value], factor: Value
    ) -> tuple[list[Value], Value]:
        """total + a * factor: n limbs and the limb above."""
        zero = k.constant(0, types.u64)
        limbs: list[Value] = []
        above: Value = zero
        for limb, x in zip(total, a, strict=True):
            low, high = x * factor, k.emit("mul_hi", (x, factor))
            low, carry = k.emit_many("add_cc", (low, limb))
            high = k.emit("addc", (high, zero, carry))
            low, carry = k.emit_many("add_cc", (low, above))
            above = k.emit("addc", (high, zero, carry))
            limbs.append(low)
        return limbs, above

    # --- reductions

    def reduce(self, a: Element, bound: int | None = None) -> Element:
        return self._below(a, bound or 2 * self.p)

    def _below(self, a: Element, wanted: int) -> Element:
        while a.bound > wanted:
            times = 1
            while self.p * 2 * times < a.bound:
                times *= 2
            amount = self.p * times
            limbs, borrow = self._subtract_chain(a.limbs, self.raw_constant(amount).limbs)
            zero = self.k.constant(0, types.u64)
            less = self.k.emit("addc", (zero, zero, borrow)) != 0
            chosen = [self.k.select(less, x, y) for x, y in zip(a.limbs, limbs, strict=True)]
            a = self._made(chosen, max(amount, a.bound - amount), a.exponent)
        return a

    def canonical(self, a: Element) -> Element:
        return self._below(a, self.p)

    def _inverse_body(self, k: Builder, a: Element) -> Element:
        scale = pow(2, a.exponent + self.native_exponent, self.p)
        inversion = Inversion64(k, self.modulus, scale, self.limb_count)
        limbs = inversion.inverse(k, a.limbs)
        return self._without_top(limbs, 2 * inversion.size * self.p)

    def _without_top(self, limbs: Sequence[Value], bound: int) -> Element:
        """An integer with a limb too many, brought below p."""
        while bound > self.p:
            times = 1
            while self.p * 2 * times < bound:
                times *= 2
            amount = self.p * times
            constant = [
                self.k.constant((amount >> (64 * j)) & _FULL, types.u64) for j in range(len(limbs))
            ]
            less, borrow = self._subtract_chain(limbs, constant)
            zero = self.k.constant(0, types.u64)
            negative = self.k.emit("addc", (zero, zero, borrow)) != 0
            limbs = [self.k.select(negative, x, y) for x, y in zip(limbs, less, strict=True)]
            bound = max(amount, bound - amount)
        return self._made(limbs[: self.limb_count], bound, self.native_exponent)

    # --- memory

    def from_words(self, words: Sequence[Value], *, linear: bool = False) -> Element:
        return self._made(words, self.p, self.native_exponent)

    def to_words(self, a: Element) -> tuple[Value, ...]:
        if a.exponent != self.memory_exponent:
            raise TraceError("an element of this radix cannot be stored: multiply it first")
        return self._below(a, self.p).limbs

"""Saturated 64-bit limbs: one element an instance, for processors without vector multiply-add.

Products are coarsely integrated operand scanning (Koç, Acar, Kaliski, "Analyzing and comparing
Montgomery multiplication algorithms", 1996); LLVM turns its carries into mulx, add and adc.
"""

from __future__ import annotations

from collections.abc import Sequence

from quod.field.element import Element
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

    def _reduced(self, a: Element, b: Element, limbs: Sequence[Value]) -> Element:
        radix = 1 << self.native_exponent
        bound = ((a.bound - 1) * (b.bound - 1) + (radix - 1) * self.p) // radix + 1
        return self._made(limbs, bound, a.exponent + b.exponent - self.native_exponent)

    def _fits_row(self, a: Element) -> bool:
        """Whether the rows of a product by `a` stay within one limb more than `a` has.

        What a row leaves is below a + p, so the row itself is below 2**64 times that.
        """
        return a.bound + self.p <= 1 << self.native_exponent

    def _product(self, a: Element, b: Element) -> Element:
        if not self._fits_row(a):
            a, b = (b, a) if self._fits_row(b) else (self._below(a, self.p), b)
        limbs = self.k.call(
            f"product.{self.modulus.name}", self._product_body, a.limbs, b.limbs,
            key=self.limb_count,
        )  # fmt: skip
        return self._reduced(a, b, limbs)

    def _square(self, a: Element) -> Element:
        return self._product(a, a)

    def _product_body(
        self, k: Builder, a: Sequence[Value], b: Sequence[Value]
    ) -> tuple[Value, ...]:
        n = self.limb_count
        zero = k.constant(0, types.u64)
        inverse = k.constant(-pow(self.p, -1, 1 << 64) % (1 << 64), types.u64)
        modulus = self.raw_constant(self.p).limbs
        total = [zero] * n
        for factor in b:
            total, top = self._add_multiple(k, total, a, factor)
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

    # --- memory

    def from_words(self, words: Sequence[Value], *, linear: bool = False) -> Element:
        return self._made(words, self.p, self.native_exponent)

    def to_words(self, a: Element) -> tuple[Value, ...]:
        if a.exponent != self.memory_exponent:
            raise TraceError("an element of this radix cannot be stored: multiply it first")
        return self._below(a, self.p).limbs

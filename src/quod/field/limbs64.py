"""Saturated 64-bit limbs: one element an instance, for processors without vector multiply-add.

Products are coarsely integrated operand scanning (Koç, Acar, Kaliski, "Analyzing and comparing
Montgomery multiplication algorithms", 1996); LLVM turns its carries into mulx, add and adc.
"""

from __future__ import annotations

from collections.abc import Sequence

from quod.field.element import Element
from quod.field.inversion import Inversion64
from quod.field.saturated import SaturatedLimbs
from quod.kernel import types
from quod.kernel.builder import Builder
from quod.kernel.value import Value


class Limbs64(SaturatedLimbs):
    """Elements in as many 64-bit limbs as they have words in memory."""

    limb_bits = 64
    limb_type = types.u64

    # --- products

    def _sum_of_products(self, pairs: Sequence[tuple[Element, Element]]) -> Element:
        fitted = self._fit_rows(pairs)
        if fitted is None:
            half = len(pairs) // 2
            return self.add(
                self._sum_of_products(pairs[:half]), self._sum_of_products(pairs[half:])
            )
        limbs = self._call(
            f"sum_of_{len(fitted)}_products", self._sum_body,
            [a.limbs for a, _ in fitted], [b.limbs for _, b in fitted], key=self.limb_count,
        )  # fmt: skip
        radix = 1 << self.native_exponent
        products = sum((a.bound - 1) * (b.bound - 1) for a, b in fitted)
        bound = (products + (radix - 1) * self.p) // radix + 1
        exponent = fitted[0][0].exponent + fitted[0][1].exponent - self.native_exponent
        return self._made(limbs, bound, exponent)

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

    def _inverse_body(self, k: Builder, a: Element) -> Element:
        scale = pow(2, a.exponent + self.native_exponent, self.p)
        inversion = Inversion64(k, self.modulus, scale, self.limb_count)
        limbs = inversion.inverse(k, a.limbs)
        return self._without_top(limbs, 2 * inversion.size * self.p)

    # --- memory

    def from_words(self, words: Sequence[Value], *, linear: bool = False) -> Element:
        return self._from_memory(words)

    def to_words(self, a: Element) -> tuple[Value, ...]:
        return self._for_memory(a)

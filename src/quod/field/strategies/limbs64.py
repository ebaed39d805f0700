"""Saturated 64-bit limbs: one element per instance, for CPUs without vector multiply-add.

Products are coarsely integrated operand scanning (Koç, Acar, Kaliski, "Analyzing and comparing
Montgomery multiplication algorithms", 1996); LLVM turns its carries into mulx, add and adc. On
machines with `Capability.CARRY_CHAINS` a row is two chains of carries, for both halves of its
products.
"""

from __future__ import annotations

from collections.abc import Sequence

from quod.field.element import Element
from quod.field.moduli import Modulus
from quod.field.strategies.carry_chains import with_carry
from quod.field.strategies.inversion import Inversion64
from quod.field.strategies.saturated import SaturatedLimbs
from quod.field.strategy import Strategy
from quod.kernel.builder.builder import Builder
from quod.kernel.ir import types
from quod.kernel.ir.value import Value
from quod.kernel.machine import Capability, Machine


class Limbs64(SaturatedLimbs):
    """Elements in as many 64-bit limbs as they have words in memory, or one more."""

    limb_bits = 64
    limb_type = types.u64

    # --- products

    def _sum_of_products(self, pairs: Sequence[tuple[Element, Element]]) -> Element:
        fitted_pairs = self._fit_rows(pairs)
        if fitted_pairs is None:
            half = len(pairs) // 2
            return self.add(
                self._sum_of_products(pairs[:half]), self._sum_of_products(pairs[half:])
            )
        limbs = self._call(
            f"sum_of_{len(fitted_pairs)}_products",
            self._sum_body,
            [a.limbs[: self.factor_limbs] for a, _ in fitted_pairs],
            [b.limbs[: self.factor_limbs] for _, b in fitted_pairs],
            key=self.limb_count,
        )
        radix = 1 << self.native_exponent
        max_sum = sum((a.bound - 1) * (b.bound - 1) for a, b in fitted_pairs)
        bound = (max_sum + (radix - 1) * self.p) // radix + 1
        exponent = fitted_pairs[0][0].exponent + fitted_pairs[0][1].exponent - self.native_exponent
        return self._element(limbs, bound, exponent)

    def _rows_fit(self, pairs: Sequence[tuple[Element, Element]]) -> bool:
        return sum(a.bound for a, _ in pairs) + self.p <= self.room

    def _sum_body(
        self, k: Builder, a: Sequence[Sequence[Value]], b: Sequence[Sequence[Value]]
    ) -> tuple[Value, ...]:
        zero = k.constant(0, types.u64)
        inverse = k.constant(-pow(self.p, -1, 1 << 64) % (1 << 64), types.u64)
        n = self.factor_limbs
        modulus = self.raw_constant(self.p).limbs[:n]
        total = [zero] * self.limb_count
        if k.machine.has(Capability.CARRY_CHAINS):
            for i in range(n):
                total = [*total, zero]
                for x, y in zip(a, b, strict=True):
                    total = _add_row(k, total, x, y[i])
                total = _add_row(k, total, modulus, total[0] * inverse)[1:]
            return tuple(total)
        for i in range(n):
            total, upper_limbs = total[:n], [*total[n:], zero]
            for x, y in zip(a, b, strict=True):
                total, high = self._add_multiple(k, total, x, y[i])
                upper_limbs = self._add_limb(k, upper_limbs, high)
            quotient = total[0] * inverse
            total, high = self._add_multiple(k, total, modulus, quotient)
            total = [*total[1:], *self._add_limb(k, upper_limbs, high)]
        return tuple(total)

    def _add_limb(self, k: Builder, number: Sequence[Value], addend: Value) -> list[Value]:
        """Add a limb to a number of one or two limbs."""
        if len(number) == 1:
            return [number[0] + addend]
        low, carry = k.emit_many("add_cc", (number[0], addend))
        return [low, k.emit("addc", (number[1], k.constant(0, types.u64), carry))]

    def _add_multiple(
        self, k: Builder, total: Sequence[Value], a: Sequence[Value], factor: Value
    ) -> tuple[list[Value], Value]:
        """Return the n limbs of total + a * factor, and the limb above."""
        zero = k.constant(0, types.u64)
        limbs: list[Value] = []
        carry_limb: Value = zero
        for limb, x in zip(total, a, strict=True):
            low, high = x * factor, k.emit("mul_hi", (x, factor))
            low, carry = k.emit_many("add_cc", (low, limb))
            high = k.emit("addc", (high, zero, carry))
            low, carry = k.emit_many("add_cc", (low, carry_limb))
            carry_limb = k.emit("addc", (high, zero, carry))
            limbs.append(low)
        return limbs, carry_limb

    def _inverse_body(self, k: Builder, a: Element) -> Element:
        scale = pow(2, a.exponent + self.native_exponent, self.p)
        inversion = Inversion64(k, self.modulus, scale, self.limb_count)
        limbs = inversion.inverse(k, a.limbs)
        return self._reduce_long(limbs, 2 * inversion.size * self.p)

    # --- memory

    def from_words(self, words: Sequence[Value], *, linear: bool = False) -> Element:
        return self._from_memory(words)

    def _to_words(self, a: Element) -> tuple[Value, ...]:
        return self._for_memory(a)


def _add_row(k: Builder, total: Sequence[Value], a: Sequence[Value], factor: Value) -> list[Value]:
    """Add a * factor to a longer number: a chain of low halves, then one of high halves."""
    padding = [k.constant(0, types.u64)] * (len(total) - len(a))
    low = [*(x * factor for x in a), *padding]
    high = [*(k.emit("mul_hi", (x, factor)) for x in a), *padding[1:]]
    total, _ = with_carry(k, "add", total, low)
    upper, _ = with_carry(k, "add", total[1:], high)
    return [total[0], *upper]


def _suits(machine: Machine, modulus: Modulus) -> float | str:
    return 2 * (modulus.words // 2) ** 2


STRATEGY = Strategy(_suits, Limbs64)

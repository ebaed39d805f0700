"""Saturated 64-bit limbs: one element per instance, for CPUs without vector multiply-add.

Products are coarsely integrated operand scanning (Koç, Acar, Kaliski, "Analyzing and comparing
Montgomery multiplication algorithms", 1996). A row is two chains of carries, one for each half of
its products: mulx of x86 and mul and umulh of Arm leave the carry flag alone, so LLVM keeps a
chain in it (docs/design/fields.md).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from quod.field.element import Element
from quod.field.moduli import Modulus
from quod.field.strategies.carry_chains import with_carry
from quod.field.strategies.inversion import Inversion64
from quod.field.strategies.saturated import SaturatedLimbs
from quod.field.strategy import Strategy
from quod.kernel.builder.builder import Builder
from quod.kernel.ir import types
from quod.kernel.ir.value import Value
from quod.kernel.machine import Machine


class Limbs64(SaturatedLimbs):
    """Elements in as many 64-bit limbs as they have words in memory, or one more."""

    limb_bits = 64
    limb_type = types.u64
    # The CPU executes independent calls at the same time.
    interleaved_products = 2

    # --- sums
    #
    # Sums that must be reduced are device functions: inline, they would be most of the code of
    # curves and pairings, more than the cache for instructions holds.

    def add(self, a: Element, b: Element) -> Element:
        self._check_same(a, b)
        if a.bound + b.bound - 1 <= self.standard_bound:
            return super().add(a, b)
        return self._with_standard_bounds("add", self._sum, a, b)

    def subtract(self, a: Element, b: Element) -> Element:
        self._check_same(a, b)
        if a.bound + self._multiple_above(b) <= self.standard_bound:
            return super().subtract(a, b)
        return self._with_standard_bounds("subtract", self._difference, a, b)

    def _with_standard_bounds(
        self, name: str, compute: Callable[[Element, Element], Element], a: Element, b: Element
    ) -> Element:
        """Compute in a device function, whose operands and result are below the standard bound."""
        return self._in_function(name, compute, *self.unify((a, b), self.standard_bound))

    def _sum(self, a: Element, b: Element) -> Element:
        return self._reduce_below(super().add(a, b), self.standard_bound)

    def _difference(self, a: Element, b: Element) -> Element:
        """Return a - b, plus a multiple of p if that is negative."""
        multiple = self._multiple_above(b)
        difference, borrow = with_carry(self.k, "sub", a.limbs, b.limbs)
        is_negative = self._is_set(borrow)
        raised = [
            self.k.select(is_negative, limb, 0) for limb in self.raw_constant(multiple).limbs
        ]  # fmt: skip
        limbs, _ = with_carry(self.k, "add", difference, raised)
        result = self._element(limbs, max(a.bound, multiple), a.exponent)
        return self._reduce_below(result, self.standard_bound)

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
        for i in range(n):
            total = [*total, zero]
            for x, y in zip(a, b, strict=True):
                total = _add_row(k, total, x, y[i])
            total = _add_row(k, total, modulus, total[0] * inverse)[1:]
        return tuple(total)

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

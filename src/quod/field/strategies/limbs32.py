"""Saturated 32-bit limbs: one element per instance, in carry chains of NVIDIA's multiply-add.

See `quod.field.strategies.carry_chains`, `quod.field.strategies.reduction` and
`quod.field.strategies.prepared_products`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

from quod.field.element import Element
from quod.field.moduli import Modulus
from quod.field.strategies.carry_chains import KARATSUBA_WORDS, CarryChains
from quod.field.strategies.inversion import Inversion32
from quod.field.strategies.prepared_products import (
    PreparedProducts,
    prepared_factor,
    prepares,
    product_bound,
)
from quod.field.strategies.reduction import Reducer, row_fits
from quod.field.strategies.saturated import SaturatedLimbs
from quod.field.strategy import Strategy
from quod.kernel.builder.builder import Builder
from quod.kernel.ir import types
from quod.kernel.ir.value import Value
from quod.kernel.machine import Machine

Words = Sequence[Value]


class Limbs32(SaturatedLimbs):
    """Elements in as many 32-bit limbs as they have words in memory, or one more.

    product_form: ``rows`` interleaves the rows of product and reduction; ``karatsuba`` reduces
        after the product, which can then use Karatsuba's method.
    """

    limb_bits = 32
    limb_type = types.u32
    product_form: ClassVar[Literal["rows", "karatsuba"]] = "rows"

    def __init__(self, k: Builder, modulus: Modulus) -> None:
        super().__init__(k, modulus)
        self._reducer = Reducer(CarryChains(k), self.p, self.factor_limbs, self.is_full)
        self.prepares_factors = prepares(modulus)

    def _is_full(self, modulus: Modulus) -> bool:
        return not row_fits(modulus.value, modulus.value, modulus.words)

    # --- products

    def _sum_of_products(self, pairs: Sequence[tuple[Element, Element]]) -> Element:
        if self._reduces_afterwards(pairs):
            return self._sum_then_reduce(pairs)
        fitted_pairs = self._fit_rows(pairs)
        if fitted_pairs is None:
            half = len(pairs) // 2
            return self.add(
                self._sum_of_products(pairs[:half]), self._sum_of_products(pairs[half:])
            )
        rows = [self._rows_of(b) for _, b in fitted_pairs]
        limbs = self._call(
            f"sum_of_{len(fitted_pairs)}_products", self._rows_body,
            [a.limbs[: self.factor_limbs] for a, _ in fitted_pairs], rows,
            key=(self.limb_count, tuple(map(len, rows))), inline=True,
        )  # fmt: skip
        return self._product_element(limbs, fitted_pairs)

    def _rows_of(self, b: Element) -> Words:
        """Return the limbs of a second factor without its highest limbs of static 0."""
        limbs = b.limbs[: self.factor_limbs]
        while len(limbs) > 1 and limbs[-1].constant == 0:
            limbs = limbs[:-1]
        return limbs

    def _reduces_afterwards(self, pairs: Sequence[tuple[Element, Element]]) -> bool:
        """Return whether to reduce after the products, if their sum fits."""
        all_squares = all(a is b for a, b in pairs)
        uses_karatsuba = (
            self.factor_limbs >= 2 * KARATSUBA_WORDS and self.product_form == "karatsuba"
        )
        if not all_squares and not uses_karatsuba:
            return False
        sum_bound = sum((a.bound - 1) * (b.bound - 1) for a, b in pairs) + 1
        return self._reducer.takes(sum_bound) and not self._overflows(
            self._reducer.bound(sum_bound)
        )

    def _sum_then_reduce(self, pairs: Sequence[tuple[Element, Element]]) -> Element:
        is_square = [a is b for a, b in pairs]
        limbs = self._call(
            f"sum_of_{len(pairs)}_products", self._sum_then_reduce_body,
            [a.limbs[: self.factor_limbs] for a, _ in pairs],
            [() if a is b else b.limbs[: self.factor_limbs] for a, b in pairs],
            key=(self.limb_count, tuple(is_square)), inline=True,
        )  # fmt: skip
        return self._product_element(limbs, pairs)

    def _product_element(self, limbs: Words, pairs: Sequence[tuple[Element, Element]]) -> Element:
        sum_bound = sum((a.bound - 1) * (b.bound - 1) for a, b in pairs) + 1
        exponent = pairs[0][0].exponent + pairs[0][1].exponent - self.native_exponent
        return self._element(limbs, self._reducer.bound(sum_bound), exponent)

    def _rows_fit(self, pairs: Sequence[tuple[Element, Element]]) -> bool:
        return self._reducer.fits(sum(a.bound for a, _ in pairs))

    def _rows_body(self, k: Builder, a: Sequence[Words], b: Sequence[Words]) -> tuple[Value, ...]:
        return tuple(self._reducer.multiply(list(zip(a, b, strict=True))))

    def _sum_then_reduce_body(
        self, k: Builder, a: Sequence[Words], b: Sequence[Words]
    ) -> tuple[Value, ...]:
        chains = self._reducer.chains
        total: list[Value] | None = None
        for x, y in zip(a, b, strict=True):
            product = chains.product(x, y) if y else chains.square(x)
            total = product if total is None else chains.add(total, product)[0]
        assert total is not None
        return tuple(self._reducer.reduce(total))

    def multiply_prepared(self, a: Element, words: Words) -> Element:
        return self._multiply_prepared(a, self._halves(words))

    def multiply_constant(self, a: Element, value: int) -> Element:
        if not self.prepares_factors:
            return super().multiply_constant(a, value)
        factor = prepared_factor(self.modulus, value % self.p)
        limbs = self._reducer.chains.constant(factor, 2 * self.factor_limbs)
        return self._multiply_prepared(a, limbs)

    def _multiply_prepared(self, a: Element, factor: Words) -> Element:
        self._check_own(a)
        a, size = self._fit(a), self.factor_limbs
        limbs = self._call(
            "prepared_product", self._prepared_body, a.limbs[:size], factor[:size], factor[size:],
            inline=True,
        )  # fmt: skip
        return self._element(limbs, product_bound(a.bound, self.p, size), a.exponent)

    def _prepared_body(
        self, k: Builder, a: Words, factor: Words, quotient: Words
    ) -> tuple[Value, ...]:
        products = PreparedProducts(self._reducer.chains, self.p, self.factor_limbs)
        return tuple(products.multiply(a, factor, quotient))

    # --- inversion

    def _inverse_body(self, k: Builder, a: Element) -> Element:
        scale = pow(2, a.exponent + self.native_exponent, self.p)
        # `_join` needs an even number of limbs; if `is_full`, there is an odd number.
        words = self._join((*a.limbs, *[k.constant(0, types.u32)] * self.is_full))
        inversion = Inversion32(k, self.modulus, scale, len(words))
        limbs = inversion.inverse(k, words)
        return self._reduce_long(self._halves(limbs), 2 * inversion.size * self.p)

    # --- memory

    def from_words(self, words: Words, *, linear: bool = False) -> Element:
        return self._from_memory(self._halves(words))

    def _to_words(self, a: Element) -> tuple[Value, ...]:
        return self._join(self._for_memory(a))

    def _halves(self, words: Words) -> list[Value]:
        """Split 64-bit words into 32-bit words, low half first."""
        return [half.cast(types.u32) for word in words for half in (word, word >> 32)]

    def _join(self, limbs: Words) -> tuple[Value, ...]:
        """Join pairs of 32-bit words to 64-bit words."""
        wide = [limb.cast(types.u64) for limb in limbs]
        return tuple(low | high << 32 for low, high in zip(wide[::2], wide[1::2], strict=True))


def _suits(machine: Machine, modulus: Modulus) -> float | str:
    return 2 * modulus.words**2


STRATEGY = Strategy(_suits, Limbs32, prepares)

"""Montgomery reduction in 32-bit words, interleaved with the rows of a product or after it.

This is the reduction of Montgomery, "Modular multiplication without trial division", 1985, one word
per row: a multiple of p is added that clears the lowest word, which is then dropped. If the lowest
word of p is 1, the factor needs no product: 2**32 - t clears a lowest word t, and with
u = 2**32 - 1 - t

    t + (u + 1)*p = 2**32 * (1 + (u + 1)*s)      for p = 1 + 2**32 * s,

so a row adds u*s at the next word, and 1 + s, which is added for all rows at once before the first.
If the next word of p is 2**32 - 1, as in the scalar field of BLS12-381, s is 2**32 * z - 1. Then
u*s is u*z at the word after the next, minus u.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from quod.field.strategies.carry_chains import CarryChains, Words
from quod.frozen import frozen
from quod.kernel.ir.value import Value

Pairs = Sequence[tuple[Words, Words]]

_WORD = 1 << 32


@frozen
class ReductionForm:
    """The form of a reduction's rows for one modulus.

    words: the words of an element.
    first: a row of the reduction adds factor * row, from word `first` of the sum on.
    row: see `first`.
    initial: added once before all rows.
    inverse: the factor is the lowest word times this; None: the complement of the lowest word.
    adds_lowest: add the lowest word to the next one.
    max_multiple: the largest multiple of p that all rows together add.
    """

    words: int
    first: int
    row: int
    initial: int
    inverse: int | None
    adds_lowest: bool
    max_multiple: int


@cache
def reduction_form(p: int, words: int) -> ReductionForm:
    """Return the cheapest form for an odd modulus below 2**(32 * words)."""
    all_ones = sum(_WORD**i for i in range(words))
    if p % _WORD != 1:
        inverse = -pow(p, -1, _WORD) % _WORD
        return ReductionForm(words, 0, p, 0, inverse, False, _WORD**words - 1)
    s = p >> 32
    if s % _WORD != _WORD - 1:
        return ReductionForm(words, 1, s, all_ones * _WORD * (s + 1), None, False, all_ones * _WORD)
    z = (s + 1) >> 32
    initial = all_ones * (_WORD + _WORD**2 * (z - 1))
    return ReductionForm(words, 2, z, initial, None, True, all_ones * _WORD)


def row_fits(factors: int, p: int, words: int) -> bool:
    """Return whether rows fit the words if the bounds of the first factors sum to `factors`."""
    return factors + p + (1 << (32 * words - 32)) + 2 <= 1 << (32 * words)


class Reducer:
    """Products with Montgomery reduction modulo one prime, in one kernel.

    is_full: results have one more word than factors.
    """

    def __init__(self, chains: CarryChains, p: int, words: int, is_full: bool = False) -> None:
        self.chains = chains
        self.k = chains.k
        self.p = p
        self.form = reduction_form(p, words)
        self.words = words
        self.is_full = is_full

    def takes(self, products: int) -> bool:
        """Return whether `reduce` accepts all numbers below `products`."""
        return products + self.form.initial <= 1 << (64 * self.words)

    def bound(self, products: int) -> int:
        """Return the exclusive bound of the result, for a sum of products below `products`."""
        max_sum = products - 1 + self.form.max_multiple * self.p
        return max_sum // (1 << (32 * self.words)) + 1

    def fits(self, factors: int) -> bool:
        """Return whether `multiply` accepts pairs whose first factors' bounds sum to `factors`."""
        return row_fits(factors, self.p, self.words + self.is_full)

    def reduce(self, number: Words) -> list[Value]:
        """Return (number + a multiple of p) / 2**(32 * words), for a number of 2 * words words."""
        form, chains = self.form, self.chains
        if form.initial:
            number, _ = chains.add(number, chains.constant(form.initial, 2 * self.words))
        return self._rows(number, ())

    def multiply(self, pairs: Pairs) -> list[Value]:
        """Return the sum of a * b over all pairs, reduced; each row of products is reduced at once.

        The second factors may have fewer words.
        """
        initial: list[Value | None] = [None] * (2 * self.words)
        if self.form.initial:
            constant = self.chains.constant(self.form.initial, 2 * self.words)
            initial = list(constant)
        return self._rows(initial, pairs)

    def _rows(self, number: Sequence[Value | None], pairs: Pairs) -> list[Value]:
        """Run all rows.

        In row i, `even` holds words i to i + n - 1, and `odd` words i + 1 to i + n.
        If `is_full`, `odd` also holds word i + n + 1. The two swap roles after each row: word i + 1
        of the old `even` is then added to the new one, and its carry enters the next chain.
        """
        k, n = self.k, self.words
        even: list[Value | None] = list(number[:n])
        odd: list[Value | None] = [None] * (n + self.is_full)
        for i in range(n):
            carry: Value | None = None
            if i > 0:
                even_word = even[1]
                shifted = [*even[2:], number[n + i - 1], *odd[n:], None]
                even, odd = odd[:n], shifted
                if even_word is not None and even[0] is not None:
                    even[0], carry = k.emit_many("add_cc", (even[0], even_word))
                elif even_word is not None:
                    even[0] = even_word
            row_factors = [(a, b[i]) for a, b in pairs if i < len(b)]
            if carry is not None and row_factors:
                # The carry belongs to word i + 1, where the row of odd words begins.
                odd, carry = self._odd_row(odd, row_factors[0][0][1::2], row_factors[0][1], carry)
                odd, even = self._even_row(odd, even, 0, row_factors[0][0][0::2], row_factors[0][1])
                row_factors = row_factors[1:]
                assert carry is None
            for multiplicand, factor in row_factors:
                odd, _ = self._odd_row(odd, multiplicand[1::2], factor, None)
                odd, even = self._even_row(odd, even, 0, multiplicand[0::2], factor)
            even, odd = self._reduce_row(even, odd, carry)
        merged = [self.chains.word_or_zero(word) for word in odd]
        last = [*even[1:], number[2 * n - 1], *[None] * self.is_full]
        total, _ = self.chains.add(merged, [self.chains.word_or_zero(word) for word in last])
        return total

    def _odd_row(
        self, odd: list[Value | None], multiplicand: Words, factor: Value, carry: Value | None
    ) -> tuple[list[Value | None], None]:
        """Add a row of the odd words; the carry that is returned is always None."""
        words, carry = self.chains.multiply_row(odd, 0, multiplicand, factor, carry)
        return self._carry_to_top(words, carry), None

    def _carry_to_top(self, odd: list[Value | None], carry: Value | None) -> list[Value | None]:
        """Add a carry to the last word if `is_full`; otherwise the carry is always 0."""
        if carry is None or not self.is_full:
            return odd
        top = self.chains.word_or_zero(odd[-1])
        return [*odd[:-1], self.k.emit("addc", (top, self.chains.zero, carry))]

    def _even_row(
        self, odd: list[Value | None], even: list[Value | None], first: int, multiplicand: Words,
        factor: Value, carry: Value | None = None,
    ) -> tuple[list[Value | None], list[Value | None]]:  # fmt: skip
        """Add a row of the even words, whose carry goes to the top of the odd ones."""
        even, carry = self.chains.multiply_row(even, first, multiplicand, factor, carry)
        if carry is not None and self.is_full:
            top_index = self.words - 1
            operands = (self.chains.word_or_zero(odd[top_index]), self.chains.zero, carry)
            word, carry = self.k.emit_many("addc_cc", operands)
            odd = self._carry_to_top([*odd[:top_index], word, *odd[top_index + 1 :]], carry)
        elif carry is not None:
            top = self.chains.word_or_zero(odd[-1])
            odd = [*odd[:-1], self.k.emit("addc", (top, self.chains.zero, carry))]
        return odd, even

    def _reduce_row(
        self, even: list[Value | None], odd: list[Value | None], carry: Value | None
    ) -> tuple[list[Value | None], list[Value | None]]:
        """Clear the lowest word; `carry` belongs to word 1, the first of `odd`."""
        form, k, n = self.form, self.k, self.words
        lowest = even[0]
        assert lowest is not None
        if form.inverse is not None:
            factor = lowest * form.inverse
        else:
            factor = ~lowest
        row = self.chains.constant(form.row, n - form.first)
        even_row, odd_row = (
            (row[0::2], row[1::2]) if form.first % 2 == 0 else (row[1::2], row[0::2])
        )
        # The index in each sum at which the words of the row begin.
        even_start = form.first if form.first % 2 == 0 else form.first + 1
        odd_start = form.first if form.first % 2 == 0 else form.first - 1
        if carry is not None and odd_start > 0:
            odd, carry = self._propagate_carry(odd, odd_start, carry)
        odd, carry = self.chains.multiply_row(odd, odd_start, odd_row, factor, carry)
        odd = self._carry_to_top(odd, carry)
        carry_into_even: Value | None = None
        if form.adds_lowest:
            if even[1] is None:
                even = [even[0], lowest, *even[2:]]
            else:
                word, carry_into_even = k.emit_many("add_cc", (even[1], lowest))
                even = [even[0], word, *even[2:]]
        odd, even = self._even_row(odd, even, even_start, even_row, factor, carry_into_even)
        return even, odd

    def _propagate_carry(
        self, odd: list[Value | None], count: int, carry: Value
    ) -> tuple[list[Value | None], Value]:
        """Add a carry to the lowest `count` words; return the words and the carry out of them."""
        words = list(odd)
        for j in range(count):
            word = self.chains.word_or_zero(words[j])
            words[j], carry = self.k.emit_many("addc_cc", (word, self.chains.zero, carry))
        return words, carry

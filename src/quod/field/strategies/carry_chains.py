"""Products of long integers in saturated 32-bit words, by carry chains of NVIDIA's multiply-add.

A word product and its addition to a 64-bit sum are one instruction (IMAD.WIDE), if the low and the
high half are added to neighbouring words in one carry chain. The products of a row overlap by a
word, so each row goes into two sums, of the products at even and at odd positions, which are added
once at the end. Additions execute concurrently with the multiplier.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from quod.kernel.ir import types
from quod.kernel.ir.value import Value

if TYPE_CHECKING:
    from quod.kernel.builder.builder import Builder

Words = Sequence[Value]

KARATSUBA_WORDS = 6
"""The smallest half, in words, for which products use Karatsuba's method."""

_CARRY_OPS = {"add": ("add_cc", "addc_cc"), "sub": ("sub_cc", "subc_cc")}


def with_carry(
    k: Builder, operation: Literal["add", "sub"], a: Words, b: Words
) -> tuple[list[Value], Value]:
    """Return the words of a sum or difference of equally long integers, and its carry or borrow."""
    first_op, next_op = _CARRY_OPS[operation]
    word, carry = k.emit_many(first_op, (a[0], b[0]))
    words = [word]
    for x, y in zip(a[1:], b[1:], strict=True):
        word, carry = k.emit_many(next_op, (x, y, carry))
        words.append(word)
    return words, carry


class CarryChains:
    """Arithmetic of unsigned numbers of 32-bit words, lowest first, in one kernel."""

    def __init__(self, k: Builder) -> None:
        self.k = k

    @property
    def zero(self) -> Value:
        """The word 0."""
        return self.k.constant(0, types.u32)

    def constant(self, number: int, count: int) -> list[Value]:
        """Return the words of a number below 2**(32 * count)."""
        return [self.k.constant((number >> (32 * j)) & 0xFFFFFFFF, types.u32) for j in range(count)]

    def word_or_zero(self, word: Value | None) -> Value:
        """Return the word, or zero for None."""
        return self.zero if word is None else word

    # --- sums

    def add(self, a: Words, b: Words) -> tuple[list[Value], Value]:
        """Return a + b modulo 2**(32 * words), and the carry; a and b have equally many words."""
        return with_carry(self.k, "add", a, b)

    def subtract(self, a: Words, b: Words) -> tuple[list[Value], Value]:
        """Return a - b modulo 2**(32 * words), and the borrow."""
        return with_carry(self.k, "sub", a, b)

    def mask(self, borrow: Value) -> Value:
        """Return a word of all ones if there was a borrow, else 0."""
        return self.k.emit("subc", (self.zero, self.zero, borrow))

    def carry_word(self, carry: Value) -> Value:
        """Return the carry as a word."""
        return self.k.emit("addc", (self.zero, self.zero, carry))

    # --- rows

    def multiply_row(
        self, sum_: Sequence[Value | None], first: int, multiplicand: Words, factor: Value,
        carry: Value | None = None,
    ) -> tuple[list[Value | None], Value | None]:  # fmt: skip
        """Add multiplicand[i] * factor to words first + 2*i and first + 2*i + 1 of a sum.

        Returns the sum and the carry out. A word of None is zero. The carry is None if the highest
        word that is added to was None.
        """
        k = self.k
        words = list(sum_)
        for i, x in enumerate(multiplicand):
            index = first + 2 * i
            low, high = words[index], words[index + 1]
            if low is None and high is None and carry is None:
                words[index], words[index + 1] = x * factor, k.emit("mul_hi", (x, factor))
                continue
            operands = (x, factor, self.word_or_zero(low))
            if carry is None:
                words[index], carry = k.emit_many("mad_lo_cc", operands)
            else:
                words[index], carry = k.emit_many("madc_lo_cc", (*operands, carry))
            if high is None:
                # x * factor, a word and a carry fit in two words.
                words[index + 1] = k.emit("madc_hi", (x, factor, self.zero, carry))
                carry = None
            else:
                words[index + 1], carry = k.emit_many("madc_hi_cc", (x, factor, high, carry))
        return words, carry

    # --- products

    def product(self, a: Words, b: Words) -> list[Value]:
        """Return a * b in len(a) + len(b) words."""
        if len(a) == len(b) and len(a) % 2 == 0 and len(a) >= 2 * KARATSUBA_WORDS:
            return self._karatsuba(a, b)
        return self.schoolbook(a, b)

    def schoolbook(self, a: Words, b: Words) -> list[Value]:
        """Return a * b, adding a row for each word of b."""
        size = len(a) + len(b)
        even_sum: list[Value | None] = [None] * size
        odd_sum: list[Value | None] = [None] * size
        for i, factor in enumerate(b):
            if i % 2 == 0:
                even_sum = self._row(even_sum, i, a[0::2], factor)
                odd_sum = self._row(odd_sum, i, a[1::2], factor)
            else:
                odd_sum = self._row(odd_sum, i - 1, a[0::2], factor)
                even_sum = self._row(even_sum, i + 1, a[1::2], factor)
        return self._join(even_sum, odd_sum)

    def high_product(self, a: Words, b: Words, first_column: int) -> list[Value]:
        """Return the words of a * b from `first_column` on, without the products of lower columns.

        a[i] * b[j] is in column i + j; a and b have equally many words, more than `first_column`.
        """
        size = 2 * len(a) - first_column
        even_sum: list[Value | None] = [None] * size
        odd_sum: list[Value | None] = [None] * size
        for i, factor in enumerate(b):
            for start in (max(0, first_column - i), max(0, first_column - i) + 1):
                word = start + i - first_column
                if word % 2 == 0:
                    even_sum = self._row(even_sum, word, a[start::2], factor)
                else:
                    odd_sum = self._row(odd_sum, word - 1, a[start::2], factor)
        return self._join(even_sum, odd_sum)

    def low_product(self, a: Words, b: Words, size: int) -> list[Value]:
        """Return a * b modulo 2**(32 * size)."""
        even_sum: list[Value | None] = [None] * size
        odd_sum: list[Value | None] = [None] * (size - 1)
        for i, factor in enumerate(b[:size]):
            for start in (0, 1):
                multiplicand = a[start : size - i : 2]
                if (i + start) % 2 == 0:
                    even_sum = self._low_row(even_sum, i + start, multiplicand, factor)
                else:
                    odd_sum = self._low_row(odd_sum, i + start - 1, multiplicand, factor)
        return self._join(even_sum, odd_sum)

    def _low_row(
        self, sum_: list[Value | None], first: int, multiplicand: Words, factor: Value
    ) -> list[Value | None]:
        """Add a row of products modulo the range of a sum, whose highest words the row reaches."""
        reaches_half = first + 2 * len(multiplicand) > len(sum_)
        pairs = multiplicand[:-1] if reaches_half else multiplicand
        words, carry = self.multiply_row(sum_, first, pairs, factor) if pairs else (sum_, None)
        if not reaches_half:
            return list(words)
        top = multiplicand[-1] * factor
        if words[-1] is not None:
            top = top + words[-1]
        if carry is not None:
            top = self.k.emit("addc", (top, self.zero, carry))
        return [*words[:-1], top]

    def _row(
        self, sum_: list[Value | None], first: int, multiplicand: Words, factor: Value
    ) -> list[Value | None]:
        """Add a row of products; its carry goes to the word after the row, which must not
        overflow."""
        if not multiplicand:
            return sum_
        words, carry = self.multiply_row(sum_, first, multiplicand, factor)
        if carry is not None:
            carry_index = first + 2 * len(multiplicand)
            carry_target = words[carry_index]
            words[carry_index] = self.k.emit(
                "addc", (self.word_or_zero(carry_target), self.zero, carry)
            )
        return words

    def _join(self, even: list[Value | None], odd: list[Value | None]) -> list[Value]:
        """Return even + 2**32 * odd, in as many words as each of the two sums has."""
        words = [self.word_or_zero(even[0])]
        upper_words = [self.word_or_zero(word) for word in even[1:]]
        total, _ = self.add(
            upper_words, [self.word_or_zero(word) for word in odd[: len(upper_words)]]
        )
        return words + total

    def _karatsuba(self, a: Words, b: Words) -> list[Value]:
        """Multiply by three half products: a0*b1 + a1*b0 = a0*b0 + a1*b1 + (a0 - a1)*(b1 - b0)."""
        half = len(a) // 2
        low = self.product(a[:half], b[:half])
        high = self.product(a[half:], b[half:])
        x, x_sign = self._difference(a[:half], a[half:])
        y, y_sign = self._difference(b[half:], b[:half])
        middle = self.product(x, y)
        sign = x_sign ^ y_sign
        # -m is ~m + 1: where the sign is set, all words are flipped, and the chain begins with a
        # carry.
        flipped = [word ^ sign for word in middle]
        _, carry = self.k.emit_many("add_cc", (sign, sign))
        words = []
        for low_word, middle_word in zip(low, flipped, strict=True):
            word, carry = self.k.emit_many("addc_cc", (low_word, middle_word, carry))
            words.append(word)
        top = self.k.emit("addc", (sign, self.zero, carry))
        words, carry = self.add(words, high)
        top = self.k.emit("addc", (top, self.zero, carry))
        total, carry = self.add([*low[half:], *high[:half]], words)
        result = [*low[:half], *total]
        word, carry = self.k.emit_many("addc_cc", (high[half], top, carry))
        result.append(word)
        for word in high[half + 1 : -1]:
            word, carry = self.k.emit_many("addc_cc", (word, self.zero, carry))
            result.append(word)
        return [*result, self.k.emit("addc", (high[-1], self.zero, carry))]

    def _difference(self, a: Words, b: Words) -> tuple[list[Value], Value]:
        """Return abs(a - b), and a word of all ones if a < b."""
        words, borrow = self.subtract(a, b)
        sign = self.mask(borrow)
        flipped = [word ^ sign for word in words]
        _, carry = self.k.emit_many("add_cc", (sign, sign))
        result = []
        for word in flipped:
            word, carry = self.k.emit_many("addc_cc", (word, self.zero, carry))
            result.append(word)
        return result, sign

    def square(self, a: Words) -> list[Value]:
        """Return a * a: twice the products of two different words, plus the squares of words."""
        size = 2 * len(a)
        even: list[Value | None] = [None] * size
        odd: list[Value | None] = [None] * size
        for i, factor in enumerate(a[:-1]):
            # a[j] * a[i] for j > i belongs to word i + j, in the sum for the parity of i + j.
            odd_row, even_row = a[i + 1 :: 2], a[i + 2 :: 2]
            odd = self._row(odd, 2 * i, odd_row, factor)
            even = self._row(even, 2 * i + 2, even_row, factor)
        doubled, _ = self._double(self._join(even, odd))
        # The lowest product of different words, a[0] * a[1], begins at word 1, so word 0 is 0.
        words: list[Value | None] = [None, *doubled[1:]]
        carry: Value | None = None
        result: list[Value] = []
        for i, x in enumerate(a):
            low, high = self.word_or_zero(words[2 * i]), doubled[2 * i + 1]
            if carry is None:
                word, carry = self.k.emit_many("mad_lo_cc", (x, x, low))
            else:
                word, carry = self.k.emit_many("madc_lo_cc", (x, x, low, carry))
            result.append(word)
            if i + 1 < len(a):
                word, carry = self.k.emit_many("madc_hi_cc", (x, x, high, carry))
            else:
                word = self.k.emit("madc_hi", (x, x, high, carry))
            result.append(word)
        return result

    def _double(self, a: Words) -> tuple[list[Value], Value]:
        return self.add(a, a)

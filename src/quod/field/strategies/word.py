"""The base class of fields whose elements fit one machine word, without carries.

An element is any value of the word, with an exact bound; the prime may fill the word. Overflow is
corrected immediately: p is subtracted from a sum that wrapped, and added to a negative difference.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

from quod.field.arithmetic import exact_integer
from quod.field.element import Element
from quod.field.moduli import Modulus
from quod.field.prime import PrimeField
from quod.kernel.builder.builder import Builder
from quod.kernel.errors import TraceError
from quod.kernel.ir.value import Value


class OneWord(PrimeField):
    """Elements in one word of `limb_bits` bits, with the radix that they have in memory."""

    limb_count = 1

    def __init__(self, k: Builder, modulus: Modulus) -> None:
        self.room = 1 << self.limb_bits
        super().__init__(k, modulus)
        self.native_exponent = self.memory_exponent

    # --- what a width provides

    @abstractmethod
    def _wide_product(self, a: Value, b: Value) -> tuple[Value, Value]:
        """Return the low and the high word of a product."""

    def _product_word(self, a: Element, b: Element) -> tuple[Value, int]:
        """Return the word of a Montgomery product, and its bound, for elements of any bound.

        With q = a*b/p modulo the word's range, a*b - q*p has a low word of zeros, so the result is
        the difference of the high words.
        """
        low, high = self._wide_product(a.limbs[0], b.limbs[0])
        return self._reduce_halves(low, high, (a.bound - 1) * (b.bound - 1) >> self.limb_bits)

    def _reduce_halves(self, low: Value, high: Value, max_high: int) -> tuple[Value, int]:
        """Reduce two words by Montgomery's method; the high word is at most `max_high`."""
        k = self.k
        quotient = low * self._number(pow(self.p, -1, self.room))
        _, quotient_high = self._wide_product(quotient, self._number(self.p))
        if 2 * self.p <= self.room:
            high, bound = lessened(k, high, max_high + 1, self.room - self.p, self.p)
            max_high = bound - 1
        if max_high + self.p < self.room:
            return high + self.p - quotient_high, max_high + self.p + 1
        difference = high - quotient_high
        word = k.select(high < quotient_high, difference + self.p, difference)
        return word, max(max_high + 1, self.p)

    # --- words

    def _supports(self, modulus: Modulus) -> bool:
        return self._holds(modulus)

    def _limbs_for(self, modulus: Modulus) -> int:
        return 1

    def _number(self, number: int) -> Value:
        return self.k.constant(number, self.limb_type)

    def _element(self, word: Value, bound: int, exponent: int) -> Element:
        return Element(self, (word,), bound, (bound - 1,), exponent)

    def _normalise(self, a: Element) -> Element:
        return a

    def _fit(self, a: Element) -> Element:
        """Return the element unchanged: products accept all values of a word."""
        return a

    @property
    def standard_bound(self) -> int:
        """The standard bound of elements: 2p, which needs few reductions, or a word's range."""
        return min(2 * self.p, self.room)

    # --- linear operations

    def add(self, a: Element, b: Element) -> Element:
        self._check_same(a, b)
        if a.bound + b.bound - 1 <= self.room:
            return self._element(a.limbs[0] + b.limbs[0], a.bound + b.bound - 1, a.exponent)
        a, b = (a, b) if a.bound >= b.bound else (b, a)
        b = self._reduce_below(b, self.p)
        x, y = a.limbs[0], b.limbs[0]
        total = x + y
        if a.bound + b.bound - 1 <= self.room:
            return self._element(total, a.bound + b.bound - 1, a.exponent)
        # A sum that wrapped exceeds the range by less than p, so subtracting p gives a valid word.
        return self._element(self.k.select(total < x, total - self.p, total), self.room, a.exponent)

    def subtract(self, a: Element, b: Element) -> Element:
        self._check_same(a, b)
        multiple = -(-(b.bound - 1) // self.p) * self.p
        if a.bound + multiple <= self.room:
            word = a.limbs[0] + multiple - b.limbs[0]
            return self._element(word, a.bound + multiple, a.exponent)
        b = self._reduce_below(b, self.p)
        x, y = a.limbs[0], b.limbs[0]
        difference = x - y
        word = self.k.select(x < y, difference + self.p, difference)
        return self._element(word, max(a.bound, self.p), a.exponent)

    # --- products

    def _product(self, a: Element, b: Element) -> Element:
        word, bound = self._product_word(a, b)
        return self._element(word, bound, a.exponent + b.exponent - self.native_exponent)

    def _square(self, a: Element) -> Element:
        return self._product(a, a)

    def _sum_of_products(self, pairs: Sequence[tuple[Element, Element]]) -> Element:
        if len(pairs) == 1:
            return self._product(*pairs[0])
        word, bound = self._sum_words(pairs)
        (a, b), *_ = pairs
        return self._element(word, bound, a.exponent + b.exponent - self.native_exponent)

    def _reduce_factors(
        self, pairs: Sequence[tuple[Element, Element]], room: int
    ) -> Sequence[tuple[Element, Element]]:
        """Return the pairs; reduce factors below p if the sum of products could reach `room`."""
        if sum((a.bound - 1) * (b.bound - 1) for a, b in pairs) < room:
            return pairs
        return [(self._reduce_below(a, self.p), self._reduce_below(b, self.p)) for a, b in pairs]

    @abstractmethod
    def _sum_words(self, pairs: Sequence[tuple[Element, Element]]) -> tuple[Value, int]:
        """Return the word of a sum of products, reduced once, and its bound."""

    def times(self, a: Element, factor: int) -> Element:
        """Return factor * a for a small integer, by a product if it takes over two additions."""
        factor = exact_integer("a factor", factor)
        if abs(factor) <= 3:
            return super().times(a, factor)
        scaled = self.multiply_constant(a, abs(factor))
        return self.negate(scaled) if factor < 0 else scaled

    # --- reductions

    def _reduce(self, a: Element, bound: int | None) -> Element:
        return self._reduce_below(a, min(bound or 2 * self.p, self.room))

    def _reduce_below(self, a: Element, target_bound: int) -> Element:
        """Subtract multiples of p until the element is below `target_bound`."""
        word, bound = lessened(self.k, a.limbs[0], a.bound, target_bound, self.p)
        return self._element(word, bound, a.exponent)

    def _canonical(self, a: Element) -> Element:
        return self._reduce_below(a, self.p)

    # --- inversion

    def _inverse_body(self, k: Builder, a: Element) -> Element:
        """Return a**(p - 2) by a loop over bits, which keeps the code small."""
        bits = (self.p - 2).bit_length()
        base = self._element(a.limbs[0], a.bound, self.native_exponent)
        # The bits from the highest one on, at the top of the word.
        exponent = self._number((self.p - 2) << (self.limb_bits - bits))
        with k.range(0, bits, carry=(self.bounded(self.one()), exponent)) as loop:
            power, remaining = loop.carried
            squared = self.bounded(self.square(power))
            product = self.bounded(self.multiply(squared, base))
            is_set = remaining >> (self.limb_bits - 1) != 0
            loop.next((self.select(is_set, product, squared), remaining << 1))
        inverse: Element = loop.results[0]
        if a.exponent == self.native_exponent:
            return inverse
        # `base` has the word of a in the native radix; the result is corrected for that.
        correction = pow(2, a.exponent - self.native_exponent, self.p)
        return self.multiply(inverse, self.constant(correction))

    # --- memory

    def from_words(self, words: Sequence[Value], *, linear: bool = False) -> Element:
        (word,) = words
        return self._element(word, self.p, self.memory_exponent)

    def _of_integer(self, words: Sequence[Value], bits: int) -> Element:
        (word,) = words
        return self._element(word, min(1 << bits, self.room), self.memory_exponent)

    def _to_words(self, a: Element) -> tuple[Value, ...]:
        if a.exponent != self.memory_exponent:
            raise TraceError(
                "an element with this Montgomery radix cannot be stored; multiply it by a constant "
                "first"
            )
        return self._reduce_below(a, self.p).limbs


def lessened(k: Builder, word: Value, bound: int, target_bound: int, p: int) -> tuple[Value, int]:
    """Subtract multiples of p until a word is below `target_bound`, which is p or more.

    A subtraction that would wrap is skipped by a minimum. Returns the word and its bound.
    """
    while bound > target_bound:
        amount = p
        while 2 * amount < bound:
            amount *= 2
        word = k.minimum(word, word - amount)
        bound = max(amount, bound - amount)
    return word, bound

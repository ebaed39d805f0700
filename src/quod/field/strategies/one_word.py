"""Fields whose elements fit one machine word, of 32 or 64 bits: products, and sums of products."""

from __future__ import annotations

from collections.abc import Sequence

from quod.field.element import Element
from quod.field.moduli import Modulus
from quod.field.running_sum import RunningSum
from quod.field.strategies.carry_chains import CarryChains
from quod.field.strategies.word import OneWord, lessened
from quod.field.strategy import Strategy
from quod.kernel.builder.builder import Builder
from quod.kernel.ir import types
from quod.kernel.ir.value import Value
from quod.kernel.machine import Capability, Machine

_FOLD = (1 << 32) - 1
"""The low half of a 64-bit word, and 2**64 modulo 2**64 - 2**32 + 1."""


class Word32(OneWord):
    """Primes below 2**32 in Montgomery form."""

    limb_bits = 32
    limb_type = word_type = types.u32

    def _holds(self, modulus: Modulus) -> bool:
        return modulus.words == 1 and not modulus.is_plain

    def _wide_product(self, a: Value, b: Value) -> tuple[Value, Value]:
        product = self.k.emit("mul_wide", (a, b))
        return product.cast(types.u32), (product >> 32).cast(types.u32)

    def _product_word(self, a: Element, b: Element) -> tuple[Value, int]:
        return self._reduced(*self._full_product(a, b))

    def _reduced(self, product: Value, bound: int) -> tuple[Value, int]:
        """Reduce a*b by adding q*p with q = -a*b/p modulo 2**32, by one multiply-add if it fits."""
        max_sum = bound - 1 + (self.room - 1) * self.p
        low = product.cast(types.u32)
        if max_sum >> 64:
            return self._reduce_halves(low, (product >> 32).cast(types.u32), bound - 1 >> 32)
        inverse = -pow(self.p, -1, self.room) % self.room
        if _is_vector(self.k):
            # Vectors multiply the low halves of 64-bit words, and 32-bit words in more steps.
            multiple = ((product & _FOLD) * inverse & _FOLD) * self.p
        else:
            multiple = self.k.emit("mul_wide", (low * self._number(inverse), self._number(self.p)))
        return (product + multiple >> 32).cast(types.u32), (max_sum >> 32) + 1

    def _sum_words(self, pairs: Sequence[tuple[Element, Element]]) -> tuple[Value, int]:
        """Add products in 64 bits, modulo 2**32 * p if they need more."""
        pairs = self._reduce_factors(pairs, 1 << 64)
        total, bound = self._full_product(*pairs[0])
        for pair in pairs[1:]:
            total, bound = self._accumulate(total, bound, *self._full_product(*pair))
        return self._reduced(total, bound)

    def _full_product(self, a: Element, b: Element) -> tuple[Value, int]:
        product = self.k.emit("mul_wide", (a.limbs[0], b.limbs[0]))
        return product, (a.bound - 1) * (b.bound - 1) + 1

    def _accumulate(
        self, total: Value, bound: int, product: Value, product_bound: int
    ) -> tuple[Value, int]:
        """Add two 64-bit numbers with bounds, modulo 2**32 * p; return the sum and its bound."""
        limit, unit = 1 << 64, self.p << 32
        if bound + product_bound - 1 > limit:
            total, bound = lessened(self.k, total, bound, unit, unit)
        if bound + product_bound - 1 > limit:
            product, product_bound = lessened(self.k, product, product_bound, unit, unit)
        sum_ = total + product
        if bound + product_bound - 1 <= limit:
            return sum_, bound + product_bound - 1
        # A sum that wrapped exceeds the range by less than the unit, as in `add`.
        return self.k.select(sum_ < total, sum_ - unit, sum_), limit


class Mersenne32(Word32):
    """Primes p = 2**n - 1 below 2**32 in plain form, such as M31.

    2**n is 1 modulo p, so reduction adds the bits above n to the lower ones ("folds" them).
    """

    def _holds(self, modulus: Modulus) -> bool:
        return modulus.words == 1 and modulus.is_plain

    @property
    def standard_bound(self) -> int:
        """The standard bound of elements: p, as folded products of larger factors may overflow."""
        return self.p

    def _product_word(self, a: Element, b: Element) -> tuple[Value, int]:
        # The second factor is shifted; a constant factor should be the second one.
        if b.bound > self.p + 1:
            a, b = b, a
        if b.bound > self.p + 1:
            b = self._reduce_below(b, self.p)
        if self._max_folded(a, b) >= self.room:
            a = self._reduce_below(a, self.p)
        # With the shift, the bits of the product above n are exactly the high word.
        spare_bits = self.limb_bits - self.modulus.bits
        low, high = self._wide_product(a.limbs[0], b.limbs[0] << spare_bits)
        return (low >> spare_bits) + high, self._max_folded(a, b) + 1

    def _sum_words(self, pairs: Sequence[tuple[Element, Element]]) -> tuple[Value, int]:
        """Add products in 64 bits, folding them if they need more."""
        pairs = self._reduce_factors(pairs, 1 << 64)
        bits = self.modulus.bits
        total, bound = self._full_product(*pairs[0])
        for pair in pairs[1:]:
            total, bound = self._accumulate(total, bound, *self._full_product(*pair))
        while (bound - 1 >> bits) + self.p >= self.room:
            total, bound = self._fold(total, bound)
        low, high = total.cast(types.u32) & self.p, (total >> bits).cast(types.u32)
        return low + high, (bound - 1 >> bits) + self.p + 1

    def _accumulate(
        self, total: Value, bound: int, product: Value, product_bound: int
    ) -> tuple[Value, int]:
        if bound + product_bound - 1 > 1 << 64:
            total, bound = self._fold(total, bound)
        if bound + product_bound - 1 > 1 << 64:
            product, product_bound = self._fold(product, product_bound)
        return total + product, bound + product_bound - 1

    def _fold(self, word: Value, bound: int) -> tuple[Value, int]:
        """Fold a 64-bit number: add the bits above n to the lower ones."""
        bits = self.modulus.bits
        return (word & self.p) + (word >> bits), (bound - 1 >> bits) + self.p + 1

    def _max_folded(self, a: Element, b: Element) -> int:
        """Return the maximum of a folded product."""
        return ((a.bound - 1) * (b.bound - 1) >> self.modulus.bits) + self.p

    def _reduce_below(self, a: Element, target_bound: int) -> Element:
        """Fold while the number may be 2p or more, then subtract p."""
        while a.bound > target_bound:
            folded_bound = self.p + (a.bound - 1 >> self.modulus.bits) + 1
            if a.bound <= 2 * self.p or folded_bound >= a.bound:
                return super()._reduce_below(a, target_bound)
            word = (a.limbs[0] & self.p) + (a.limbs[0] >> self.modulus.bits)
            a = self._element(word, folded_bound, a.exponent)
        return a


class Word64(OneWord):
    """Primes from 2**32 to 2**64 in Montgomery form."""

    limb_bits = 64
    limb_type = word_type = types.u64

    def _holds(self, modulus: Modulus) -> bool:
        return modulus.words == 2 and not modulus.is_plain

    def _wide_product(self, a: Value, b: Value) -> tuple[Value, Value]:
        k = self.k
        if not _is_vector(k):
            return a * b, k.emit("mul_hi", (a, b))

        # Vectors multiply halves in 64-bit words; for shorter words LLVM emits more instructions.
        mask = _FOLD
        (low_a, high_a), (low_b, high_b) = ((x & mask, x >> 32) for x in (a, b))
        # None of these wraps: (2**32 - 1)**2 + 2 * (2**32 - 1) is 2**64 - 1.
        low = low_a * low_b
        middle = high_a * low_b + (low >> 32)
        other = low_a * high_b + (middle & mask)
        high = high_a * high_b + (middle >> 32) + (other >> 32)
        return (low & mask) | (other << 32), high

    def _sum_words(self, pairs: Sequence[tuple[Element, Element]]) -> tuple[Value, int]:
        """Add low words with their carries, and high words modulo p."""
        low, total = self._halves(*pairs[0])
        for pair in pairs[1:]:
            product_low, product_high = self._halves(*pair)
            # The high word of a product has room for a carry.
            low, high = self._add_with_carry(low, product_low, product_high.limbs[0])
            total = self.add(total, self._element(high, product_high.bound + 1, 0))
        return self._reduce_halves(low, total.limbs[0], total.bound - 1)

    def _halves(self, a: Element, b: Element) -> tuple[Value, Element]:
        """Return the low word of a product, and the high word as an element with a bound."""
        low, high = self._wide_product(a.limbs[0], b.limbs[0])
        return low, self._element(high, ((a.bound - 1) * (b.bound - 1) >> 64) + 1, 0)

    def _add_with_carry(self, a: Value, b: Value, high_word: Value) -> tuple[Value, Value]:
        """Return the sum of two words, and `high_word` plus its carry, which must not overflow."""
        k = self.k
        if k.machine.has(Capability.CARRY):
            total, carry = k.emit_many("add_cc", (a, b))
            return total, k.emit("addc", (high_word, self._number(0), carry))
        total = a + b
        return total, high_word + (total < a).cast(types.u64)


_COLUMN_BITS = 52
_COLUMN_MASK = (1 << _COLUMN_BITS) - 1
_COLUMN_TERMS = 1023
"""The number of terms between two carries of the columns.

A product adds at most three halves of 52 bits to a column, so these terms use three quarters of the
range of the 12 spare bits."""
_HALF_ORDER = 96
"""The exponent of the power of two that is -1 modulo 2**64 - 2**32 + 1."""

_POWERS_OF_TWO = {pow(2, i, (1 << 64) - _FOLD): i for i in range(2 * _HALF_ORDER)}
"""The exponent of each power of two, by its residue."""


class Goldilocks(Word64):
    """p = 2**64 - 2**32 + 1 in plain form: 2**64 is 2**32 - 1, and 2**96 is -1.

    On machines with 32-bit carries, arithmetic uses two 32-bit words.
    """

    def __init__(self, k: Builder, modulus: Modulus) -> None:
        super().__init__(k, modulus)
        self._chains = CarryChains(k) if k.machine.has(Capability.MAD_CARRY_32) else None

    def _holds(self, modulus: Modulus) -> bool:
        return modulus.words == 2 and modulus.is_plain

    def _product_word(self, a: Element, b: Element) -> tuple[Value, int]:
        k = self.k
        low, high = self._wide_product(a.limbs[0], b.limbs[0])
        if self._chains is not None:
            return self._join(self._reduced([*self._split(low), *self._split(high)])), self.p
        # As in `_reduced`, in 64-bit words: a sum has wrapped if it is below one of its terms.
        zero, fold = self._number(0), self._number(_FOLD)
        total = low + ((high & _FOLD) * _FOLD + ((high >> 32) ^ _FOLD))
        word = total - k.select(total < low, zero, fold)
        return word - k.select(total < word, fold, zero), self.p

    def _sum_words(self, pairs: Sequence[tuple[Element, Element]]) -> tuple[Value, int]:
        """Add products with their carries in three words."""
        products = [self._wide_product(a.limbs[0], b.limbs[0]) for a, b in pairs]
        low, high = products[0]
        top = self._number(0)
        for product_low, product_high in products[1:]:
            # The high word of a product has room for a carry.
            low, product_high = self._add_with_carry(low, product_low, product_high)
            high, top = self._add_with_carry(high, product_high, top)
        if self._chains is None:
            return self._fold(low, high, top), self.room
        # 2**128 is -2**32, so the top word is subtracted from the second one.
        top_words = [self._chains.zero, top.cast(types.u32)]
        lower_words = self._subtract_fold(*self._chains.subtract(self._split(low), top_words))
        return self._join(self._reduced([*lower_words, *self._split(high)])), self.p

    def _fold(self, low: Value, high: Value, above: Value | None = None) -> Value:
        """Reduce two or three words to a congruent word; the third word is below 2**31."""
        k, fold = self.k, _FOLD
        top, middle = high >> 32, high & fold
        if above is not None:
            # 2**128 is -2**32.
            top = top + (above << 32)
        # 2**96 is -1, so subtract `top`. A borrow of 2**64 is repaid as 2**32 - 1.
        difference = low - top
        difference = k.select(low < top, difference - fold, difference)
        # Neither step wraps again: `top` is below 2**63, and `middle` below 2**32.
        total = difference + ((middle << 32) - middle)
        return k.select(total < difference, total + fold, total)

    # --- two words with carries

    def add(self, a: Element, b: Element) -> Element:
        if self._chains is None or a.bound + b.bound - 1 <= self.room:
            return super().add(a, b)
        # a + b = a - (p - b), which is below p if both are.
        a, b = (a, b) if a.bound >= b.bound else (b, a)
        b = self._reduce_below(b, self.p)
        complement = self._element(self._number(self.p) - b.limbs[0], self.p + 1, b.exponent)
        return self.subtract(a, complement)

    def subtract(self, a: Element, b: Element) -> Element:
        if self._chains is None:
            return super().subtract(a, b)
        self._check_same(a, b)
        b = b if b.bound <= self.p + 1 else self._reduce_below(b, self.p)
        words, borrow = self._chains.subtract(self._split(a.limbs[0]), self._split(b.limbs[0]))
        word = self._join(self._subtract_fold(words, borrow))
        return self._element(word, max(a.bound, self.p), a.exponent)

    def _split(self, word: Value) -> list[Value]:
        return [word.cast(types.u32), (word >> 32).cast(types.u32)]

    def _join(self, words: Sequence[Value]) -> Value:
        low, high = (word.cast(types.u64) for word in words)
        return low | (high << 32)

    def multiply_constant(self, a: Element, value: int) -> Element:
        """Multiply by shifts if the value is a power of two, like roots of unity of small order."""
        shift = _POWERS_OF_TWO.get(value % self.p)
        if self._chains is None or shift is None:
            return super().multiply_constant(a, value)
        if shift >= _HALF_ORDER:
            return self.negate(self.multiply_constant(a, -value))
        self._check_own(a)
        return self._element(self._shift_word(a.limbs[0], shift), self.p, a.exponent)

    def is_shorter_negated(self, value: int) -> bool:
        return _POWERS_OF_TWO.get(value % self.p, 0) >= _HALF_ORDER

    def _shift_word(self, word: Value, shift: int) -> Value:
        """Multiply a word by 2**shift, for shifts below 96; the result is below p."""
        chains = self._chains
        assert chains is not None
        words_shift, bits = divmod(shift, 32)
        words = [*self._split(word), chains.zero]
        if bits:
            low, high = words[0] << bits, (word >> (32 - bits)).cast(types.u32)
            words = [low, high, words[1] >> (32 - bits)]
        if words_shift < 2:
            return self._join(self._reduced([chains.zero] * words_shift + words))
        # The second word has the weight 2**96 = -1, and the third 2**128 = -2**32.
        folded_word = self.k.emit("mul_wide", (words[0], self.k.constant(_FOLD, types.u32)))
        return self._join(
            self._subtract_fold(*chains.subtract(self._split(folded_word), words[1:]))
        )

    def _reduced(self, words: Sequence[Value]) -> list[Value]:
        """Reduce three or four 32-bit words r0 to r3 to two words below p.

        The sum s = (r0, r1) + r2 * (2**32 - 1) - r3 is above -2**32 and below 2p. Adding 2**32 - 1
        wraps if s is p or more, and the wrapped value is s - p.
        """
        chains, fold = self._chains, self.k.constant(_FOLD, types.u32)
        assert chains is not None
        folded_word = self.k.emit("mul_wide", (words[2], fold))
        addend = words[3] ^ _FOLD if len(words) == 4 else fold
        total, carry = chains.add(words[:2], self._split(folded_word + addend.cast(types.u64)))
        fold_unless_carry = self.k.emit("addc", (fold, chains.zero, carry))
        total, borrow = chains.subtract(total, [fold_unless_carry, chains.zero])
        return self._subtract_fold(total, borrow) if len(words) == 4 else total

    def _subtract_fold(self, words: Sequence[Value], borrow: Value) -> list[Value]:
        """Subtract 2**32 - 1 where there was a borrow, which adds p modulo 2**64."""
        chains = self._chains
        assert chains is not None
        return chains.subtract(words, [chains.mask(borrow), chains.zero])[0]


class Goldilocks52(Goldilocks):
    """`Goldilocks` for AVX-512 IFMA, which multiplies 52 bits and adds halves to 64-bit words.

    A factor is split in 52 and 12 bits. A sum of products is in three columns of 52 bits with 12
    spare bits: seven multiply-adds per product, and one reduction at the end.
    """

    def running_sum(self) -> RunningSum:
        return _Columns(self)

    def _sum_words(self, pairs: Sequence[tuple[Element, Element]]) -> tuple[Value, int]:
        columns = _Columns(self)
        return columns.word(columns.added(columns.zero(), pairs, ())), self.room


class _Columns:
    """A sum of products in three columns; all but the last are below 2**52."""

    def __init__(self, field: Goldilocks52) -> None:
        self._field, self._k = field, field.k

    def zero(self) -> tuple[Value, ...]:
        zero = self._k.constant(0, types.u64)
        return zero, zero, zero

    def added(
        self, total: Sequence[Value], pairs: Sequence[tuple[Element, Element]],
        others: Sequence[Element],
    ) -> tuple[Value, ...]:  # fmt: skip
        columns = list(total)
        terms: list[tuple[Element, Element | None]] = [*pairs, *((other, None) for other in others)]
        for start in range(0, max(1, len(terms)), _COLUMN_TERMS):
            for a, b in terms[start : start + _COLUMN_TERMS]:
                self._add_to(columns, a.limbs[0], None if b is None else b.limbs[0])
            for index in range(2):
                columns[index + 1] = columns[index + 1] + (columns[index] >> _COLUMN_BITS)
                columns[index] = columns[index] & _COLUMN_MASK
        return tuple(columns)

    def _add_to(self, columns: list[Value], a: Value, b: Value | None) -> None:
        """Add a word, or a product of two, to the columns."""
        if b is None:
            columns[0] = columns[0] + (a & _COLUMN_MASK)
            columns[1] = columns[1] + (a >> _COLUMN_BITS)
            return
        factors = [(x, x >> _COLUMN_BITS) for x in (a, b)]
        for i, x in enumerate(factors[0]):
            for j, y in enumerate(factors[1]):
                columns[i + j] = self._k.emit("madd52_lo", (columns[i + j], x, y))
                if i + j < 2:  # the product of two 12-bit parts has no high half
                    next_column = columns[i + j + 1]
                    columns[i + j + 1] = self._k.emit("madd52_hi", (next_column, x, y))

    def element(self, total: Sequence[Value]) -> Element:
        field = self._field
        return field._element(self.word(total), field.room, field.native_exponent)

    def word(self, total: Sequence[Value]) -> Value:
        """Reduce a sum to a congruent word.

        A product adds less than 2**26 to the last column, so 2**28 products leave its upper part
        below 2**31.
        """
        low, middle, high = total
        return self._field._fold(
            low | (middle << _COLUMN_BITS), (middle >> 12) | (high << 40), high >> 24
        )


def _is_vector(k: Builder) -> bool:
    """Return whether 64-bit words are in vectors, which lack carries and long products."""
    return k.machine.has(Capability.U64) and not (
        k.machine.has(Capability.CARRY) or k.machine.has(Capability.MAD_CARRY_32)
    )


def _suits(machine: Machine, modulus: Modulus) -> float | str:
    return 1


def _one_word(k: Builder, modulus: Modulus) -> OneWord:
    """Return the arithmetic of a field whose elements fit a word of 32 or 64 bits."""
    if modulus.words == 1:
        return Mersenne32(k, modulus) if modulus.is_plain else Word32(k, modulus)
    if modulus.is_plain and k.machine.has(Capability.IFMA52):
        return Goldilocks52(k, modulus)
    return Goldilocks(k, modulus) if modulus.is_plain else Word64(k, modulus)


STRATEGY = Strategy(_suits, _one_word)

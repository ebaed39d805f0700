"""Fields whose elements fit one machine word: no carries, and sums that are reduced when they must.

An element is any number of the word, with its exact bound; the prime may fill the word. What a word
cannot hold is brought back at once: a sum that wrapped less p, a difference that went below zero
plus p.
"""

from __future__ import annotations

import functools
from abc import abstractmethod
from collections.abc import Sequence

from quod.field.element import Element
from quod.field.moduli import Modulus
from quod.field.prime import PrimeField
from quod.field.strategies.carry_chains import CarryChains
from quod.field.strategy import Strategy
from quod.kernel import types
from quod.kernel.builder import Builder
from quod.kernel.errors import TraceError
from quod.kernel.machine import Capability, Machine
from quod.kernel.value import Value


class OneWord(PrimeField):
    """Elements in one word of `limb_bits` bits, with the radix that they have in memory."""

    limb_count = 1

    def __init__(self, k: Builder, modulus: Modulus) -> None:
        self.room = 1 << self.limb_bits
        super().__init__(k, modulus)
        self.native_exponent = self.memory_exponent

    # --- what a width provides

    @abstractmethod
    def _wide(self, a: Value, b: Value) -> tuple[Value, Value]:
        """The low and the high word of a product."""

    def _multiplied(self, a: Element, b: Element) -> tuple[Value, int]:
        """The word of a product and its bound, for elements of any bound: Montgomery's reduction.

        With q = a*b/p modulo the word's range, a*b - q*p has a low word of zeros, so that the high
        words tell the quotient.
        """
        k = self.k
        low, high = self._wide(a.limbs[0], b.limbs[0])
        quotient = low * self._number(pow(self.p, -1, self.room))
        _, less = self._wide(quotient, self._number(self.p))
        most = (a.bound - 1) * (b.bound - 1) >> self.limb_bits
        if most + self.p < self.room:
            return high + self.p - less, most + self.p + 1
        difference = high - less
        word = k.select(high < less, difference + self.p, difference)
        return word, max(most + 1, self.p)

    # --- words

    def _takes(self, modulus: Modulus) -> bool:
        return self._holds(modulus)

    def _limbs_for(self, modulus: Modulus) -> int:
        return 1

    def _number(self, number: int) -> Value:
        return self.k.constant(number, self.limb_type)

    def _made(self, word: Value, bound: int, exponent: int) -> Element:
        return Element(self, (word,), bound, (bound - 1,), exponent)

    def _normalise(self, a: Element) -> Element:
        return a

    def _fit(self, a: Element) -> Element:
        """The element: products take all that a word holds."""
        return a

    @property
    def carried_bound(self) -> int:
        """Twice p, which reduces little, or all that a word holds."""
        return min(2 * self.p, self.room)

    # --- linear operations

    def add(self, a: Element, b: Element) -> Element:
        self._check_same(a, b)
        if a.bound + b.bound - 1 <= self.room:
            return self._made(a.limbs[0] + b.limbs[0], a.bound + b.bound - 1, a.exponent)
        a, b = (a, b) if a.bound >= b.bound else (b, a)
        b = self._below(b, self.p)
        x, y = a.limbs[0], b.limbs[0]
        total = x + y
        if a.bound + b.bound - 1 <= self.room:
            return self._made(total, a.bound + b.bound - 1, a.exponent)
        # What wrapped is less than p above the range, so that p less it is a number of the word.
        return self._made(self.k.select(total < x, total - self.p, total), self.room, a.exponent)

    def subtract(self, a: Element, b: Element) -> Element:
        self._check_same(a, b)
        multiple = -(-(b.bound - 1) // self.p) * self.p
        if a.bound + multiple <= self.room:
            word = a.limbs[0] + multiple - b.limbs[0]
            return self._made(word, a.bound + multiple, a.exponent)
        b = self._below(b, self.p)
        x, y = a.limbs[0], b.limbs[0]
        difference = x - y
        word = self.k.select(x < y, difference + self.p, difference)
        return self._made(word, max(a.bound, self.p), a.exponent)

    # --- products

    def _product(self, a: Element, b: Element) -> Element:
        word, bound = self._multiplied(a, b)
        return self._made(word, bound, a.exponent + b.exponent - self.native_exponent)

    def _square(self, a: Element) -> Element:
        return self._product(a, a)

    def _sum_of_products(self, pairs: Sequence[tuple[Element, Element]]) -> Element:
        return functools.reduce(self.add, [self._product(a, b) for a, b in pairs])

    # --- reductions

    def _reduce(self, a: Element, bound: int | None) -> Element:
        return self._below(a, min(bound or 2 * self.p, self.room))

    def _below(self, a: Element, wanted: int) -> Element:
        """Less multiples of p, each where that does not wrap: it is the smaller number then."""
        word, bound = a.limbs[0], a.bound
        while bound > wanted:
            amount = self.p
            while 2 * amount < bound:
                amount *= 2
            word = self.k.minimum(word, word - amount)
            bound = max(amount, bound - amount)
        return self._made(word, bound, a.exponent)

    def _canonical(self, a: Element) -> Element:
        return self._below(a, self.p)

    # --- inversion

    def _inverse_body(self, k: Builder, a: Element) -> Element:
        """a**(p - 2), bit by bit: little text."""
        bits = (self.p - 2).bit_length()
        base = self._made(a.limbs[0], a.bound, self.native_exponent)
        # The bits from the highest one on, at the top of the word.
        exponent = self._number((self.p - 2) << (self.limb_bits - bits))
        with k.range(0, bits, carry=(self.carried(self.one()), exponent)) as loop:
            power, remaining = loop.carried
            squared = self.carried(self.square(power))
            more = self.carried(self.multiply(squared, base))
            is_set = remaining >> (self.limb_bits - 1) != 0
            loop.next((self.select(is_set, more, squared), remaining << 1))
        inverse: Element = loop.results[0]
        if a.exponent == self.native_exponent:
            return inverse
        # The base stood for a in another radix.
        correction = pow(2, a.exponent - self.native_exponent, self.p)
        return self.multiply(inverse, self.constant(correction))

    # --- memory

    def from_words(self, words: Sequence[Value], *, linear: bool = False) -> Element:
        (word,) = words
        return self._made(word, self.p, self.memory_exponent)

    def _to_words(self, a: Element) -> tuple[Value, ...]:
        if a.exponent != self.memory_exponent:
            raise TraceError("an element of this radix cannot be stored: multiply it first")
        return self._below(a, self.p).limbs


class Word32(OneWord):
    """Primes below 2**32 in Montgomery form."""

    limb_bits = 32
    limb_type = word_type = types.u32

    def _holds(self, modulus: Modulus) -> bool:
        return modulus.words == 1 and not modulus.is_plain

    def _wide(self, a: Value, b: Value) -> tuple[Value, Value]:
        product = self.k.emit("mul_wide", (a, b))
        return product.cast(types.u32), (product >> 32).cast(types.u32)

    def _multiplied(self, a: Element, b: Element) -> tuple[Value, int]:
        """With q = -a*b/p instead, a*b + q*p is one multiply-add, where 64 bits hold it."""
        most = (a.bound - 1) * (b.bound - 1) + (self.room - 1) * self.p
        if most >> 64:
            return super()._multiplied(a, b)
        product = self.k.emit("mul_wide", (a.limbs[0], b.limbs[0]))
        quotient = product.cast(types.u32) * self._number(-pow(self.p, -1, self.room) % self.room)
        total = product + self.k.emit("mul_wide", (quotient, self._number(self.p)))
        return (total >> 32).cast(types.u32), (most >> 32) + 1


class Mersenne32(Word32):
    """Primes p = 2**n - 1 below 2**32 in plain form: 2**n is 1, so what is above n bits is added.

    M31 is the one in use.
    """

    def _holds(self, modulus: Modulus) -> bool:
        return modulus.words == 1 and modulus.is_plain

    @property
    def carried_bound(self) -> int:
        """p: the product of larger factors could exceed a word when it has been folded."""
        return self.p

    def _multiplied(self, a: Element, b: Element) -> tuple[Value, int]:
        # A factor may be one that does not change: it had better be the second, which is shifted.
        if b.bound > self.p + 1:
            a, b = b, a
        if b.bound > self.p + 1:
            b = self._below(b, self.p)
        if self._folded_most(a, b) >= self.room:
            a = self._below(a, self.p)
        # What is above n bits begins a word of its own.
        spare = self.limb_bits - self.modulus.bits
        low, high = self._wide(a.limbs[0], b.limbs[0] << spare)
        return (low >> spare) + high, self._folded_most(a, b) + 1

    def _folded_most(self, a: Element, b: Element) -> int:
        """The most that a product is when the bits above n have been added to those below."""
        return ((a.bound - 1) * (b.bound - 1) >> self.modulus.bits) + self.p

    def _below(self, a: Element, wanted: int) -> Element:
        """Folded while p can be in it more than once, and then less p."""
        while a.bound > wanted:
            folded = self.p + (a.bound - 1 >> self.modulus.bits) + 1
            if a.bound <= 2 * self.p or folded >= a.bound:
                return super()._below(a, wanted)
            word = (a.limbs[0] & self.p) + (a.limbs[0] >> self.modulus.bits)
            a = self._made(word, folded, a.exponent)
        return a


class Word64(OneWord):
    """Primes from 2**32 to 2**64 in Montgomery form."""

    limb_bits = 64
    limb_type = word_type = types.u64

    def _holds(self, modulus: Modulus) -> bool:
        return modulus.words == 2 and not modulus.is_plain

    def _wide(self, a: Value, b: Value) -> tuple[Value, Value]:
        return a * b, self.k.emit("mul_hi", (a, b))


_FOLD = (1 << 32) - 1
"""2**64 modulo 2**64 - 2**32 + 1."""

_HALF_ORDER = 96
"""The power of two that is -1 modulo 2**64 - 2**32 + 1."""

_POWERS_OF_TWO = {pow(2, i, (1 << 64) - _FOLD): i for i in range(2 * _HALF_ORDER)}


class Goldilocks(Word64):
    """p = 2**64 - 2**32 + 1 in plain form: 2**64 is 2**32 - 1, and 2**96 is -1.

    Where 32-bit words have carries elements are computed with as two of them.
    """

    def __init__(self, k: Builder, modulus: Modulus) -> None:
        super().__init__(k, modulus)
        self._chains = CarryChains(k) if k.machine.has(Capability.MAD_CARRY_32) else None

    def _holds(self, modulus: Modulus) -> bool:
        return modulus.words == 2 and modulus.is_plain

    def _multiplied(self, a: Element, b: Element) -> tuple[Value, int]:
        if self._chains is not None:
            low, high = self._wide(a.limbs[0], b.limbs[0])
            return self._joined(self._reduced([*self._split(low), *self._split(high)])), self.p
        k, fold = self.k, _FOLD
        low, high = self._wide(a.limbs[0], b.limbs[0])
        top, middle = high >> 32, high & fold
        # Less the top times -2**96; what borrowed 2**64 gives it back as 2**32 - 1.
        less = low - top
        less = k.select(low < top, less - fold, less)
        # Neither step wraps again: `top` and `middle` are below 2**32.
        total = less + ((middle << 32) - middle)
        return k.select(total < less, total + fold, total), self.room

    # --- two words with carries

    def add(self, a: Element, b: Element) -> Element:
        if self._chains is None or a.bound + b.bound - 1 <= self.room:
            return super().add(a, b)
        # a - (p - b), which is below p where both are.
        a, b = (a, b) if a.bound >= b.bound else (b, a)
        b = self._below(b, self.p)
        rest = self._made(self._number(self.p) - b.limbs[0], self.p + 1, b.exponent)
        return self.subtract(a, rest)

    def subtract(self, a: Element, b: Element) -> Element:
        if self._chains is None:
            return super().subtract(a, b)
        self._check_same(a, b)
        b = b if b.bound <= self.p + 1 else self._below(b, self.p)
        words, borrow = self._chains.subtract(self._split(a.limbs[0]), self._split(b.limbs[0]))
        word = self._joined(self._less_where(words, borrow))
        return self._made(word, max(a.bound, self.p), a.exponent)

    def _split(self, word: Value) -> list[Value]:
        return [word.cast(types.u32), (word >> 32).cast(types.u32)]

    def _joined(self, words: Sequence[Value]) -> Value:
        low, high = (word.cast(types.u64) for word in words)
        return low | (high << 32)

    def multiply_constant(self, a: Element, value: int) -> Element:
        """By shifts where the number is a power of two, as roots of unity of small order are."""
        shift = _POWERS_OF_TWO.get(value % self.p)
        if self._chains is None or shift is None:
            return super().multiply_constant(a, value)
        if shift >= _HALF_ORDER:
            return self.negate(self.multiply_constant(a, -value))
        self._check_own(a)
        return self._made(self._shifted(a.limbs[0], shift), self.p, a.exponent)

    def is_shorter_negated(self, value: int) -> bool:
        return _POWERS_OF_TWO.get(value % self.p, 0) >= _HALF_ORDER

    def _shifted(self, word: Value, shift: int) -> Value:
        """The word, below p, times a power of two below 2**96."""
        chains = self._chains
        assert chains is not None
        places, bits = divmod(shift, 32)
        words = [*self._split(word), chains.zero]
        if bits:
            low, high = words[0] << bits, (word >> (32 - bits)).cast(types.u32)
            words = [low, high, words[1] >> (32 - bits)]
        if places < 2:
            return self._joined(self._reduced([chains.zero] * places + words))
        # The second word counts 2**96, and the third 2**128.
        raised = self.k.emit("mul_wide", (words[0], self.k.constant(_FOLD, types.u32)))
        return self._joined(self._less_where(*chains.subtract(self._split(raised), words[1:])))

    def _reduced(self, words: Sequence[Value]) -> list[Value]:
        """Two words below p that are congruent to four, or to three.

        Of r0 to r3 the sum s = (r0, r1) + r2 * (2**32 - 1) - r3 is above -2**32 and below 2p. With
        2**32 - 1 more it wraps where s is p or more, and what has wrapped is s - p.
        """
        chains, fold = self._chains, self.k.constant(_FOLD, types.u32)
        assert chains is not None
        raised = self.k.emit("mul_wide", (words[2], fold))
        rest = words[3] ^ _FOLD if len(words) == 4 else fold
        total, carry = chains.add(words[:2], self._split(raised + rest.cast(types.u64)))
        unless_carried = self.k.emit("addc", (fold, chains.zero, carry))
        total, borrow = chains.subtract(total, [unless_carried, chains.zero])
        return self._less_where(total, borrow) if len(words) == 4 else total

    def _less_where(self, words: Sequence[Value], borrow: Value) -> list[Value]:
        """Less 2**32 - 1 where there was a borrow, which is plus p."""
        chains = self._chains
        assert chains is not None
        return chains.subtract(words, [chains.mask(borrow), chains.zero])[0]


def _suits(machine: Machine, modulus: Modulus) -> float | str:
    return 1


def _one_word(k: Builder, modulus: Modulus) -> OneWord:
    """The arithmetic of a field whose elements fit a word of 32 or 64 bits."""
    if modulus.words == 1:
        return Mersenne32(k, modulus) if modulus.is_plain else Word32(k, modulus)
    return Goldilocks(k, modulus) if modulus.is_plain else Word64(k, modulus)


STRATEGY = Strategy(_suits, _one_word)

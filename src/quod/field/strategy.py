"""Arithmetic of a prime field inside kernels, whatever way its elements are held.

`prime_field(k, modulus)` gives the arithmetic that suits the machine a kernel is traced for:
52-bit limbs in vector lanes with AVX-512 IFMA, else saturated 64-bit limbs. All strategies share
one layout in memory (see `quod.field.moduli`): they differ in registers only, so a stored element
is canonical (below p) and the same bits whichever strategy stored it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from quod.field.element import Element
from quod.field.moduli import Modulus
from quod.kernel import types
from quod.kernel.builder import Builder
from quod.kernel.errors import TraceError
from quod.kernel.value import Operand, Value


class PrimeField(ABC):
    """Arithmetic modulo one prime in one kernel.

    `limb_bits` and `limb_count` fix the register form. Elements are kept in Montgomery form with
    radix 2**exponent; `native_exponent` is the radix that a product keeps.
    """

    limb_bits: int

    def __init__(self, k: Builder, modulus: Modulus) -> None:
        self.k = k
        self.modulus = modulus
        self.p = modulus.value
        self.limb_count = self._limbs_for(modulus)
        self.native_exponent = self.limb_bits * self.limb_count
        self.memory_exponent = 32 * modulus.words
        self.word_count = modulus.words // 2

    # --- what a strategy provides

    @abstractmethod
    def _limbs_for(self, modulus: Modulus) -> int: ...

    @abstractmethod
    def _product(self, a: Element, b: Element) -> Element:
        """Montgomery product of elements that fit the limbs."""

    @abstractmethod
    def _square(self, a: Element) -> Element: ...

    @abstractmethod
    def add(self, a: Element, b: Element) -> Element:
        """a + b, not reduced."""

    @abstractmethod
    def subtract(self, a: Element, b: Element) -> Element:
        """a - b plus the smallest multiple of p that keeps it positive."""

    @abstractmethod
    def normalise(self, a: Element) -> Element:
        """The same integer with every limb below 2**limb_bits."""

    @abstractmethod
    def reduce(self, a: Element, bound: int | None = None) -> Element:
        """An equal element below `bound`, by default about 2p."""

    @abstractmethod
    def from_words(self, words: Sequence[Value], *, linear: bool = False) -> Element:
        """An element from its packed 64-bit words, canonical.

        With `linear` the element keeps the radix of memory: right for maps that are linear in it,
        such as a transform whose factors are native, and a little cheaper.
        """

    @abstractmethod
    def to_words(self, a: Element) -> tuple[Value, ...]:
        """The packed 64-bit words of the canonical form, in the radix of memory."""

    # --- shared

    def constant(self, value: int) -> Element:
        """A constant of the field in native form."""
        return self.raw_constant((value << self.native_exponent) % self.p)

    def raw_constant(self, integer: int, exponent: int | None = None) -> Element:
        """An element given by the integer of its limbs."""
        mask = (1 << self.limb_bits) - 1
        parts = [(integer >> (self.limb_bits * j)) & mask for j in range(self.limb_count)]
        limbs = tuple(self.k.constant(part, types.u64) for part in parts)
        native = self.native_exponent if exponent is None else exponent
        return Element(self, limbs, integer + 1, tuple(parts), native)

    def zero(self) -> Element:
        """The constant 0."""
        return self.raw_constant(0)

    def one(self) -> Element:
        """The constant 1."""
        return self.constant(1)

    def multiply(self, a: Element, b: Element) -> Element:
        """The Montgomery product, below p + a * b / 2**native_exponent."""
        if a is b:
            return self.square(a)
        return self._product(self.fit(a), self.fit(b))

    def square(self, a: Element) -> Element:
        """a * a."""
        return self._square(self.fit(a))

    def double(self, a: Element) -> Element:
        """2a."""
        return self.add(a, a)

    def negate(self, a: Element) -> Element:
        """-a."""
        zero = self.raw_constant(0, a.exponent)
        return self.subtract(zero, a)

    def fit(self, a: Element) -> Element:
        """The element in limbs that a product may take: normalised, reduced if it must be."""
        if a.bound > 1 << self.native_exponent:
            raise TraceError(f"an element of {self.modulus.name} outgrew its limbs")
        return self.normalise(a)

    def unify(self, elements: Sequence[Element], bound: int) -> list[Element]:
        """The elements with equal static bounds, so that a loop or branch may carry any of them.

        Each is normalised, and reduced if it may reach `bound`.
        """
        top = self._full_maxima(bound)
        unified = []
        for element in elements:
            fitted = self.normalise(element)
            if fitted.bound > bound:
                fitted = self.normalise(self.reduce(fitted, bound))
            unified.append(Element(self, fitted.limbs, bound, top, fitted.exponent))
        return unified

    def carried(self, a: Element) -> Element:
        """The element with standard bounds, fit to be carried through loops and branches."""
        return self.unify([a], self.carried_bound)[0]

    @property
    def carried_bound(self) -> int:
        """The bound of carried elements: 4p, or p where the limbs leave little room above it."""
        return self.p * (4 if self.p << 3 <= 1 << self.native_exponent else 1)

    def _full_maxima(self, bound: int) -> tuple[int, ...]:
        mask = (1 << self.limb_bits) - 1
        top = (bound - 1) >> (self.limb_bits * (self.limb_count - 1))
        return (*([mask] * (self.limb_count - 1)), min(top, mask))

    def select(self, condition: Value, a: Element, b: Element) -> Element:
        """`a` where the condition holds, else `b`."""
        if a.exponent != b.exponent:
            raise TraceError("elements of different radix cannot be selected from")
        limbs = tuple(self.k.select(condition, x, y) for x, y in zip(a.limbs, b.limbs, strict=True))
        maxima = tuple(max(x, y) for x, y in zip(a.maxima, b.maxima, strict=True))
        return Element(self, limbs, max(a.bound, b.bound), maxima, a.exponent)

    # --- memory

    def load_words(self, pointer: Value, index: Operand) -> tuple[Value, ...]:
        """The packed 64-bit words of element `index` of an array."""
        return self.load_words_at(pointer, self.element_offset(index))

    def element_offset(self, index: Operand) -> Value:
        """The place of element `index`, counted in 64-bit words."""
        value = self.k.operand(index, types.u64)
        return value.cast(types.u64) * self.word_count

    def load_words_at(self, pointer: Value, offset: Operand) -> tuple[Value, ...]:
        """The packed words from a place counted in 64-bit words."""
        return self.k.load(pointer.cast(types.u64), offset, self.word_count)

    def store_words_at(self, pointer: Value, offset: Operand, words: Sequence[Value]) -> None:
        """Stores packed words at a place counted in 64-bit words."""
        self.k.store(pointer.cast(types.u64), offset, *words)

    def load(self, pointer: Value, index: Operand, *, linear: bool = False) -> Element:
        """Element `index` of an array in memory."""
        return self.from_words(self.load_words(pointer, index), linear=linear)

    def store(self, pointer: Value, index: Operand, a: Element) -> None:
        """Stores the canonical form as element `index` of an array."""
        self.store_words_at(pointer, self.element_offset(index), self.to_words(a))

    def words_are_zero(self, words: Sequence[Value]) -> Value:
        """Whether packed words are all zero."""
        combined = words[0]
        for word in words[1:]:
            combined = combined | word
        return combined == 0

    def words_are_equal(self, a: Sequence[Value], b: Sequence[Value]) -> Value:
        """Whether two canonical elements are equal."""
        return self.words_are_zero([x ^ y for x, y in zip(a, b, strict=True)])

    def is_zero(self, a: Element) -> Value:
        """Whether an element is zero; needs its canonical form."""
        return self.words_are_zero(self.to_words(a))

    def power(self, a: Element, exponent: int) -> Element:
        """a**exponent for a constant exponent, by repeated squaring in a loop."""
        result = self.carried(a)
        bits = bin(exponent)[3:]
        if not bits:
            return result
        # A run of equal steps is a loop; each one bit ends a run.
        for run in bits.split("1")[:-1]:
            result = self.carried(self.square_times(result, len(run) + 1) * a)
        return self.square_times(result, len(bits.rpartition("1")[2]))

    def square_times(self, a: Element, count: int) -> Element:
        """a**(2**count)."""
        if count == 0:
            return a
        if count <= 2:
            for _ in range(count):
                a = self.square(a)
            return self.carried(a)
        with self.k.range(0, count, carry=self.carried(a)) as loop:
            loop.next(self.carried(self.square(loop.carried)))
        result: Element = loop.results
        return result


def prime_field(k: Builder, modulus: Modulus) -> PrimeField:
    """The arithmetic of a field for the machine that `k` traces for."""
    from quod.field.ifma52 import Ifma52
    from quod.field.limbs64 import Limbs64

    return Ifma52(k, modulus) if k.machine.has("ifma52") else Limbs64(k, modulus)

"""The common interface of prime fields and their extensions inside kernels.

Curve formulas and everything above them are written once against `FieldArithmetic`.
"""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Generic, Protocol, Self, TypeVar

from quod.field.moduli import Modulus
from quod.kernel.errors import TraceError, an
from quod.kernel.ir import types
from quod.kernel.ir.types import Type
from quod.kernel.ir.value import Operand, Value

if TYPE_CHECKING:
    from quod.kernel.builder.builder import Builder

Coefficients = int | tuple[int, ...]
"""A constant of a field: an integer, or for an extension one integer per coefficient."""

_MAX_UNROLLED_MULTIPLICATIONS = 32
"""The largest number of one bits of an exponent for which `power` unrolls the multiplications.

The exponent of a square root modulo the prime of BLS12-381 has 229. As many unrolled
multiplications would be 300,000 lines of PTX, which take minutes to assemble."""


class Operators(Protocol):
    """The operators of elements."""

    def __add__(self, other: Self) -> Self: ...

    def __sub__(self, other: Self) -> Self: ...

    def __mul__(self, other: Self) -> Self: ...

    def __neg__(self) -> Self: ...


E = TypeVar("E", bound=Operators)


class FieldArithmetic(ABC, Generic[E]):
    """Arithmetic of one field in one kernel.

    modulus: the prime field at the bottom.
    word_count: words of an element in memory.
    word_type: u32 if an element of the prime field fits 32 bits, else u64.
    interleaved_products: the number of independent products that are interleaved.
    """

    k: Builder
    modulus: Modulus
    word_count: int
    word_type: Type = types.u64
    interleaved_products: int = 1

    # --- what a field provides

    @abstractmethod
    def constant(self, value: Coefficients) -> E:
        """A constant of the field in native form: in the Montgomery radix that products keep."""

    @abstractmethod
    def add(self, a: E, b: E) -> E:
        """a + b, not reduced."""

    @abstractmethod
    def subtract(self, a: E, b: E) -> E:
        """a - b, not reduced."""

    @abstractmethod
    def negate(self, a: E) -> E:
        """-a, not reduced."""

    @abstractmethod
    def multiply(self, a: E, b: E) -> E:
        """a * b."""

    @abstractmethod
    def square(self, a: E) -> E:
        """a * a."""

    @abstractmethod
    def multiply_many(self, pairs: Sequence[tuple[E, E]]) -> list[E]:
        """Return independent products, which may be interleaved."""

    @abstractmethod
    def square_many(self, elements: Sequence[E]) -> list[E]:
        """Return independent squares, which may be interleaved."""

    @abstractmethod
    def sum_of_products(self, pairs: Sequence[tuple[E, E]]) -> E:
        """Return the sum of a * b over all pairs, with one reduction per coefficient."""

    @abstractmethod
    def inverse(self, a: E) -> E:
        """1/a, and 0 for 0."""

    @abstractmethod
    def frobenius(self, a: E, times: int = 1) -> E:
        """Return a**(p**times) for the prime p; in a prime field that is a itself."""

    @abstractmethod
    def fit(self, a: E) -> E:
        """Convert an element to limbs that a product accepts, to share them between products."""

    @abstractmethod
    def fit_many(self, elements: Sequence[E]) -> list[E]:
        """Apply `fit` to independent elements, which may be interleaved."""

    @abstractmethod
    def bounded_many(self, elements: Sequence[E]) -> list[E]:
        """Apply `bounded` to independent elements, which may be interleaved."""

    @abstractmethod
    def reduce(self, a: E, bound: int | None = None) -> E:
        """Return an equal element whose integers are below `bound`; by default about 2p."""

    @abstractmethod
    def unify(self, elements: Sequence[E], bound: int) -> list[E]:
        """Return the elements with equal static bounds, as loops and branches require."""

    @property
    @abstractmethod
    def standard_bound(self) -> int:
        """The bound of the elements that `bounded` returns."""

    @abstractmethod
    def select(self, condition: Value, a: E, b: E) -> E:
        """`a` where the condition holds, else `b`."""

    @abstractmethod
    def from_words(self, words: Sequence[Value], *, linear: bool = False) -> E:
        """Unpack an element from its canonical words.

        linear: keep the radix of memory, which is cheaper. Correct for maps that are linear in the
            element, such as a transform whose factors are in native form.
        """

    @abstractmethod
    def to_words(self, a: E) -> tuple[Value, ...]:
        """Pack the canonical form into words, in the radix of memory."""

    # --- shared

    def zero(self) -> E:
        """The constant 0."""
        return self.constant(0)

    def one(self) -> E:
        """The constant 1."""
        return self.constant(1)

    def double(self, a: E) -> E:
        """Return 2a, not reduced."""
        return self.add(a, a)

    def times(self, a: E, factor: int) -> E:
        """Return `factor` * a for a small static integer, by additions; not reduced."""
        factor = exact_integer("a factor", factor)
        if factor == 0:
            return self.zero()
        result = a
        for bit in bin(abs(factor))[3:]:
            result = self.double(result)
            if bit == "1":
                result = self.add(result, a)
        return self.negate(result) if factor < 0 else result

    def bounded(self, a: E) -> E:
        """Return the element with standard bounds, as loops and branches carry it."""
        return self.unify([a], self.standard_bound)[0]

    def power(self, a: E, exponent: int) -> E:
        """Return a**exponent for a static exponent of zero or more, by repeated squaring."""
        exponent = _exponent("an exponent", exponent)
        if exponent == 0:
            return self.one()
        if exponent.bit_count() > _MAX_UNROLLED_MULTIPLICATIONS:
            return self._power_by_bits(a, exponent)
        result = self.bounded(a)
        bits = bin(exponent)[3:]
        # The squarings up to the next one bit are a loop, and a multiplication follows.
        for run in bits.split("1")[:-1]:
            result = self.bounded(self.multiply(self.square_times(result, len(run) + 1), a))
        return self.square_times(result, len(bits.rpartition("1")[2]))

    def _power_by_bits(self, a: E, exponent: int) -> E:
        """Compute `power` in a loop over all bits, with a single multiplication in the code."""
        k, a = self.k, self.bounded(a)
        shifts = range((exponent.bit_length() - 1) // 32 * 32, -1, -32)
        first_word, *other_words = (exponent >> shift & 0xFFFF_FFFF for shift in shifts)
        with k.range(0, len(shifts), carry=self.bounded(self.one())) as words:
            word = k.constant(first_word, types.u32)
            for word_index, other_word in enumerate(other_words, 1):
                word = k.select(words.index == word_index, k.constant(other_word, types.u32), word)
            with k.range(0, 32, carry=(words.carried, word)) as bits:
                total, remaining_bits = bits.carried
                squared = self.bounded(self.square(total))
                with k.if_(remaining_bits >> 31 != 0) as branch:
                    branch.yield_(self.bounded(self.multiply(squared, a)))
                with branch.otherwise():
                    branch.yield_(squared)
                bits.next((branch.results, remaining_bits << 1))
            words.next(bits.results[0])
        result: E = words.results
        return result

    def square_times(self, a: E, count: int) -> E:
        """Return a**(2**count) for a static count of zero or more."""
        count = _exponent("a count of squarings", count)
        if count == 0:
            return a
        if count <= 2:
            for _ in range(count):
                a = self.square(a)
            return self.bounded(a)
        with self.k.range(0, count, carry=self.bounded(a)) as loop:
            loop.next(self.bounded(self.square(loop.carried)))
        result: E = loop.results
        return result

    def words_are_zero(self, words: Sequence[Value]) -> Value:
        """Return a bool: all packed words are zero."""
        combined = words[0]
        for word in words[1:]:
            combined = combined | word
        return combined == 0

    def words_are_equal(self, a: Sequence[Value], b: Sequence[Value]) -> Value:
        """Return a bool: two canonical elements, as packed words, are equal."""
        return self.words_are_zero([x ^ y for x, y in zip(a, b, strict=True)])

    def equal(self, a: E, b: E) -> Value:
        """Return a bool: two elements are equal. Computes the canonical form of both."""
        return self.words_are_equal(self.to_words(a), self.to_words(b))

    def is_zero(self, a: E) -> Value:
        """Return a bool: an element is zero. Computes its canonical form."""
        return self.words_are_zero(self.to_words(a))

    # --- memory

    def table(self, values: Sequence[Coefficients]) -> Value:
        """Declare a table of constants for `load`; call it at the top of a kernel.

        Raises TraceError for a value that is not a static constant of the field.
        """
        bits, words_per_coefficient = (
            self.word_type.bits,
            self.modulus.bytes // self.word_type.bytes,
        )
        degree = self.word_count // words_per_coefficient
        words = []
        for value in values:
            coefficients = (value, *[0] * (degree - 1)) if isinstance(value, int) else value
            if not _are_integers(coefficients, degree):
                form = "an integer" if degree == 1 else f"{degree} integers, or one"
                raise TraceError(
                    f"a table of this field holds constants, {form} known while the kernel is "
                    f"traced, not {_shown(value)}; store a computed element with "
                    "field.store(pointer, index, a)"
                )
            for coefficient in coefficients:
                stored = self.modulus.to_montgomery(coefficient)
                words += [
                    stored >> (bits * word_index) & ((1 << bits) - 1)
                    for word_index in range(words_per_coefficient)
                ]
        return self.k.table(self.word_type, words)

    def element_offset(self, index: Operand) -> Value:
        """Return the offset of element `index` in words, as a u64."""
        value = self.k.operand(index, types.u64)
        return value.cast(types.u64) * self.word_count

    def load_words_at(self, pointer: Value, offset: Operand) -> tuple[Value, ...]:
        """Load packed words from an offset in words."""
        return self.k.load(pointer.cast(self.word_type), offset, self.word_count)

    def store_words_at(self, pointer: Value, offset: Operand, words: Sequence[Value]) -> None:
        """Store packed words at an offset in words."""
        self.k.store(pointer.cast(self.word_type), offset, *words)

    def load_words(self, pointer: Value, index: Operand) -> tuple[Value, ...]:
        """Load the packed words of element `index` of an array."""
        return self.load_words_at(pointer, self.element_offset(index))

    def load(self, pointer: Value, index: Operand, *, linear: bool = False) -> E:
        """Load element `index` of an array; see `from_words` for `linear`."""
        return self.from_words(self.load_words(pointer, index), linear=linear)

    def store(self, pointer: Value, index: Operand, a: E) -> None:
        """Store the canonical form as element `index` of an array."""
        self.store_words_at(pointer, self.element_offset(index), self.to_words(a))


def _are_integers(coefficients: object, count: int) -> bool:
    return (
        isinstance(coefficients, (tuple, list))
        and len(coefficients) == count
        and all(type(coefficient) is int for coefficient in coefficients)
    )


def _shown(value: object) -> str:
    simple = isinstance(value, (int, float, str, tuple, list, type(None)))
    return repr(value) if simple else an(type(value).__name__)


def exact_integer(what: str, number: int) -> int:
    """Return a static integer of Python or NumPy as an int; raise TraceError for other types."""
    try:
        return operator.index(number)
    except TypeError:
        raise TraceError(
            f"{what} must be an integer known while the kernel is traced, not {number!r}; to "
            "multiply elements write field.multiply(a, b)"
        ) from None


def _exponent(what: str, number: int) -> int:
    """Return a static integer; raise TraceError if it is negative."""
    number = exact_integer(what, number)
    if number < 0:
        raise TraceError(f"{what} is {number}, below zero; take field.inverse(a) first")
    return number

"""The base class of the limb strategies of prime fields inside kernels.

Strategies differ in the representation in registers only. In memory an element is canonical (below
p) and has the same bits for every strategy (see `quod.field.moduli`).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from quod.field.arithmetic import Coefficients, FieldArithmetic
from quod.field.element import Element, FieldIdentity
from quod.field.moduli import MAX_BITS, Modulus
from quod.kernel.errors import TraceError, an
from quod.kernel.ir import types
from quod.kernel.ir.types import Type
from quod.kernel.ir.value import Value

if TYPE_CHECKING:
    from quod.field.running_sum import RunningSum
    from quod.kernel.builder.builder import Builder
    from quod.kernel.builder.tracer import FunctionBody

T = TypeVar("T")


class UnsupportedModulusError(TraceError):
    """A modulus that a limb strategy does not support."""


def is_long(modulus: Modulus) -> bool:
    """Return whether elements are stored as 64-bit words in Montgomery form."""
    return modulus.words > 1 and not modulus.is_plain


class PrimeField(FieldArithmetic[Element]):
    """Arithmetic modulo one prime in one kernel.

    limb_bits, limb_count: the bits and the number of limbs of an element in registers.
    native_exponent: log2 of the Montgomery radix that a product preserves. Factors are integers
        below the radix.
    memory_exponent: log2 of the Montgomery radix in memory.
    room: exclusive bound of the integers that the limbs hold.
    prepares_factors: whether `multiply_prepared` is available.
    """

    limb_bits: int
    limb_type: Type = types.u64
    prepares_factors: bool = False

    def __init__(self, k: Builder, modulus: Modulus) -> None:
        self.k = k
        self.modulus = modulus
        self.p = modulus.value
        self._check_modulus(modulus)
        self.limb_count = self._limbs_for(modulus)
        self.native_exponent = self.limb_bits * self.limb_count
        self.room = 1 << self.native_exponent
        self.memory_exponent = modulus.montgomery_radix.bit_length() - 1
        self.word_count = modulus.bytes // self.word_type.bytes
        self.identity = FieldIdentity(type(self), modulus.name, modulus.value)

    # --- what a strategy provides

    @abstractmethod
    def _limbs_for(self, modulus: Modulus) -> int: ...

    @abstractmethod
    def _holds(self, modulus: Modulus) -> bool:
        """Return whether the limbs can hold elements of an odd modulus; mostly its size decides."""

    def _supports(self, modulus: Modulus) -> bool:
        """Return whether the strategy supports a modulus and its layout in memory."""
        return is_long(modulus) and self._holds(modulus)

    def _check_modulus(self, modulus: Modulus) -> None:
        """Raise UnsupportedModulusError, with the supported sizes, for an unsupported modulus."""
        if not self._supports(modulus):
            # Test the largest integer of each size in place of all moduli of that size.
            largest = {n: Modulus.unchecked("", (1 << n) - 1) for n in range(3, MAX_BITS + 1)}
            sizes = [n for n, candidate in largest.items() if self._supports(candidate)]
            raise UnsupportedModulusError(
                f"the modulus of {modulus.name} has {modulus.bits} bits, but "
                f"{type(self).__name__}, with limbs of {self.limb_bits} bits, supports moduli of "
                f"{_runs(sizes)} bits; write quod.field.prime_field(k, modulus), which chooses a "
                "strategy that supports the modulus"
            )

    @abstractmethod
    def _product(self, a: Element, b: Element) -> Element:
        """Return the Montgomery product of elements that fit the limbs."""

    @abstractmethod
    def _square(self, a: Element) -> Element: ...

    @abstractmethod
    def _sum_of_products(self, pairs: Sequence[tuple[Element, Element]]) -> Element:
        """Return the sum of Montgomery products of elements that fit the limbs, reduced once."""

    @abstractmethod
    def _fit(self, a: Element) -> Element: ...

    @abstractmethod
    def _normalise(self, a: Element) -> Element: ...

    @abstractmethod
    def _reduce(self, a: Element, bound: int | None) -> Element:
        """Return an equal element below `bound`, which is p or more; None stands for about 2p."""

    @abstractmethod
    def _canonical(self, a: Element) -> Element: ...

    @abstractmethod
    def _to_words(self, a: Element) -> tuple[Value, ...]: ...

    @abstractmethod
    def _inverse_body(self, k: Builder, a: Element) -> Element:
        """Return the inverse of an element below p."""

    # --- shared

    def _call(
        self, what: str, body: FunctionBody, *arguments: Any, key: Hashable = None,
        inline: bool = False,
    ) -> Any:  # fmt: skip
        """Call a device function of this field, keyed by the field's identity."""
        return self.k.call(
            f"{what}.{self.modulus.name}", body, *arguments, key=(self.identity, key),
            inline=inline,
        )  # fmt: skip

    def _in_function(self, name: str, compute: Callable[..., T], *operands: Element) -> T:
        """Compute in a device function, one for all operands with equal static bounds."""
        result: T = self._call(name, lambda _, *inner: compute(*inner), *operands, key=name)
        return result

    def _check_own(self, *elements: Element) -> None:
        """Raise TraceError unless all elements are of this field."""
        for a in elements:
            argument: object = a
            if not isinstance(argument, Element):
                raise TraceError(
                    f"{an(type(argument).__name__)} is used as an element of {self.modulus.name}; "
                    "write field.constant(number), or field.load(pointer, index)"
                )
            if a.field is not self and a.field.identity != self.identity:
                raise TraceError(
                    f"an element of {a.field.modulus.name} is used as an element of "
                    f"{self.modulus.name}: the fields, or their representations in registers, are "
                    "different"
                )

    def _check_same(self, a: Element, b: Element) -> None:
        """Raise TraceError unless two elements of this field have the same radix."""
        self._check_own(a, b)
        if a.exponent != b.exponent:
            raise TraceError(
                f"elements of {self.modulus.name} with different Montgomery radixes cannot be "
                "added or selected; multiply the one loaded with linear=True by a constant first"
            )

    def constant(self, value: Coefficients) -> Element:
        """A constant of the field, any integer, in native form."""
        if not isinstance(value, int):
            raise TraceError(f"a constant of {self.modulus.name} must be an integer, not {value!r}")
        return self.raw_constant((value << self.native_exponent) % self.p)

    def raw_constant(self, integer: int, exponent: int | None = None) -> Element:
        """Return the constant element whose limbs hold `integer`.

        exponent: log2 of its Montgomery radix. Default: the native one.
        """
        assert 0 <= integer < self.room
        mask = (1 << self.limb_bits) - 1
        parts = [(integer >> (self.limb_bits * j)) & mask for j in range(self.limb_count)]
        limbs = tuple(self.k.constant(part, self.limb_type) for part in parts)
        radix_exponent = self.native_exponent if exponent is None else exponent
        return Element(self, limbs, integer + 1, tuple(parts), radix_exponent)

    def from_integer(self, integer: Value, bits: int) -> Element:
        """Return the element of an unsigned u32 or u64 below 2**bits, in native form.

        bits: at most those of the words of an element in memory.
        """
        words = [integer.cast(self.word_type)]
        if self.word_type.bits < bits:
            words.append((integer >> 32).cast(self.word_type))
        words += [self.k.constant(0, self.word_type)] * (self.word_count - len(words))
        return self._from_stored(self._of_integer(words, bits))

    def _of_integer(self, words: Sequence[Value], bits: int) -> Element:
        """Return the element whose words in memory are those of an integer below 2**bits."""
        return self.from_words(words)

    def _from_stored(self, a: Element) -> Element:
        """Multiply by the radix of memory, which words of an integer lack."""
        radix = self.modulus.montgomery_radix
        return a if radix == 1 else self.multiply_constant(a, radix)

    def zero(self) -> Element:
        """The constant 0."""
        return self.raw_constant(0)

    def loop_zero(self) -> Element:
        """Return the constant 0 with standard bounds, as a loop's initial value."""
        return self.bounded(self.raw_constant(0, self.memory_exponent))

    def multiply(self, a: Element, b: Element) -> Element:
        """Return the Montgomery product, below p + a * b / 2**native_exponent."""
        if a is b:
            return self.square(a)
        self._check_own(a, b)
        return self._product(self.fit(a), self.fit(b))

    def multiply_constant(self, a: Element, value: int) -> Element:
        """Multiply by a static integer with the fewest instructions."""
        return self.multiply(a, self.constant(value))

    def multiply_prepared(self, a: Element, words: Sequence[Value]) -> Element:
        """Multiply by a factor in memory, given by the words of its `prepared_factor`.

        Only if `prepares_factors`. The product has the Montgomery radix of `a`.
        """
        raise TraceError(f"{type(self).__name__} has no products with prepared factors")

    def is_shorter_negated(self, value: int) -> bool:
        """Return whether `multiply_constant` by -value is shorter than by value."""
        return False

    def square(self, a: Element) -> Element:
        """a * a."""
        self._check_own(a)
        return self._square(self.fit(a))

    def sum_of_products(self, pairs: Sequence[tuple[Element, Element]]) -> Element:
        """Return the sum of a * b over all pairs, reduced once.

        Longa, "Efficient algorithms for large prime characteristic fields and their application to
        bilinear pairings", CHES 2023.
        """
        return self.sums_of_products([pairs])[0]

    def sums_of_products(self, sums: Sequence[Sequence[tuple[Element, Element]]]) -> list[Element]:
        """Return independent sums of products, which a strategy may interleave."""
        for pairs in sums:
            self._check_pairs(pairs)
        factors = iter(
            self.fit_many([factor for pairs in sums for pair in pairs for factor in pair])
        )
        fitted = [[(next(factors), next(factors)) for _ in pairs] for pairs in sums]
        return self._sums_of_products(fitted)

    def _check_pairs(self, pairs: Sequence[tuple[Element, Element]]) -> None:
        """Raise TraceError unless these are pairs of factors whose products can be added."""
        for pair in pairs:
            argument: object = pair
            if not isinstance(argument, (tuple, list)) or len(argument) != 2:
                raise TraceError(
                    f"a sum of products in {self.modulus.name} needs pairs of factors, [(a, b), "
                    f"(c, d)], not {an(type(argument).__name__)}"
                )
            self._check_own(*pair)
        if not pairs:
            raise TraceError("a sum of products needs at least one pair; for 0 write field.zero()")
        if len({a.exponent + b.exponent for a, b in pairs}) != 1:
            raise TraceError(
                "products with different Montgomery radixes cannot be added; load all factors with "
                "linear=True, or none"
            )

    def _sums_of_products(self, sums: Sequence[Sequence[tuple[Element, Element]]]) -> list[Element]:
        return [self._sum_of_products(pairs) for pairs in sums]

    def running_sum(self) -> RunningSum | None:
        """Return the accumulator of unreduced products for loops, or None if there is none."""
        return None

    def multiply_many(self, pairs: Sequence[tuple[Element, Element]]) -> list[Element]:
        return self.sums_of_products([[pair] for pair in pairs])

    def square_many(self, elements: Sequence[Element]) -> list[Element]:
        return self._squares(self.fit_many(elements))

    def _squares(self, elements: Sequence[Element]) -> list[Element]:
        return [self._square(a) for a in elements]

    def inverse(self, a: Element) -> Element:
        """Return 1/a, and 0 for 0."""
        result: Element = self._call("inverse", self._inverse_body, self.canonical(a))
        return result

    def frobenius(self, a: Element, times: int = 1) -> Element:
        self._check_own(a)
        return a

    def to_words(self, a: Element) -> tuple[Value, ...]:
        self._check_own(a)
        return self._to_words(a)

    def negate(self, a: Element) -> Element:
        """-a."""
        self._check_own(a)
        zero = self.raw_constant(0, a.exponent)
        return self.subtract(zero, a)

    def fit(self, a: Element) -> Element:
        """Convert an element to limbs that a product accepts: normalised, reduced if necessary."""
        self._check_own(a)
        return self._fit(a)

    def normalise(self, a: Element) -> Element:
        """Carry all limbs but the last below 2**limb_bits; the integer does not change."""
        self._check_own(a)
        return self._normalise(a)

    def reduce(self, a: Element, bound: int | None = None) -> Element:
        """Return an equal element below `bound`, by default about 2p.

        Raises TraceError for a bound below p.
        """
        self._check_own(a)
        return self._reduce(a, None if bound is None else self._check_bound(bound))

    def canonical(self, a: Element) -> Element:
        """Return an equal element below p."""
        self._check_own(a)
        return self._canonical(a)

    def unify(self, elements: Sequence[Element], bound: int) -> list[Element]:
        """Return the elements with equal static bounds, as loops and branches require.

        Each element is normalised, and reduced if it may reach `bound` or `room`. Raises TraceError
        for a bound below p.
        """
        self._check_own(*elements)
        bound = min(self._check_bound(bound), self.room)
        maxima = self._full_maxima(bound)
        unified = []
        for element in self._below_many(elements, bound):
            fitted = element
            if fitted.bound > bound:
                fitted = self.normalise(self.reduce(fitted, bound))
            unified.append(Element(self, fitted.limbs, bound, maxima, fitted.exponent))
        return unified

    def _check_bound(self, bound: int) -> int:
        """Return the bound; raise TraceError if it is below p."""
        if bound < self.p:
            raise TraceError(
                f"elements of {self.modulus.name} can be as large as p - 1, so they cannot be "
                f"reduced below {bound}; give a bound of field.p or more"
            )
        return bound

    def _below_many(self, elements: Sequence[Element], bound: int) -> list[Element]:
        """Normalise the elements, and reduce those that may reach `bound`."""
        return [self.normalise(a if a.bound <= bound else self.reduce(a, bound)) for a in elements]

    def fit_many(self, elements: Sequence[Element]) -> list[Element]:
        self._check_own(*elements)
        return self._fit_many(elements)

    def _fit_many(self, elements: Sequence[Element]) -> list[Element]:
        return [self._fit(a) for a in elements]

    def bounded_many(self, elements: Sequence[Element]) -> list[Element]:
        return self.unify(elements, self.standard_bound)

    @property
    def standard_bound(self) -> int:
        """The standard bound of elements: 4p, or p if 8p exceeds the native radix."""
        return self.p * (4 if self.p << 3 <= 1 << self.native_exponent else 1)

    def _full_maxima(self, bound: int) -> tuple[int, ...]:
        """Return the largest limbs of normalised elements below `bound`."""
        mask = (1 << self.limb_bits) - 1
        top = (bound - 1) >> (self.limb_bits * (self.limb_count - 1))
        return (*([mask] * (self.limb_count - 1)), min(top, mask))

    def select(self, condition: Value, a: Element, b: Element) -> Element:
        """`a` where the condition holds, else `b`."""
        argument: object = condition
        if not isinstance(argument, Value):
            raise TraceError(
                f"a condition must be a bool of the kernel, such as x < y or field.is_zero(a), not "
                f"{argument!r}; for a Python bool write a if condition else b"
            )
        self._check_same(a, b)
        limbs = tuple(self.k.select(condition, x, y) for x, y in zip(a.limbs, b.limbs, strict=True))
        maxima = tuple(max(x, y) for x, y in zip(a.maxima, b.maxima, strict=True))
        return Element(self, limbs, max(a.bound, b.bound), maxima, a.exponent)


def _runs(numbers: Sequence[int]) -> str:
    """Format ascending numbers as ranges, such as ``2 to 5, 7``."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and runs[-1][-1] == number - 1:
            runs[-1][1:] = [number]
        else:
            runs.append([number])
    return ", ".join(" to ".join(map(str, run)) for run in runs) or "no number of"

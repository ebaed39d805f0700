"""Limbs of up to 29 bits in 64-bit lanes, for vectors that multiply 32-bit words (AVX2, NEON).

`vpmuludq` multiplies the low 32 bits of four lanes, `umull` those of two. Products of 29-bit limbs
leave six bits for sums, so a Montgomery product adds all its columns without carries. Factors need
not be normalised: their limbs only have to be below 2**32, and a product's columns below 2**64.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from quod.field.element import Element
from quod.field.moduli import Modulus
from quod.field.strategies.inversion import Inversion29
from quod.field.strategies.limb_counts import bits_for_29, limbs_of_29
from quod.field.strategies.vector_limbs import Limbs, Pairs, Steps, VectorLimbs
from quod.field.strategy import Strategy
from quod.kernel.ir import types
from quod.kernel.ir.value import Value
from quod.kernel.machine import Machine

if TYPE_CHECKING:
    from quod.kernel.builder.builder import Builder

_FACTOR_BITS = 32
_MAX_FACTOR = (1 << _FACTOR_BITS) - 1
_LANES = 4
# The number of bits of p in the last limb for which quotients are estimated from that limb alone.
_MIN_REACH = 2
# The largest number of bits that p may have less than the limbs without the last. It leaves the
# last limb eight bits for multiples of p.
_MAX_MISSING_BITS = 24
# Above this number of limbs, squares with doubled products take longer than products, because LLVM
# keeps more columns than there are registers.
_MAX_SQUARE_LIMBS = 10


class Limbs29(VectorLimbs):
    """Elements in the fewest limbs of at most 29 bits; the limbs are as short as these allow."""

    def __init__(self, k: Builder, modulus: Modulus) -> None:
        self.limb_bits = self._bits_for(modulus)
        super().__init__(k, modulus)
        # Quotients are estimated from two limbs if p does not reach the last limb.
        reach = modulus.bits - self.limb_bits * (self.limb_count - 1)
        self.estimate_limbs = 1 if reach >= _MIN_REACH else 2
        self.room = min(self.room, self.last_most << (self.limb_bits * (self.limb_count - 1)))

    @classmethod
    def _limbs_for(cls, modulus: Modulus) -> int:
        return limbs_of_29(modulus)

    @classmethod
    def _bits_for(cls, modulus: Modulus) -> int:
        return -(-bits_for_29(modulus) // cls._limbs_for(modulus))

    @classmethod
    def _holds(cls, modulus: Modulus) -> bool:
        # Quotients are estimated from the two highest limbs, so p must reach those, and they must
        # fit 32 bits.
        bits = cls._bits_for(modulus)
        return bits * (cls._limbs_for(modulus) - 1) - modulus.bits <= _MAX_MISSING_BITS

    # --- bounds

    @property
    def _added_to_limbs(self) -> int:
        """A reduction adds a multiple before it carries."""
        return super()._added_to_limbs + self._most_of_multiple(_MAX_FACTOR)

    def _most_of_multiple(self, factor: int) -> int:
        return factor * self.limb_mask

    @property
    def last_most(self) -> int:
        """The largest value for which estimated quotients fit 32 bits."""
        return (_MAX_FACTOR * self.p >> (self.limb_bits * (self.limb_count - 1))) - 1

    # --- products

    def _product_limits(self, pairs: Pairs) -> tuple[list[int], int]:
        n, bits, mask = self.limb_count, self.limb_bits, self.limb_mask
        column = n * (sum(max(a.maxima) * max(b.maxima) for a, b in pairs) + mask**2)
        maxima = [column + (column >> (bits - 1))] * n
        products = sum((a.bound - 1) * (b.bound - 1) for a, b in pairs)
        bound = (products + self._most_reduction >> (bits * n)) + 1
        return maxima, bound

    @property
    def _most_reduction(self) -> int:
        """The largest multiple of p that a product adds."""
        unit, upper_weight = 1 << self.limb_bits, 1 << (self.limb_bits * (self.limb_count - 1))
        multiple = self.p * (-pow(self.p, -1, unit) % unit)
        return (upper_weight - 1) * multiple + (unit - 1) * upper_weight * self.p

    def _fit_many(self, elements: Sequence[Element]) -> list[Element]:
        return [
            a if a.bound <= self.room and max(a.maxima) <= _MAX_FACTOR
            else self._below_many([a], self.room)[0]
            for a in elements
        ]  # fmt: skip

    def _sums_of_products(self, sums: Sequence[Pairs]) -> list[Element]:
        return super()._sums_of_products([self._normalise_factors(pairs) for pairs in sums])

    def _normalise_factors(self, pairs: Pairs) -> Pairs:
        """Normalise factors, those with the largest limbs first, until the columns fit."""
        while self._overflows(*self._product_limits(pairs)):
            largest = max((a for pair in pairs for a in pair), key=lambda a: max(a.maxima))
            if max(largest.maxima) <= self.limb_mask:
                break
            normalised = self._normalise(largest)
            pairs = [
                (normalised if a is largest else a, normalised if b is largest else b)
                for a, b in pairs
            ]
        return pairs

    def _squares(self, elements: Sequence[Element]) -> list[Element]:
        return super()._squares(
            [
                self._normalise(a)
                if 2 * max(a.maxima) > _MAX_FACTOR
                or self._overflows(*self._product_limits([(a, a)]))
                else a
                for a in elements
            ]
        )

    def _factor_limbs(self, a: Element) -> tuple[Value, ...]:
        return a.limbs

    def _sum_steps(
        self, k: Builder, a: Sequence[Limbs], b: Sequence[Limbs]
    ) -> Steps[tuple[Value, ...]]:
        """Add rows of each a times one limb of its b, each with a step of the reduction."""
        columns: list[Value | None] = [None] * (2 * self.limb_count)
        a_words, b_words = ([_words(number) for number in numbers] for numbers in (a, b))
        for i in range(self.limb_count):
            for x, y in zip(a_words, b_words, strict=True):
                for j, word in enumerate(x):
                    _add_product(k, columns, i + j, word, y[i])
                    yield
            yield from self._reduction_steps(k, columns, i)
        return self._upper(columns)

    def _square_steps(self, k: Builder, a: Limbs) -> Steps[tuple[Value, ...]]:
        """Add the rows of a square when the reduction needs their lowest column."""
        n = self.limb_count
        if n > _MAX_SQUARE_LIMBS:
            return (yield from self._sum_steps(k, [a], [a]))
        columns: list[Value | None] = [None] * (2 * n)
        words, doubled = _words(a), _words([limb + limb for limb in a])
        for i in range(n):
            if i % 2 == 0:
                yield from self._square_row_steps(k, columns, i // 2, words, doubled)
            yield from self._reduction_steps(k, columns, i)
        # The other rows start above the columns that are reduced.
        for row in range(-(-n // 2), n):
            yield from self._square_row_steps(k, columns, row, words, doubled)
        return self._upper(columns)

    def _square_row_steps(
        self, k: Builder, columns: list[Value | None], i: int, words: Limbs, doubled: Limbs
    ) -> Steps[None]:
        """Add limb i times itself and times the doubled limbs above."""
        _add_product(k, columns, 2 * i, words[i], words[i])
        yield
        for j in range(i + 1, self.limb_count):
            _add_product(k, columns, i + j, words[i], doubled[j])
            yield

    def _reduction_steps(self, k: Builder, columns: list[Value | None], i: int) -> Steps[None]:
        """Clear column i by a multiple of p, and carry its upper bits to the next column.

        All rows but the last add a multiple of N, the least multiple of p that is -1 modulo
        2**limb_bits. The quotient is then the column's low bits q, and as q*N = q*(N + 1) - q, the
        columns above get q times (N + 1) / 2**limb_bits, which has no more limbs than p. A sum of
        these multiples of N is below the product's range times p.
        """
        n, bits, p = self.limb_count, self.limb_bits, self.p
        column = columns[i]
        assert column is not None
        unit = 1 << bits
        inverse = -pow(p, -1, unit) % unit
        if i + 1 < n:
            quotient = (column & self.limb_mask).cast(types.u32)
            multiple = self.raw_constant(p * inverse + 1 >> bits)
        else:
            factor = k.constant(inverse, types.u32)
            product = k.emit("mul_wide", (column.cast(types.u32), factor))
            quotient = (product & self.limb_mask).cast(types.u32)
            multiple = self.raw_constant(p)
            column = column + k.emit("mul_wide", (quotient, _words(multiple.limbs)[0]))
        words = _words(multiple.limbs)
        for j, word in enumerate(words if i + 1 < n else words[1:]):
            _add_product(k, columns, i + 1 + j, quotient, word)
            yield
        _add(columns, i + 1, column >> bits)
        yield

    def _upper(self, columns: Sequence[Value | None]) -> tuple[Value, ...]:
        zero = self.k.constant(0, types.u64)
        return tuple(zero if column is None else column for column in columns[self.limb_count :])

    # --- reductions
    #
    # They are device functions, as inline copies would be most of the code of many kernels. So that
    # few functions serve all operands, the static bounds of operands are raised to a few values.

    def _below_many(self, elements: Sequence[Element], bound: int) -> list[Element]:
        return [self._normalise(a) if a.bound <= bound else self._reduce_once(a) for a in elements]

    def _reduce_once(self, a: Element) -> Element:
        n, ignored = self.limb_count, self.limb_count - self.estimate_limbs
        # The limbs that an estimate ignores may hold an eighth of p before they must be carried.
        # The words of the other limbs below the last may not reach beyond the last limb.
        limit = (self.p >> 3) // sum(1 << (self.limb_bits * j) for j in range(ignored))
        limits = [limit] * ignored + [self.limb_mask] * (n - 1 - ignored)
        last = min(self.last_most, _MAX_FACTOR)
        if self._top(a.bound) > last:
            last = self.last_most
        operand = self._with_bounds(a, limits, last + 1 << (self.limb_bits * (n - 1)))
        return self._in_function("reduce", super()._reduce_once, operand)

    def _reduce_steps(self, a: Element) -> Steps[Element]:
        # So `_reduce_once` marks operands beyond its limits.
        if a.maxima[0] == self.most:
            a = yield from self._normalise_steps(a)
        return (yield from super()._reduce_steps(a))

    def _canonical(self, a: Element) -> Element:
        return self._in_function("canonical", super()._canonical, self._with_power_of_two_bound(a))

    def _to_words(self, a: Element) -> tuple[Value, ...]:
        return self._in_function("to_words", super()._to_words, self._with_power_of_two_bound(a))

    def _with_power_of_two_bound(self, a: Element) -> Element:
        """Return the element with a power of two times p as its bound."""
        bound = self._amount(2 * a.bound, self.p)
        limits = [self.limb_mask] * (self.limb_count - 1)
        return a if bound > self.room else self._with_bounds(a, limits, bound)

    def _with_bounds(self, a: Element, limits: Sequence[int], bound: int) -> Element:
        """Return the element with larger static bounds.

        limits: the maxima of the limbs below the last; `most` if the element's maxima exceed them.
        """
        fits = all(maximum <= limit for maximum, limit in zip(a.maxima, limits, strict=False))
        maxima = limits if fits else [self.most] * len(limits)
        return Element(self, a.limbs, bound, (*maxima, self._top(bound)), a.exponent)

    def _estimate_quotient(self, a: Element) -> tuple[Value, int]:
        k, bits = self.k, self.limb_bits
        highest, most = a.limbs[-1], a.maxima[-1]
        if self.estimate_limbs == 2:
            highest = (highest << bits) + a.limbs[-2]
            most = (most << bits) + a.maxima[-2]
        excess = max(0, most.bit_length() - _FACTOR_BITS)
        weight = bits * (self.limb_count - self.estimate_limbs) + excess
        shift = self.p.bit_length() + _FACTOR_BITS - 1 - weight
        scale = k.constant((1 << (weight + shift)) // self.p, types.u32)
        product = k.emit("mul_wide", ((highest >> excess).cast(types.u32), scale))
        # The estimate is too small by less than one for its rounding, and the scale's rounding.
        scale_error = ((most >> excess) * self.p >> shift) + 1
        return product >> shift, self.p + scale_error + (1 << weight if excess else 0)

    def _low_bits_of_product(self, a: Value, b: Value, count: int) -> Value:
        product = self.k.emit("mul_wide", (a.cast(types.u32), b.cast(types.u32)))
        return product & ((1 << count) - 1)

    def _multiple_steps(self, columns: list[Value], factor: Value, number: Limbs) -> Steps[None]:
        factor_word = factor.cast(types.u32)
        for j, word in enumerate(_words(number)):
            columns[j] = columns[j] + self.k.emit("mul_wide", (factor_word, word))
            yield

    def _inversion(self, k: Builder, scale: int) -> Inversion29:
        return Inversion29(k, self.modulus, scale, self.limb_count, self.limb_bits)


def _words(limbs: Limbs) -> list[Value]:
    return [limb.cast(types.u32) for limb in limbs]


def _add_product(k: Builder, columns: list[Value | None], index: int, a: Value, b: Value) -> None:
    _add(columns, index, k.emit("mul_wide", (a, b)))


def _add(columns: list[Value | None], index: int, addend: Value) -> None:
    column = columns[index]
    columns[index] = addend if column is None else column + addend


def _suits(machine: Machine, modulus: Modulus) -> float | str:
    if not Limbs29._holds(modulus):
        return "29-bit limbs exceed the modulus by too many bits"
    # A product of limbs is one instruction for all lanes.
    return 2 * Limbs29._limbs_for(modulus) ** 2 / _LANES


STRATEGY = Strategy(_suits, Limbs29)

"""52-bit limbs for AVX-512 IFMA: eight products at once, one per lane.

`vpmadd52luq` and `vpmadd52huq` add the low or high half of a 52 by 52-bit product to a 64-bit lane.
This leaves 12 bits for carries, so a product adds columns without carrying. Its limbs are reduced
below 2**52 only when they become factors again (Gueron and Krasnov, "Accelerating big integer
arithmetic using Intel IFMA extensions", ARITH 2016).
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import TypeAlias, TypeVar

from quod.field.element import Element
from quod.field.moduli import Modulus
from quod.field.strategies.inversion import Inversion52
from quod.field.strategies.spare_limbs import SpareLimbs
from quod.field.strategy import Strategy
from quod.kernel.builder.builder import Builder
from quod.kernel.errors import TraceError
from quod.kernel.ir import types
from quod.kernel.ir.value import Value
from quod.kernel.machine import Machine

_BITS = 52
_MASK = (1 << _BITS) - 1
_WORD_LIMIT = 1 << 64
_INTERLEAVED_PRODUCTS = 2
_MAX_SPARE_BITS = 50
"""The largest number of bits by which the limbs may exceed the modulus.

Quotients are estimated from the highest limb, so p must reach that limb."""

T = TypeVar("T")

Steps: TypeAlias = Generator[None, None, T]
"""A computation that pauses after each step."""


class Ifma52(SpareLimbs):
    """Elements in 52-bit limbs, one 64-bit lane each."""

    limb_bits = _BITS

    @classmethod
    def _limbs_for(cls, modulus: Modulus) -> int:
        # The limbs must hold 16p, which inversion needs, and at least the bits of memory.
        return -(-max(modulus.bits + 4, 32 * modulus.words) // _BITS)

    @classmethod
    def _holds(cls, modulus: Modulus) -> bool:
        bits = _BITS * cls._limbs_for(modulus)
        return bits - 32 * modulus.words <= _BITS and bits - modulus.bits <= _MAX_SPARE_BITS

    # --- bounds

    @property
    def _added_to_limbs(self) -> int:
        """A reduction adds two halves of products before it carries."""
        return super()._added_to_limbs + 2 * _MASK

    @property
    def last_most(self) -> int:
        """The largest value for which the factor of quotient estimates fits 52 bits."""
        excess = 0
        while excess < 64 - _BITS - 1 and self._quotient_scale(excess + 1) <= _MASK:
            excess += 1
        return (1 << (_BITS + excess)) - 1

    def _quotient_scale(self, excess: int) -> int:
        """Return 2**52 / p times the weight of the last limb without its `excess` lowest bits."""
        return (1 << (_BITS * self.limb_count + excess)) // self.p

    def _normalise(self, a: Element) -> Element:
        return _interleaved([self._normalise_steps(a)])[0]

    def _normalise_steps(self, a: Element) -> Steps[Element]:
        """Carry the bits of each limb above 52 into the next limb."""
        if max(a.maxima) <= _MASK:
            return a
        limbs, maxima = [], []
        carry: Value | None = None
        carry_maximum = 0
        for j, (limb, maximum) in enumerate(zip(a.limbs, a.maxima, strict=True)):
            if carry is not None:
                limb, maximum = limb + carry, maximum + carry_maximum
            if j + 1 < self.limb_count and maximum > _MASK:
                carry, carry_maximum = limb >> _BITS, maximum >> _BITS
                limb, maximum = limb & _MASK, _MASK
            else:
                carry, carry_maximum = None, 0
            limbs.append(limb)
            maxima.append(maximum)
            yield
        return self._element(limbs, a.bound, maxima, a.exponent)

    def _fit(self, a: Element) -> Element:
        return self._fit_many([a])[0]

    def _fit_many(self, elements: Sequence[Element]) -> list[Element]:
        return self._below_many(elements, self.room)

    def _below_many(self, elements: Sequence[Element], bound: int) -> list[Element]:
        return _interleaved(
            [
                self._normalise_steps(a) if a.bound <= bound else self._reduce_steps(a)
                for a in elements
            ]
        )

    # --- products

    def _product_limits(self, pairs: Sequence[tuple[Element, Element]]) -> tuple[list[int], int]:
        """Return the maxima of the limbs of a sum of products, and its bound."""
        products = sum((a.bound - 1) * (b.bound - 1) for a, b in pairs)
        bound = (products + (self.room - 1) * self.p) // self.room + 1
        # A column gets two halves per limb, for each product and for the reduction, and a carry.
        maxima = [(2 * self.limb_count * (len(pairs) + 1) + 1) << _BITS] * self.limb_count
        return maxima, bound

    def _product_element(
        self, pairs: Sequence[tuple[Element, Element]], limbs: Sequence[Value]
    ) -> Element:
        maxima, bound = self._product_limits(pairs)
        exponent = pairs[0][0].exponent + pairs[0][1].exponent - self.native_exponent
        return self._element(limbs, bound, maxima, exponent)

    def _product(self, a: Element, b: Element) -> Element:
        return self._sums_of_products([[(a, b)]])[0]

    def _square(self, a: Element) -> Element:
        return self._squares([a])[0]

    def _sum_of_products(self, pairs: Sequence[tuple[Element, Element]]) -> Element:
        if not self._overflows(*self._product_limits(pairs)):
            return self._sums_of_products([pairs])[0]
        half = len(pairs) // 2
        return self.add(self._sum_of_products(pairs[:half]), self._sum_of_products(pairs[half:]))

    def _sums_of_products(self, sums: Sequence[Sequence[tuple[Element, Element]]]) -> list[Element]:
        """Interleave two sums of equally many products at a time."""
        if any(self._overflows(*self._product_limits(pairs)) for pairs in sums):
            return [self._sum_of_products(pairs) for pairs in sums]
        results: list[Element] = []
        while len(results) < len(sums):
            group = sums[len(results) : len(results) + _INTERLEAVED_PRODUCTS]
            if len({len(pairs) for pairs in group}) > 1:
                group = group[:1]
            factors = [
                ([_unmasked(a) for a, _ in pairs], [_unmasked(b) for _, b in pairs])
                for pairs in group
            ]  # fmt: skip
            limbs = self._call("products", self._sums_body, factors, key=self.limb_count)
            results += [
                self._product_element(pairs, sum_limbs)
                for pairs, sum_limbs in zip(group, limbs, strict=True)
            ]
        return results

    def _squares(self, elements: Sequence[Element]) -> list[Element]:
        results: list[Element] = []
        for start in range(0, len(elements), _INTERLEAVED_PRODUCTS):
            group = elements[start : start + _INTERLEAVED_PRODUCTS]
            limbs = self._call("squares", self._squares_body, [_unmasked(a) for a in group],
                key=self.limb_count,
            )  # fmt: skip
            results += [
                self._product_element([(a, a)], square_limbs)
                for a, square_limbs in zip(group, limbs, strict=True)
            ]
        return results

    def _sums_body(
        self,
        k: Builder,
        factors: Sequence[tuple[Sequence[Sequence[Value]], Sequence[Sequence[Value]]]],
    ) -> list[tuple[Value, ...]]:
        return _interleaved([self._sum_steps(k, a, b) for a, b in factors])

    def _squares_body(
        self, k: Builder, elements: Sequence[Sequence[Value]]
    ) -> list[tuple[Value, ...]]:
        return _interleaved([self._square_steps(k, a) for a in elements])

    def _sum_steps(
        self, k: Builder, a: Sequence[Sequence[Value]], b: Sequence[Sequence[Value]]
    ) -> Steps[tuple[Value, ...]]:
        """Add rows of each a times one limb of its b, each with a step of Montgomery reduction.

        The next row is added before the reduction of the previous one, to hide the latency of that
        reduction's quotient.
        """
        n = self.limb_count
        columns = [k.constant(_MASK, types.u64)] * n + [k.constant(0, types.u64)] * n
        yield from self._row_steps(k, columns, 0, a, b)
        for i in range(n):
            quotient = self._quotient(k, columns, i)
            yield
            if i + 1 < n:
                yield from self._row_steps(k, columns, i + 1, a, b)
            yield from self._reduction_steps(k, columns, i, quotient)
        return tuple(columns[n:])

    def _row_steps(
        self,
        k: Builder,
        columns: list[Value],
        i: int,
        a: Sequence[Sequence[Value]],
        b: Sequence[Sequence[Value]],
    ) -> Steps[None]:
        """Add each a times limb i of its b to the columns from i on."""
        n = self.limb_count
        for x, y in zip(a, b, strict=True):
            for j in range(n):
                columns[i + j] = _low(k, columns[i + j], x[j], y[i])
                yield
            for j in range(n):
                # Nothing has been added yet to column i + n.
                columns[i + j + 1] = _high(k, columns[i + j + 1], x[j], y[i])
                yield

    def _quotient(self, k: Builder, columns: list[Value], i: int) -> Value:
        """Return the multiple of p that clears the low 52 bits of column i, and carry the others.

        The column is offset by 2**52 - 1. Clearing rounds the true value up to a multiple of 2**52,
        so the bits from 52 on of the offset column are the carry, without computing the product.
        The quotient compensates for the offset, which is -1 modulo 2**52.
        """
        inverse = k.constant(-pow(self.p, -1, 1 << _BITS) % (1 << _BITS), types.u64)
        columns[i + 1] = columns[i + 1] + (columns[i] >> _BITS)
        return _low(k, inverse, columns[i], inverse)

    def _reduction_steps(
        self, k: Builder, columns: list[Value], i: int, quotient: Value
    ) -> Steps[None]:
        """Add a multiple of p to the columns above i."""
        n = self.limb_count
        modulus = self.raw_constant(self.p).limbs
        for j in range(1, n):
            columns[i + j] = _low(k, columns[i + j], quotient, modulus[j])
            yield
            columns[i + j] = _high(k, columns[i + j], quotient, modulus[j - 1])
            yield
        columns[i + n] = _high(k, columns[i + n], quotient, modulus[n - 1])
        yield

    def _square_steps(self, k: Builder, a: Sequence[Value]) -> Steps[tuple[Value, ...]]:
        """Square column by column, with the higher columns between the steps of the reduction."""
        n = self.limb_count
        columns: list[Value] = []
        for _ in range(n + 1):
            yield from self._column_steps(k, columns, a)
        for i in range(n):
            quotient = self._quotient(k, columns, i)
            yield
            if len(columns) < 2 * n:
                yield from self._column_steps(k, columns, a)
            yield from self._reduction_steps(k, columns, i, quotient)
        return tuple(columns[n:])

    def _column_steps(self, k: Builder, columns: list[Value], a: Sequence[Value]) -> Steps[None]:
        """Append the next column of a square: doubled products of different limbs, and a square."""
        n, column_index = self.limb_count, len(columns)
        column = k.constant(0, types.u64)
        for i in range(n):
            for other, multiply_add in ((column_index - i, _low), (column_index - 1 - i, _high)):
                if i < other < n:
                    column = multiply_add(k, column, a[i], a[other])
                    yield
        column = column + column
        if column_index < n:
            column = column + _MASK
        middle_index = column_index // 2
        columns.append(
            (_high if column_index % 2 else _low)(k, column, a[middle_index], a[middle_index])
        )
        yield

    # --- reductions

    def _reduce(self, a: Element, bound: int | None) -> Element:
        """Reduce by a quotient estimated from the highest limb, to slightly above 2p."""
        if a.bound <= (bound or 2 * self.p):
            return a
        a = _interleaved([self._reduce_steps(a)])[0]
        while bound is not None and a.bound > bound:
            # An estimate from limbs with pending carries may leave a large remainder.
            remainder = _interleaved([self._reduce_steps(a)])[0] if a.bound > 4 * self.p else a
            if remainder.bound == a.bound:
                remainder = self._subtract_if_not_less(a, self.p)
            a = remainder
        return a

    def _reduce_steps(self, a: Element) -> Steps[Element]:
        k, n = self.k, self.limb_count
        excess = max(0, a.maxima[-1].bit_length() - _BITS)
        # The estimate is too small by less than two, plus the part below the highest limb.
        scale = k.constant(self._quotient_scale(excess), types.u64)
        quotient = _high(k, k.constant(0, types.u64), a.limbs[-1] >> excess, scale)
        yield
        complement = self.raw_constant((1 << (_BITS * n)) - self.p).limbs
        columns = list(a.limbs)
        for j in range(n):
            columns[j] = _low(k, columns[j], quotient, complement[j])
            yield
        for j in range(n - 1):
            columns[j + 1] = _high(k, columns[j + 1], quotient, complement[j])
            yield
        limbs: list[Value] = []
        carry: Value | None = None
        for column in columns:
            total = column if carry is None else column + carry
            carry = total >> _BITS
            limbs.append(total & _MASK)
            yield
        ignored = sum(maximum << (_BITS * j) for j, maximum in enumerate(a.maxima[:-1]))
        ignored += 1 << (_BITS * (n - 1) + excess)
        remainder_bound = min(a.bound, 2 * self.p + ignored)
        return self._element(limbs, remainder_bound, [_MASK] * n, a.exponent)

    def _subtract_if_not_less(self, a: Element, amount: int) -> Element:
        """Return a - amount if a is not less, else a; a must be normalised."""
        n = self.limb_count
        complement = self.raw_constant((1 << (_BITS * n)) - amount).limbs
        limbs: list[Value] = []
        carry: Value | None = None
        for limb, addend in zip(a.limbs, complement, strict=True):
            total = limb + addend
            if carry is not None:
                total = total + carry
            carry = total >> _BITS
            limbs.append(total & _MASK)
        assert carry is not None
        is_not_less = carry != 0
        chosen = [self.k.select(is_not_less, x, y) for x, y in zip(limbs, a.limbs, strict=True)]
        bound = max(amount, a.bound - amount)
        return self._element(chosen, bound, [_MASK] * n, a.exponent)

    def _reduce_below_unit(self, a: Element, unit: int) -> Element:
        """Subtract multiples of `unit`, p times a power of two, until the element is below it."""
        a = self.normalise(a)
        while a.bound > unit:
            power_of_two = 1
            while unit * 2 * power_of_two < a.bound:
                power_of_two *= 2
            a = self._subtract_if_not_less(a, unit * power_of_two)
        return a

    def _canonical(self, a: Element) -> Element:
        return self._reduce_below_unit(self.fit(a), self.p)

    def _inverse_body(self, k: Builder, a: Element) -> Element:
        n = self.limb_count
        scale = pow(2, a.exponent + self.native_exponent, self.p)
        inversion = Inversion52(k, self.modulus, scale, n)
        limbs = inversion.inverse(k, a.limbs)
        maxima = [_MASK] * (n - 1) + [_WORD_LIMIT - 1]
        return self._element(limbs, 2 * inversion.size * self.p, maxima, self.native_exponent)

    # --- memory

    def from_words(self, words: Sequence[Value], *, linear: bool = False) -> Element:
        shift = 0 if linear else self.native_exponent - self.memory_exponent
        limbs = [self._extract_bits(words, _BITS * j - shift) for j in range(self.limb_count)]
        bound = ((self.p - 1) << shift) + 1
        exponent = self.memory_exponent + shift
        return self._element(limbs, bound, [_MASK] * self.limb_count, exponent)

    def _extract_bits(self, words: Sequence[Value], low: int) -> Value:
        """Return 52 bits of packed words from bit `low` on; bits below zero are zero."""
        parts = []
        for index, word in enumerate(words):
            offset = 64 * index - low
            if offset >= _BITS or offset <= -64:
                continue
            parts.append(word << offset if offset >= 0 else word >> -offset)
        if not parts:
            return self.k.constant(0, types.u64)
        combined = parts[0]
        for part in parts[1:]:
            combined = combined | part
        return combined & _MASK

    def _to_words(self, a: Element) -> tuple[Value, ...]:
        shift = a.exponent - self.memory_exponent
        if not 0 <= shift <= _BITS:
            raise TraceError(
                "an element with this Montgomery radix cannot be stored; multiply it by a constant "
                "first"
            )
        # The comparisons below need values within the limbs; clearing low bits adds multiples of p.
        max_bound = self.room - ((1 << shift) - 1) * self.p
        if a.bound > max_bound:
            a = self.reduce(a, max(max_bound, self.p))
        if shift:
            a = self._clear_low_bits(self.normalise(a), shift)
        a = self._reduce_below_unit(a, self.p << shift)
        words = []
        for index in range(self.word_count):
            low = 64 * index + shift
            parts = []
            for j, limb in enumerate(a.limbs):
                offset = _BITS * j - low
                if offset >= 64 or offset <= -_BITS:
                    continue
                parts.append(limb << offset if offset >= 0 else limb >> -offset)
            word = parts[0]
            for part in parts[1:]:
                word = word | part
            words.append(word)
        return tuple(words)

    def _clear_low_bits(self, a: Element, count: int) -> Element:
        """Add the multiple of p that makes a a multiple of 2**count."""
        k, n = self.k, self.limb_count
        unit = 1 << count
        inverse = k.constant(-pow(self.p, -1, unit) % unit, types.u64)
        quotient = _low(k, k.constant(0, types.u64), a.limbs[0], inverse) & (unit - 1)
        modulus = self.raw_constant(self.p).limbs
        limbs = list(a.limbs)
        for j in range(n):
            limbs[j] = _low(k, limbs[j], quotient, modulus[j])
        for j in range(n - 1):
            limbs[j + 1] = _high(k, limbs[j + 1], quotient, modulus[j])
        bound = a.bound + (unit - 1) * self.p
        maxima = [maximum + 2 * _MASK for maximum in a.maxima]
        return self._element(limbs, bound, maxima, a.exponent)


def _interleaved(computations: Sequence[Steps[T]]) -> list[T]:
    """Interleave independent computations step by step, and return their results.

    While one product waits for a column, the CPU executes the other. Without interleaving, the
    CPU's reorder window is too small to reach the next product.
    """
    results: dict[int, T] = {}
    running = dict(enumerate(computations))
    while running:
        for index in list(running):
            try:
                next(running[index])
            except StopIteration as stop:
                results[index] = stop.value
                del running[index]
    return [results[index] for index in range(len(computations))]


def _unmasked(a: Element) -> tuple[Value, ...]:
    """Return the limbs of a factor without the masks of its normalisation.

    The multiply-adds ignore bits above 52, so a mask without other uses becomes dead code.
    """
    limbs = []
    for limb in a.limbs:
        op = limb.op
        masked = op is not None and op.name == "and" and op.operands[1].constant == _MASK
        limbs.append(op.operands[0] if op is not None and masked else limb)
    return tuple(limbs)


def _low(k: Builder, c: Value, a: Value, b: Value) -> Value:
    return k.emit("madd52_lo", (c, a, b))


def _high(k: Builder, c: Value, a: Value, b: Value) -> Value:
    return k.emit("madd52_hi", (c, a, b))


def _suits(machine: Machine, modulus: Modulus) -> float | str:
    if not Ifma52._holds(modulus):
        return "52-bit limbs exceed the modulus by too many bits"
    # Each half of a product is one instruction, for eight lanes.
    return 4 * Ifma52._limbs_for(modulus) ** 2 / 8


STRATEGY = Strategy(_suits, Ifma52)

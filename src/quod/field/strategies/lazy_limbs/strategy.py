"""Small limbs in 32-bit words, for targets without carry chains and wide products, such as WGSL.

A limb has far fewer bits than its word, so sums and columns of products delay their carries. Exact
static bounds of every limb determine when to carry. `quod.field.strategies.limb_choice` describes
the sizes of limbs to choose from.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

from quod.field.element import Element
from quod.field.moduli import Modulus
from quod.field.strategies.lazy_limbs.products import LimbShape, MontgomeryProducts, Pairs
from quod.field.strategies.limb_choice import Form, chosen, limbs_for
from quod.field.strategies.spare_limbs import SpareLimbs
from quod.field.strategy import Strategy
from quod.kernel.builder.builder import Builder
from quod.kernel.errors import TraceError
from quod.kernel.ir import types
from quod.kernel.ir.value import Value
from quod.kernel.machine import Capability, Machine

_WORD_LIMIT = 1 << 32
_MAX_PARAMETERS = 255
"""The largest number of parameters of a function in WGSL."""


class LazyLimbs(SpareLimbs):
    """Elements in small limbs, one u32 each.

    limbs: the name of a `LimbChoice`. Default: `k.machine.limbs`.
    Raises TraceError for 64-bit columns on a machine without 64-bit integers.
    """

    limb_type = types.u32

    def __init__(self, k: Builder, modulus: Modulus, limbs: str | None = None) -> None:
        name = k.machine.limbs if limbs is None else limbs
        self.choice = chosen(name)
        if self.choice.wide and not k.machine.has(Capability.U64):
            raise TraceError(f"limbs {name} need a machine with 64-bit integers")
        self.limb_bits = self.choice.bits
        super().__init__(k, modulus)
        self.identity = self.identity._replace(
            form=(self.choice.bits, self.choice.wide, self.choice.form)
        )
        column = types.u64 if self.choice.wide else types.u32
        self.shape = LimbShape(self.limb_bits, self.limb_count, column)
        self.products = MontgomeryProducts(k, modulus, self.shape)
        self._mask = self.shape.mask

    def _limbs_for(self, modulus: Modulus) -> int:
        return self.choice.limbs_for(modulus)

    def _holds(self, modulus: Modulus) -> bool:
        return self.choice.holds(modulus)

    # --- bounds

    @property
    def last_most(self) -> int:
        """The maximum of the last limb: half a word, since differences have a sign."""
        return (_WORD_LIMIT >> 1) - 1

    def _normalised_element(self, limbs: Sequence[Value], bound: int, exponent: int) -> Element:
        """Return an element of normalised limbs."""
        maxima = [self._mask] * (self.limb_count - 1) + [_WORD_LIMIT - 1]
        return self._element(limbs, bound, maxima, exponent)

    def _normalise(self, a: Element) -> Element:
        if max(a.maxima[:-1]) <= self._mask:
            return a
        limbs = self._call("normalise", self._carry_limbs, a.limbs)
        return self._normalised_element(limbs, a.bound, a.exponent)

    def _carry_limbs(self, k: Builder, limbs: Sequence[Value]) -> tuple[Value, ...]:
        """Carry each limb to the next; the last limb keeps all higher bits."""
        carried: list[Value] = []
        total = limbs[0]
        for limb in limbs[1:]:
            carried.append(total & self._mask)
            total = limb + (total >> self.limb_bits)
        return (*carried, total)

    def _fit(self, a: Element) -> Element:
        return self.normalise(self._reduce_to_bound(a, self.room))

    def _reduce_to_bound(self, a: Element, bound: int) -> Element:
        return a if a.bound <= bound else self.reduce(a, bound)

    # --- products

    def _product(self, a: Element, b: Element) -> Element:
        return self._sum_of_products([(a, b)])

    def _square(self, a: Element) -> Element:
        return self._sum_of_products([(a, a)])

    def _sum_of_products(self, pairs: Sequence[tuple[Element, Element]]) -> Element:
        max_sum = sum((a.bound - 1) * (b.bound - 1) for a, b in pairs)
        bound = self.products.bound(max_sum, karatsuba=self.choice.form == "karatsuba")
        if len(pairs) > self._max_terms or bound > self.room:
            if len(pairs) == 1:
                return self._sum_of_products([(self._reduce_below(pairs[0][0]), pairs[0][1])])
            half = len(pairs) // 2
            return self.add(
                self._sum_of_products(pairs[:half]), self._sum_of_products(pairs[half:])
            )
        # A loop gains nothing from a square, which would be another function.
        is_square = [a is b and self.choice.form != "rolled" for a, b in pairs]
        second_factors = [
            () if is_same else b.limbs for is_same, (_, b) in zip(is_square, pairs, strict=True)
        ]
        limbs = self._call(
            f"sum_of_{len(pairs)}_products", self._sum_body,
            [a.limbs for a, _ in pairs], second_factors, key=(self.limb_count, tuple(is_square)),
        )  # fmt: skip
        exponent = pairs[0][0].exponent + pairs[0][1].exponent - self.native_exponent
        return self._normalised_element(limbs, bound, exponent)

    @property
    def _max_terms(self) -> int:
        return _MAX_PARAMETERS // (2 * self.limb_count)

    def _reduce_below(self, a: Element) -> Element:
        return self.normalise(self.reduce(a, 2 * self.p))

    def _sum_body(
        self, k: Builder, a: Sequence[Sequence[Value]], b: Sequence[Sequence[Value]]
    ) -> tuple[Value, ...]:
        pairs = [(x, y or x) for x, y in zip(a, b, strict=True)]
        forms: dict[Form, Callable[[Pairs], list[Value]]] = {
            "columns": self.products.by_columns,
            "rows": self.products.by_rows,
            "karatsuba": self.products.karatsuba,
            "rolled": self.products.rolled,
        }
        return tuple(forms[self.choice.form](pairs))

    # --- reductions

    def _reduce(self, a: Element, bound: int | None) -> Element:
        """Reduce by a quotient estimated from the highest bits, to slightly above 2p."""
        target_bound = bound or 2 * self.p + (self.p >> 2)
        while a.bound > target_bound:
            a = self.normalise(a)
            estimate = self._best_estimate(a.bound)
            if estimate.bound < a.bound and a.bound > 2 * self.p:
                limbs = self._call("reduce", estimate.limbs, a.limbs, key=a.bound)
                a = self._normalised_element(limbs, estimate.bound, a.exponent)
            else:
                a = self._subtract_if_not_less(a, self._amount(a.bound, self.p))
        return a

    def _best_estimate(self, bound: int) -> QuotientEstimate:
        """Return the estimate with the smallest bound on the remainder."""
        estimates = [QuotientEstimate(self, bound, top_bits) for top_bits in range(1, 32)]
        return min(estimates, key=lambda estimate: estimate.bound)

    def _subtract_if_not_less(self, a: Element, amount: int) -> Element:
        """Return a - amount if a is not less, else a; a must be normalised."""

        def body(k: Builder, limbs: Sequence[Value]) -> tuple[Value, ...]:
            difference: list[Value] = []
            top = self.limb_count - 1
            amount_limbs = self.shape.split(amount)
            amount_limbs[top] = amount >> (self.limb_bits * top)
            total = k.constant(0, types.i32)
            for j, (limb, amount_limb) in enumerate(zip(limbs, amount_limbs, strict=True)):
                total = k.bitcast(limb - amount_limb, types.i32) + (total >> self.limb_bits)
                word = k.bitcast(total, types.u32)
                difference.append(word & self._mask if j < top else word)
            negative = total < 0
            return tuple(k.select(negative, x, y) for x, y in zip(limbs, difference, strict=True))

        limbs = self._call("subtract", body, a.limbs, key=amount)
        return self._normalised_element(limbs, max(amount, a.bound - amount), a.exponent)

    def _canonical(self, a: Element) -> Element:
        return self._reduce_below_unit(self.reduce(self.fit(a)), self.p)

    # --- inversion

    def _inverse_body(self, k: Builder, a: Element) -> Element:
        """Return a**(p - 2) by a loop over bits: small code for a rare operation."""
        exponent = self.p - 2
        words = [(exponent >> (32 * j)) & 0xFFFFFFFF for j in range(self.modulus.words)]
        start_words = tuple(k.constant(word, types.u32) for word in reversed(words))
        native = Element(self, a.limbs, a.bound, a.maxima, self.native_exponent)
        (base,) = self.bounded_many([native])
        (one,) = self.bounded_many([self.one()])
        with k.range(0, k.constant(32 * len(words), types.u32), carry=(one, start_words)) as loop:
            power, exponent_words = loop.carried
            squared = self.bounded(self.square(power))
            with k.if_((exponent_words[0] >> 31) != 0) as branch:
                branch.yield_(self.bounded(self.multiply(squared, base)))
            with branch.otherwise():
                branch.yield_(squared)
            shifted_words = [
                (word << 1) | (next_word >> 31)
                for word, next_word in itertools.pairwise(exponent_words)
            ]
            loop.next((branch.results, (*shifted_words, exponent_words[-1] << 1)))
        inverse, _ = loop.results
        # `native` has the limbs of a in the native radix; the result is corrected for that.
        correction = pow(2, a.exponent - self.native_exponent, self.p)
        return self.multiply(inverse, self.constant(correction))

    # --- memory

    def from_words(self, words: Sequence[Value], *, linear: bool = False) -> Element:
        shift = 0 if linear else self.native_exponent - self.memory_exponent
        limbs = self._call_shifted("unpack", self._unpack, halves(words), shift)
        return self._normalised_element(
            limbs, ((self.p - 1) << shift) + 1, self.memory_exponent + shift
        )

    def _call_shifted(
        self,
        what: str,
        body: Callable[[Builder, Sequence[Value], int], tuple[Value, ...]],
        words: Sequence[Value],
        shift: int,
    ) -> tuple[Value, ...]:
        """Call a device function that is specialised for a shift."""
        result: tuple[Value, ...] = self._call(
            what, lambda k, values: body(k, values, shift), tuple(words), key=shift
        )
        return result

    def _unpack(self, k: Builder, words: Sequence[Value], shift: int) -> tuple[Value, ...]:
        """Return the limbs of the packed 32-bit words' integer times 2**shift."""
        bits = self.limb_bits
        limbs = []
        for j in range(self.limb_count):
            limb = _extract_bits(k, words, 32, bits * j - shift, bits)
            limbs.append(limb & self._mask)
        return tuple(limbs)

    def _to_words(self, a: Element) -> tuple[Value, ...]:
        shift = a.exponent - self.memory_exponent
        if not 0 <= shift <= self.limb_bits:
            raise TraceError(
                "an element with this Montgomery radix cannot be stored; multiply it by a constant "
                "first"
            )
        if shift:
            # Clearing the low bits adds multiples of p, which must fit the limbs.
            max_bound = self.room - ((1 << shift) - 1) * self.p
            a = self._clear_low_bits(self.normalise(self._reduce_to_bound(a, max_bound)), shift)
        elif a.bound > 2 * self.p:
            a = self.reduce(a)
        a = self._reduce_below_unit(a, self.p << shift)
        words = self._call_shifted("pack", self._pack, a.limbs, shift)
        return joined(words)

    def to_register(self, a: Element) -> tuple[Value, ...]:
        """Pack a bounded, unreduced element into 32-bit words, for an instance's private memory."""
        # If the modulus nearly fills its words, bounded elements may exceed them.
        a = self.unify([a], min(self.standard_bound, 1 << self.memory_exponent))[0]
        if a.exponent != self.native_exponent:
            raise TraceError(
                f"an element of {self.modulus.name} needs the native Montgomery radix to be packed"
            )
        return self._call_shifted("pack", self._pack, a.limbs, 0)

    def from_register(self, words: Sequence[Value]) -> Element:
        """Unpack the words of `to_register`; zeros are the element 0."""
        limbs = self._call_shifted("unpack", self._unpack, words, 0)
        maxima = self._full_maxima(self.standard_bound)
        return Element(self, limbs, self.standard_bound, maxima, self.native_exponent)

    def _pack(self, k: Builder, limbs: Sequence[Value], shift: int) -> tuple[Value, ...]:
        """Return the 32-bit words of the limbs' integer divided by 2**shift."""
        return tuple(
            _extract_bits(k, limbs, self.limb_bits, 32 * index + shift, 32)
            for index in range(self.modulus.words)
        )

    def _clear_low_bits(self, a: Element, count: int) -> Element:
        """Add the multiple of p that makes a a multiple of 2**count."""
        limbs = self._call_shifted("clear_bits", self._clear_bits_body, a.limbs, count)
        return self._normalised_element(limbs, a.bound + ((1 << count) - 1) * self.p, a.exponent)

    def _clear_bits_body(self, k: Builder, limbs: Sequence[Value], count: int) -> tuple[Value, ...]:
        mask = (1 << count) - 1
        quotient = (limbs[0] * (-pow(self.p, -1, mask + 1) % (mask + 1))) & mask
        return self.products.plus_multiple(limbs, quotient, mask, self.p)


def halves(words: Sequence[Value]) -> list[Value]:
    """Return the 32-bit halves of 64-bit words, low half first."""
    return [half.cast(types.u32) for word in words for half in (word, word >> 32)]


def joined(parts: Sequence[Value]) -> tuple[Value, ...]:
    """Join 32-bit halves, low half first, to 64-bit words."""
    wide = [part.cast(types.u64) for part in parts]
    return tuple(low | high << 32 for low, high in zip(wide[::2], wide[1::2], strict=True))


def _extract_bits(k: Builder, parts: Sequence[Value], width: int, low: int, count: int) -> Value:
    """Return at least `count` bits from bit `low` on of `width`-bit parts; bits below 0 are 0."""
    bits: Value | None = None
    for index, part in enumerate(parts):
        offset = width * index - low
        if offset >= count or offset <= -width:
            continue
        shifted = part << offset if offset >= 0 else part >> -offset
        bits = shifted if bits is None else bits | shifted
    return k.constant(0, types.u32) if bits is None else bits


class QuotientEstimate:
    """An estimate, never too large, of the quotient by p from the highest bits of a number.

    Let v be the number without its lowest h bits, and c = floor(2**(t + h) / p). The estimate is
    floor(v*c / 2**t). The remainder is less than the sum of p for the last rounding, 2**h for the
    omitted bits, and v*p / 2**t for the rounding of c.

    bound: the exclusive bound of the numbers. The attribute `bound` is that of the remainder; it is
        unchanged if the estimate does not fit its word.
    top_bits: the number of bits of p that are in v; h is the number of the others.
    """

    def __init__(self, field: LazyLimbs, bound: int, top_bits: int) -> None:
        self._field = field
        p, shape = field.p, field.shape
        self._omitted_bits = p.bit_length() - top_bits
        largest_v = (bound - 1) >> self._omitted_bits
        shifts = [
            t
            for t in range(32)
            if largest_v * ((1 << (t + self._omitted_bits)) // p) < _WORD_LIMIT
            and largest_v < _WORD_LIMIT
        ]
        self._shift = max(shifts, default=0)
        self._scale = (1 << (self._shift + self._omitted_bits)) // p
        self._max_quotient = largest_v * self._scale >> self._shift
        self.bound = p + (1 << self._omitted_bits) - (-largest_v * p >> self._shift)
        # The remainder must fit the limbs, because the subtraction discards higher bits.
        fits = self.bound <= field.room and (self._max_quotient + 2) << shape.bits < shape.limit
        if not shifts or not fits:
            self.bound = bound

    def limbs(self, k: Builder, limbs: Sequence[Value]) -> tuple[Value, ...]:
        """Subtract the estimate times p from normalised limbs."""
        field, bits = self._field, self._field.limb_bits
        top = _extract_bits(k, limbs, bits, self._omitted_bits, 32)
        quotient = (top * self._scale) >> self._shift
        complement = (1 << (bits * len(limbs))) - field.p
        wrapped = field.products.plus_multiple(limbs, quotient, self._max_quotient, complement)
        return (*wrapped[:-1], wrapped[-1] & field.shape.mask)


def _suits(machine: Machine, modulus: Modulus) -> float | str:
    limbs = limbs_for(machine, modulus)
    if limbs is None:
        return f"neither limbs {machine.limbs} nor others support the modulus"
    return 2 * chosen(limbs).limbs_for(modulus) ** 2


def _lazy_limbs(k: Builder, modulus: Modulus) -> LazyLimbs:
    return LazyLimbs(k, modulus, limbs_for(k.machine, modulus))


STRATEGY = Strategy(_suits, _lazy_limbs)

"""What strategies of limbs with spare bits share: sums that are not carried until they must be.

A limb is a word of more bits than it counts for. Exact bounds say how much each can hold, so that
sums need no carries; what reads a limb relies on `most` and `last_most` alone, which leave room for
all that it adds before it carries.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence

from quod.field.element import Element
from quod.field.prime import PrimeField
from quod.kernel.errors import TraceError
from quod.kernel.ir.value import Value


class SpareLimbs(PrimeField):
    """Elements in limbs of `limb_bits` bits, in words that have more."""

    @property
    def most(self) -> int:
        """The most that a limb may be, but the last, so that carries and reductions fit its word.

        That is the same for all of them: the limbs that one may select from keep to it, too.
        """
        return (1 << self.limb_type.bits) - 1 - self._added_to_limbs

    @property
    def _added_to_limbs(self) -> int:
        """The most that normalising and reducing add to a limb: the carry from a full word."""
        return (1 << self.limb_type.bits) - 1 >> self.limb_bits

    @property
    @abstractmethod
    def last_most(self) -> int:
        """The most that the last limb may be, which takes all that is above it."""

    def _top(self, bound: int) -> int:
        """The most that the last limb of a number below a bound can be."""
        return (bound - 1) >> (self.limb_bits * (self.limb_count - 1))

    def _overflows(self, maxima: Sequence[int], bound: int) -> bool:
        """Whether a limb could, now or carried; the last one as the whole number allows.

        On the way to a difference that is the sum with the padding, which is below the bound.
        """
        return max(maxima[:-1]) > self.most or self._top(bound) > self.last_most

    def _made(self, limbs: Sequence[Value], bound: int, maxima: Sequence[int], e: int) -> Element:
        """An element whose last limb is bounded by the whole, as the other limbs add to it."""
        if self._overflows(maxima, bound):
            raise TraceError(
                f"limbs of {self.modulus.name} could overflow: write field.carried(...) of operands"
            )
        checked = (*maxima[:-1], min(maxima[-1], self._top(bound)))
        return Element(self, tuple(limbs), bound, checked, e)

    # --- linear operations

    def add(self, a: Element, b: Element) -> Element:
        self._check_same(a, b)
        return self._in_room(self._added, a, b)

    def subtract(self, a: Element, b: Element) -> Element:
        self._check_same(a, b)
        return self._in_room(self._subtracted, a, b)

    def _in_room(
        self, operation: Callable[[Element, Element], Element | None], a: Element, b: Element
    ) -> Element:
        """What an operation makes of elements, which are carried or reduced where it makes None."""
        result = operation(a, b)
        if result is None:
            result = operation(self.normalise(a), self.normalise(b))
        if result is None:
            # The last limbs are full, too.
            result = operation(self.fit(self.reduce(a)), self.fit(self.reduce(b)))
        assert result is not None
        return result

    def _added(self, a: Element, b: Element) -> Element | None:
        """a + b, if limbs hold that."""
        bound = a.bound + b.bound - 1
        maxima = [x + y for x, y in zip(a.maxima, b.maxima, strict=True)]
        if self._overflows(maxima, bound):
            return None
        limbs = [x + y for x, y in zip(a.limbs, b.limbs, strict=True)]
        return self._made(limbs, bound, maxima, a.exponent)

    def _subtracted(self, a: Element, b: Element) -> Element | None:
        """a - b and a multiple of p, if limbs hold that."""
        multiple, padding = self._padding(b)
        bound = a.bound + multiple
        maxima = [x + pad for x, pad in zip(a.maxima, padding, strict=True)]
        if self._overflows(maxima, bound):
            return None
        limbs = [(x + pad) - y for x, pad, y in zip(a.limbs, padding, b.limbs, strict=True)]
        return self._made(limbs, bound, maxima, a.exponent)

    def _padding(self, b: Element) -> tuple[int, list[int]]:
        """The least multiple of p with limbs none of which is less than that of b can be."""
        bits, p = self.limb_bits, self.p
        place = bits * (self.limb_count - 1)
        multiple = -(-(b.bound - 1) // p) * p
        while True:
            limbs, rest = [], multiple
            for maximum in b.maxima[:-1]:
                limb = rest & ((1 << bits) - 1)
                if limb < maximum:
                    limb += -(-(maximum - limb) >> bits) << bits
                limbs.append(limb)
                rest = (rest - limb) >> bits
            limbs.append(rest)
            missing = b.maxima[-1] - rest
            if missing <= 0:
                return multiple, limbs
            # The other limbs may take one less of the next multiples than of this one.
            multiple += max(1, (missing - 1 << place) // p) * p

"""Products of small limbs with fewer word products: Karatsuba's method, modulo a word.

Karatsuba and Ofman, "Multiplication of multidigit numbers on automata", 1962. Columns are computed
modulo 2**32 or 2**64, so intermediate columns need no bounds: the result is correct if the columns
of the whole product fit a word. With 32-bit columns, sums of limbs may wrap as well; with 64-bit
columns, sums of limbs must stay below 2**32.
"""

from __future__ import annotations

from collections.abc import Sequence

from quod.frozen import frozen, replace
from quod.kernel.builder.builder import Builder
from quod.kernel.ir import types
from quod.kernel.ir.types import Type
from quod.kernel.ir.value import Value

Limb = Value | int
"""A limb of an element: a value of the kernel, or an int if it is static."""

Limbs = Sequence[Limb]


@frozen
class RingProducts:
    """Columns of products, modulo a word of `column_type`, of limbs of up to `bits` bits.

    least: the smallest number of limbs for which a product is split in halves.
    """

    k: Builder
    column_type: Type
    least: int
    bits: int

    def product(self, x: Limbs, y: Limbs) -> list[Value]:
        """Return the columns of x * y."""
        if len(x) > len(y):
            x, y = y, x
        n = len(x)
        if not self._is_halved(n):
            return self._schoolbook(x, y)
        if n < len(y):
            return self._join(n, self.product(x, y[:n]), self.product(x, y[n:]))
        half = -(-n // 2)
        low, high = self.product(x[:half], y[:half]), self.product(x[half:], y[half:])
        middle = self._sum_products.product(
            self._sum_of_halves(x, half), self._sum_of_halves(y, half)
        )
        return self._combine(half, low, middle, high)

    def square(self, x: Limbs) -> list[Value]:
        """Return the columns of x * x."""
        n = len(x)
        if not self._is_halved(n):
            return self._schoolbook_square(x)
        half = -(-n // 2)
        low, high = self.square(x[:half]), self.square(x[half:])
        return self._combine(
            half, low, self._sum_products.square(self._sum_of_halves(x, half)), high
        )

    def word_product(self, x: Limb, y: Limb) -> Value:
        """Return x * y as a column; raises TypeError if both limbs are static."""
        x, y = (y, x) if isinstance(x, int) else (x, y)
        if isinstance(x, int):
            raise TypeError("a product of two static limbs is static; compute it in Python")
        wide = self.column_type is types.u64
        if isinstance(y, int) and y in (0, 1):
            return x.cast(self.column_type) if y else self.k.constant(0, self.column_type)
        if isinstance(y, int):
            y = self.k.constant(y, types.u32)
        return self.k.emit("mul_wide", (x, y)) if wide else x * y

    # --- parts

    def _is_halved(self, count: int) -> bool:
        """Return whether a product of `count` limbs is split in halves, whose sums must fit."""
        return count >= self.least and (self.column_type is types.u32 or self.bits < 32)

    @property
    def _sum_products(self) -> RingProducts:
        return replace(self, bits=self.bits + 1)

    def _sum_of_halves(self, x: Limbs, half: int) -> list[Limb]:
        """Return the limbs of the sum of both halves."""
        upper_half = [*x[half:], *([0] * (2 * half - len(x)))]
        return [_sum(a, b) for a, b in zip(x[:half], upper_half, strict=True)]

    def _combine(
        self, half: int, low: list[Value], middle: list[Value], high: list[Value]
    ) -> list[Value]:
        """Return low + (middle - low - high) * B**half + high * B**(2 * half), B the radix."""
        zero = self.k.constant(0, self.column_type)
        columns = [*low, zero, *high]
        for j, column in enumerate(middle):
            outer = low[j] + high[j] if j < len(high) else low[j]
            columns[half + j] = columns[half + j] + (column - outer)
        return columns

    def _join(self, shift: int, low: list[Value], high: list[Value]) -> list[Value]:
        """Return low plus high shifted by `shift` columns."""
        zero = self.k.constant(0, self.column_type)
        columns = low + [zero] * (shift + len(high) - len(low))
        for j, column in enumerate(high):
            columns[shift + j] = columns[shift + j] + column
        return columns

    def _schoolbook(self, x: Limbs, y: Limbs) -> list[Value]:
        columns = [self.k.constant(0, self.column_type)] * (len(x) + len(y) - 1)
        for i, a in enumerate(x):
            for j, b in enumerate(y):
                columns[i + j] = columns[i + j] + self.word_product(a, b)
        return columns

    def _schoolbook_square(self, x: Limbs) -> list[Value]:
        """Square by products of different limbs once, doubled, and squares of limbs."""
        columns = [self.k.constant(0, self.column_type)] * (2 * len(x) - 1)
        for i, a in enumerate(x):
            for j in range(i + 1, len(x)):
                columns[i + j] = columns[i + j] + self.word_product(a, x[j])
        for index, column in enumerate(columns):
            columns[index] = column + column
            if index % 2 == 0:
                middle = x[index // 2]
                columns[index] = columns[index] + self.word_product(middle, middle)
        return columns


def _sum(a: Limb, b: Limb) -> Limb:
    if isinstance(a, int):
        a, b = b, a
    if isinstance(b, int) and b == 0:
        return a
    return a + b

"""Products in small limbs with Barrett's reduction, to compare Montgomery's with.

Barrett, "Implementing the Rivest Shamir and Adleman public key encryption algorithm on a standard
digital signal processor", CRYPTO 1986. Elements are plain integers: nothing is converted, but a
product takes half as many word products again for its quotient.
"""

from __future__ import annotations

from collections.abc import Sequence

from quod.field.moduli import Modulus
from quod.field.strategies.lazy_limbs.products import Columns, LimbShape
from quod.kernel.builder.builder import Builder
from quod.kernel.ir import types
from quod.kernel.ir.value import Value


class BarrettProducts:
    """Products modulo one prime of numbers below 4p in full limbs, three bits of which are free.

    The quotient x/p is guessed from x without its `hidden` lowest limbs and from 2**(2*bits)/p,
    without the columns of their product that could change it by less than one.
    """

    FACTOR_BOUND = 4
    """Factors and products are below this multiple of p."""

    def __init__(self, k: Builder, modulus: Modulus, shape: LimbShape) -> None:
        if shape.bits * shape.count < modulus.bits + 3:
            raise ValueError(f"limbs modulo {modulus.name} have three bits more than it")
        self.k = k
        self.shape = shape
        self.p = modulus.value
        self.hidden = (modulus.bits - 1) // shape.bits
        self.shown = 2 * shape.count - self.hidden
        reciprocal = (1 << (2 * shape.bits * shape.count)) // self.p
        self.reciprocal = [(reciprocal >> (shape.bits * j)) & shape.mask for j in range(self.shown)]

    def product(self, a: Sequence[Value], b: Sequence[Value]) -> tuple[Value, ...]:
        """a * b modulo p, below 4p."""
        n, mask = self.shape.count, self.shape.mask
        columns = Columns(self.k, self.shape, 2 * n)
        for place in range(2 * n - 1):
            for i in range(max(0, place - n + 1), min(place, n - 1) + 1):
                columns.add_product(place, a[i], mask, b[place - i], mask)
            columns.carry(place)
        x = columns.limbs(0)
        return self._difference(x[:n], self._multiple(self._quotient(x[self.hidden :])))

    def _quotient(self, x: Sequence[Value]) -> list[Value]:
        """The lowest limbs of x/p, up to three too small."""
        n, first = self.shape.count, self.shown - 2
        columns = Columns(self.k, self.shape, n + 3)
        for place in range(first, first + n + 2):
            for i in range(max(0, place - self.shown + 1), min(place, len(x) - 1) + 1):
                other = self.reciprocal[place - i]
                columns.add_product(place - first, x[i], self.shape.mask, other, other)
            columns.carry(place - first)
        return [columns.low(place) for place in range(2, n + 2)]

    def _multiple(self, quotient: Sequence[Value]) -> list[Value]:
        """The lowest limbs of quotient * p."""
        n, p = self.shape.count, self.shape.split(self.p)
        columns = Columns(self.k, self.shape, n + 1)
        for place in range(n):
            for i in range(place + 1):
                other = p[place - i]
                columns.add_product(place, quotient[i], self.shape.mask, other, other)
            columns.carry(place)
        return [columns.low(place) for place in range(n)]

    def _difference(self, x: Sequence[Value], y: Sequence[Value]) -> tuple[Value, ...]:
        """x - y modulo the limbs."""
        k = self.k
        total = k.constant(0, types.i32)
        limbs = []
        for a, b in zip(x, y, strict=True):
            total = k.bitcast(a - b, types.i32) + (total >> self.shape.bits)
            limbs.append(k.bitcast(total, types.u32) & self.shape.mask)
        return tuple(limbs)

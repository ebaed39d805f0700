"""52-bit limbs for AVX-512 IFMA: eight products at once, one per lane.

`vpmadd52luq` and `vpmadd52huq` add the low or high half of a 52 by 52-bit product to a 64-bit lane.
This leaves 12 bits for carries, so a product adds columns without carrying. Its limbs are reduced
below 2**52 only when they become factors again (Gueron and Krasnov, "Accelerating big integer
arithmetic using Intel IFMA extensions", ARITH 2016).
"""

from __future__ import annotations

from collections.abc import Sequence

from quod.field.element import Element
from quod.field.moduli import Modulus
from quod.field.strategies.inversion import Inversion52
from quod.field.strategies.limb_counts import limbs_of_52
from quod.field.strategies.vector_limbs import Limbs, Pairs, Steps, VectorLimbs
from quod.field.strategy import Strategy
from quod.kernel.builder.builder import Builder
from quod.kernel.ir import types
from quod.kernel.ir.value import Value
from quod.kernel.machine import Machine

_BITS = 52
_MASK = (1 << _BITS) - 1
_MAX_SPARE_BITS = 50
"""The largest number of bits by which the limbs may exceed the modulus.

Quotients are estimated from the highest limb, so p must reach that limb."""


class Ifma52(VectorLimbs):
    """Elements in 52-bit limbs, one 64-bit lane each."""

    limb_bits = _BITS
    interleaved_products = 2

    @classmethod
    def _limbs_for(cls, modulus: Modulus) -> int:
        return limbs_of_52(modulus)

    @classmethod
    def _holds(cls, modulus: Modulus) -> bool:
        bits = _BITS * cls._limbs_for(modulus)
        return bits - 32 * modulus.words <= _BITS and bits - modulus.bits <= _MAX_SPARE_BITS

    # --- bounds

    @property
    def _added_to_limbs(self) -> int:
        """A reduction adds two halves of products before it carries."""
        return super()._added_to_limbs + self._most_of_multiple(_MASK)

    def _most_of_multiple(self, factor: int) -> int:
        return 2 * _MASK

    @property
    def last_most(self) -> int:
        """The largest value for which the factor of quotient estimates fits 52 bits."""
        excess = 0
        while excess < 64 - _BITS - 1 and self._quotient_scale(excess + 1) <= _MASK:
            excess += 1
        return (1 << (_BITS + excess)) - 1

    # --- products

    def _product_limits(self, pairs: Pairs) -> tuple[list[int], int]:
        """Return the maxima of the limbs of a sum of products, and its bound."""
        products = sum((a.bound - 1) * (b.bound - 1) for a, b in pairs)
        bound = (products + (self.room - 1) * self.p) // self.room + 1
        # A column gets two halves per limb, for each product and for the reduction, and a carry.
        maxima = [(2 * self.limb_count * (len(pairs) + 1) + 1) << _BITS] * self.limb_count
        return maxima, bound

    def _factor_limbs(self, a: Element) -> tuple[Value, ...]:
        """Return the limbs of a factor without the masks of its normalisation.

        The multiply-adds ignore bits above 52, so a mask without other uses becomes dead code.
        """
        limbs = []
        for limb in a.limbs:
            op = limb.op
            masked = op is not None and op.name == "and" and op.operands[1].constant == _MASK
            limbs.append(op.operands[0] if op is not None and masked else limb)
        return tuple(limbs)

    def _sum_steps(
        self, k: Builder, a: Sequence[Limbs], b: Sequence[Limbs]
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
        a: Sequence[Limbs],
        b: Sequence[Limbs],
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

    def _square_steps(self, k: Builder, a: Limbs) -> Steps[tuple[Value, ...]]:
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

    def _column_steps(self, k: Builder, columns: list[Value], a: Limbs) -> Steps[None]:
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

    def _estimate_quotient(self, a: Element) -> tuple[Value, int]:
        k = self.k
        excess = max(0, a.maxima[-1].bit_length() - _BITS)
        scale = k.constant(self._quotient_scale(excess), types.u64)
        # The estimate is too small by less than two, plus the part below the highest limb.
        remainder_bound = 2 * self.p + (1 << (_BITS * (self.limb_count - 1) + excess))
        return _high(k, k.constant(0, types.u64), a.limbs[-1] >> excess, scale), remainder_bound

    def _quotient_scale(self, excess: int) -> int:
        """Return 2**52 / p times the weight of the last limb without its `excess` lowest bits."""
        return (1 << (_BITS * self.limb_count + excess)) // self.p

    def _low_bits_of_product(self, a: Value, b: Value, count: int) -> Value:
        k = self.k
        return _low(k, k.constant(0, types.u64), a, b) & ((1 << count) - 1)

    def _multiple_steps(self, columns: list[Value], factor: Value, number: Limbs) -> Steps[None]:
        k, n = self.k, self.limb_count
        for j in range(n):
            columns[j] = _low(k, columns[j], factor, number[j])
            yield
        for j in range(n - 1):
            columns[j + 1] = _high(k, columns[j + 1], factor, number[j])
            yield

    def _inversion(self, k: Builder, scale: int) -> Inversion52:
        return Inversion52(k, self.modulus, scale, self.limb_count)


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

"""Montgomery products in columns of small limbs, which are carried only where necessary.

A column is a word that sums the limb products of equal weight. Nothing is carried while exact
bounds prove that the word holds the sum. If one more product could overflow the word, its bits
above a limb are first carried to the next column. In a product modulo a prime of 381
bits, limbs of 12 or 13 bits in 32-bit columns, and of 28 or 29 bits in 64-bit columns, need no
carries. With limbs of 14, 15 or 16 bits there are fewer products, but a carry after every 16, 4 or
1 of them.

Montgomery, "Modular multiplication without trial division", 1985; the orders of its word products
are those of Koç, Acar and Kaliski, "Analyzing and comparing Montgomery multiplication algorithms",
1996.
"""

from __future__ import annotations

from collections.abc import Sequence

from quod.field.moduli import Modulus
from quod.field.strategies.lazy_limbs.karatsuba import RingProducts
from quod.frozen import frozen
from quod.kernel.builder.builder import Builder
from quod.kernel.errors import TraceError
from quod.kernel.ir import types
from quod.kernel.ir.types import Type
from quod.kernel.ir.value import Value
from quod.kernel.machine import Capability

Limbs = Sequence[Value]
Pairs = Sequence[tuple[Limbs, Limbs]]


@frozen
class LimbShape:
    """`count` limbs of `bits` bits, each a u32, and columns of `column_type`."""

    bits: int
    count: int
    column_type: Type

    @property
    def mask(self) -> int:
        return (1 << self.bits) - 1

    @property
    def limit(self) -> int:
        """Exclusive bound of a column."""
        return 1 << self.column_type.bits

    def split(self, integer: int) -> list[int]:
        """Return the limbs of an integer, modulo 2**(bits * count)."""
        return [(integer >> (self.bits * j)) & self.mask for j in range(self.count)]


class Columns:
    """Columns of limb products, each with its exact maximum."""

    def __init__(self, k: Builder, shape: LimbShape, count: int) -> None:
        self.k = k
        self.shape = shape
        self.values: list[Value | None] = [None] * count
        self.maxima = [0] * count

    def value(self, index: int) -> Value:
        """Return a column; 0 if nothing was added to it."""
        column = self.values[index]
        return self.k.constant(0, self.shape.column_type) if column is None else column

    def low(self, index: int) -> Value:
        """Return the low 32 bits of a column."""
        return self.value(index).cast(types.u32)

    def add(self, index: int, value: Value, maximum: int) -> None:
        """Add a value of at most `maximum` to a column, carrying it first if it could overflow."""
        if maximum == 0:
            return
        if self.maxima[index] + maximum >= self.shape.limit:
            self.carry(index)
        if self.maxima[index] + maximum >= self.shape.limit:
            raise TraceError("a column could overflow even after a carry; use smaller limbs")
        column = self.values[index]
        self.values[index] = value if column is None else column + value
        self.maxima[index] += maximum

    def add_product(
        self, index: int, x: Value, x_maximum: int, y: Value | int, y_maximum: int
    ) -> None:
        """Add x * y to a column; y may be static."""
        if y_maximum == 0:
            return
        # Carry before computing the product, so that it can be one multiply-add.
        if self.maxima[index] + x_maximum * y_maximum >= self.shape.limit:
            self.carry(index)
        self.add(index, self._product(x, y), x_maximum * y_maximum)

    def _product(self, x: Value, y: Value | int) -> Value:
        wide = self.shape.column_type is types.u64
        if isinstance(y, int):
            if y == 1:
                return x.cast(self.shape.column_type)
            y = self.k.constant(y, types.u32)
        return self.k.emit("mul_wide", (x, y)) if wide else x * y

    def carry(self, index: int) -> None:
        """Move the bits above a limb to the next column."""
        value, maximum = self.values[index], self.maxima[index]
        if value is None or maximum <= self.shape.mask:
            return
        self.drop(index)
        self.values[index] = value & self.shape.mask
        self.maxima[index] = self.shape.mask

    def drop(self, index: int) -> None:
        """Add the bits above a limb to the next column; the caller discards the column itself."""
        value, high = self.values[index], self.maxima[index] >> self.shape.bits
        if value is not None and high:
            self.add(index + 1, value >> self.shape.bits, high)

    def limbs(self, first: int) -> list[Value]:
        """Carry the columns from `first` on to limbs; the last one keeps all higher bits."""
        last = len(self.values) - 1
        for index in range(first, last):
            self.carry(index)
        return [self.low(index) for index in range(first, last + 1)]


class MontgomeryProducts:
    """Sums of Montgomery products modulo one prime, of normalised limbs."""

    min_halved = 8
    """The smallest number of limbs for which `karatsuba` splits a product in halves."""

    def __init__(self, k: Builder, modulus: Modulus, shape: LimbShape) -> None:
        self.k = k
        self.shape = shape
        self.p = modulus.value
        self.modulus = shape.split(modulus.value)
        unit = 1 << shape.bits
        self.inverse = -pow(modulus.value, -1, unit) % unit

    def quotient(self, low: Value) -> Value:
        """Return the multiple of p that clears a limb, from the low 32 bits of its column."""
        mask = self.shape.mask
        product = -low if self.inverse == mask else low * self.inverse
        return product & mask

    def plus_multiple(
        self, limbs: Limbs, factor: Value, max_factor: int, integer: int
    ) -> tuple[Value, ...]:
        """Return limbs plus factor * integer, carried, for a factor of at most `max_factor`.

        The limbs must be normalised; the last one keeps all higher bits.
        """
        k, n, column_type = self.k, self.shape.count, self.shape.column_type
        columns = Columns(k, self.shape, n)
        for j, (limb, part) in enumerate(zip(limbs, self.shape.split(integer), strict=True)):
            # The last limb may exceed the mask, but the callers bound the whole number, so that
            # its column cannot overflow.
            columns.add(j, limb.cast(column_type), self.shape.mask)
            columns.add_product(j, factor, max_factor, part, part)
        return tuple(columns.limbs(0))

    # --- unrolled

    def by_columns(self, pairs: Pairs) -> list[Value]:
        """Multiply column by column; the bits above a limb start the next column."""
        n, mask = self.shape.count, self.shape.mask
        columns = Columns(self.k, self.shape, 2 * n)
        quotients: list[Value] = []
        for index in range(2 * n - 1):
            for a, b in pairs:
                self._add_column(columns, index, a, b)
            for i in range(max(0, index - n + 1), len(quotients)):
                p = self.modulus[index - i]
                columns.add_product(index, quotients[i], mask, p, p)
            if index < n:
                quotients.append(self.quotient(columns.low(index)))
                p = self.modulus[0]
                columns.add_product(index, quotients[index], mask, p, p)
                columns.drop(index)
            else:
                columns.carry(index)
        return columns.limbs(n)

    def _add_column(self, columns: Columns, index: int, a: Limbs, b: Limbs) -> None:
        """Add a column of a product; in a square, products of different limbs once, doubled."""
        n, mask = self.shape.count, self.shape.mask
        square = a is b and 2 * mask * mask + 2 * mask < self.shape.limit
        for i in range(max(0, index - n + 1), min(index, n - 1) + 1):
            j = index - i
            if square and i < j:
                columns.add_product(index, a[i] + a[i], 2 * mask, a[j], mask)
            elif not square or i == j:
                columns.add_product(index, a[i], mask, b[j], mask)

    def by_rows(self, pairs: Pairs) -> list[Value]:
        """Multiply row by row: each a times one limb of its b, then a row of the reduction."""
        n = self.shape.count
        columns = Columns(self.k, self.shape, 2 * n)
        for i in range(n):
            self._add_row(columns, i, [(a, b[i]) for a, b in pairs])
            columns.drop(i)
        return columns.limbs(n)

    def _add_row(self, columns: Columns, i: int, factors: Sequence[tuple[Limbs, Value]]) -> None:
        n, mask = self.shape.count, self.shape.mask
        for a, b in factors:
            for j in range(n):
                columns.add_product(i + j, a[j], mask, b, mask)
        quotient = self.quotient(columns.low(i))
        for j in range(n):
            columns.add_product(i + j, quotient, mask, self.modulus[j], self.modulus[j])

    # --- karatsuba

    def karatsuba(self, pairs: Pairs) -> list[Value]:
        """Multiply by Karatsuba's method, then reduce in two halves.

        The lower half of the low limbs is replaced by its product with 2**-bits modulo p, which has
        fewer columns. The upper half is cleared by a multiple of p, computed limb by limb.
        """
        n, mask = self.shape.count, self.shape.mask
        ring = RingProducts(self.k, self.shape.column_type, self.min_halved, self.shape.bits)
        columns = Columns(self.k, self.shape, 2 * n)
        for a, b in pairs:
            product = ring.square(a) if a is b else ring.product(a, b)
            self._add_columns(columns, 0, product, [mask] * n, [mask] * n)
        half = n // 2
        for index in range(half):
            columns.carry(index)
        low = [columns.low(index) for index in range(half)]
        folded = self.shape.split(self._folded_low)
        self._add_columns(columns, half, ring.product(low, folded), [mask] * half, folded)
        self._clear(columns, ring, half, n - half)
        return columns.limbs(n)

    def _clear(self, columns: Columns, ring: RingProducts, first: int, count: int) -> None:
        """Add the multiple of p that clears `count` columns from `first` on."""
        mask, p = self.shape.mask, self.modulus
        quotients: list[Value] = []
        for index in range(count):
            for i, quotient in enumerate(quotients):
                columns.add_product(first + index, quotient, mask, p[index - i], p[index - i])
            quotients.append(self.quotient(columns.low(first + index)))
            columns.add_product(first + index, quotients[index], mask, p[0], p[0])
            columns.drop(first + index)
        for index in range(count, 2 * count - 1):
            for i in range(index - count + 1, count):
                columns.add_product(first + index, quotients[i], mask, p[index - i], p[index - i])
        product = ring.product(quotients, p[count:])
        self._add_columns(columns, first + count, product, [mask] * count, p[count:])

    def _add_columns(
        self, columns: Columns, first: int, product: list[Value], x: list[int], y: list[int]
    ) -> None:
        """Add the columns of a product of limbs that are at most x and y."""
        maxima = [0] * len(product)
        for i, x_maximum in enumerate(x):
            for j, y_maximum in enumerate(y):
                maxima[i + j] += x_maximum * y_maximum
        if max(maxima) >= self.shape.limit:
            raise TraceError("a column of a product could overflow; use smaller limbs")
        for index, (value, maximum) in enumerate(zip(product, maxima, strict=True)):
            columns.add(first + index, value, maximum)

    @property
    def _folded_low(self) -> int:
        """2**-b modulo p, where b is the number of bits of the lower half of the low limbs."""
        return pow(2, -self.shape.bits * (self.shape.count // 2), self.p)

    def bound(self, products: int, *, karatsuba: bool) -> int:
        """Return the exclusive bound of a result, for a sum of products of at most `products`."""
        shape = self.shape
        if karatsuba:
            bits = shape.bits * (shape.count // 2)
            products = (products >> bits) + ((1 << bits) - 1) * self._folded_low
        bits = shape.bits * shape.count - (bits if karatsuba else 0)
        return (products + ((1 << bits) - 1) * self.p >> bits) + 1

    # --- rolled

    @property
    def _rows_of_iteration(self) -> int:
        """The rows that an iteration of a rolled product computes, a divisor of all rows.

        Several rows share the moves of the carried limbs, which take software drivers longer than
        the products of a row.
        """
        rows = (5, 4, 3, 2) if self.k.machine.has(Capability.FEW_KERNELS) else ()
        return next((count for count in rows if self.shape.count % count == 0), 1)

    def rolled(self, pairs: Pairs) -> list[Value]:
        """Multiply by rows in a loop, which keeps the code small.

        The limbs of each b rotate by a few in each iteration, so that no dynamic index is needed.
        """
        k, n, shape, rows = self.k, self.shape.count, self.shape, self._rows_of_iteration
        maxima_without_carries = self._uncarried_rows(len(pairs))
        maxima, final_maxima = maxima_without_carries or (self._carried_rows(len(pairs)),) * 2
        zero = k.constant(0, shape.column_type)
        start = ([zero] * len(maxima), [tuple(b) for _, b in pairs])
        with k.range(0, k.constant(n // rows, types.u32), carry=start) as loop:
            total, b_limbs = loop.carried
            for row in range(rows):
                factors = [(a, b[row]) for (a, _), b in zip(pairs, b_limbs, strict=True)]
                total = self._rolled_row(total, maxima, factors, maxima_without_carries is None)
            loop.next((total, [(*b[rows:], *b[:rows]) for b in b_limbs]))
        columns = Columns(k, shape, n)
        total, _ = loop.results
        for j, (value, maximum) in enumerate(zip(total, final_maxima, strict=True)):
            columns.values[j], columns.maxima[j] = value, maximum
        return columns.limbs(0)

    def _rolled_row(
        self, total: Sequence[Value], maxima: Sequence[int],
        factors: Sequence[tuple[Limbs, Value]], carries: bool,
    ) -> list[Value]:  # fmt: skip
        """Add a row to the columns, and drop the lowest; `carries` carries the others."""
        n = self.shape.count
        columns = Columns(self.k, self.shape, n + 1)
        for j, (value, maximum) in enumerate(zip(total, maxima, strict=True)):
            columns.values[j], columns.maxima[j] = value, maximum
        self._add_row(columns, 0, factors)
        if carries:
            return self._carry_in_parallel(columns)
        columns.drop(0)
        return [columns.value(j) for j in range(1, n)]

    def _carry_in_parallel(self, columns: Columns) -> list[Value]:
        """Carry all columns above the lowest by one column, in parallel."""
        n, bits, mask = self.shape.count, self.shape.bits, self.shape.mask
        low_parts = [columns.value(j) & mask for j in range(1, n)] + [columns.value(n)]
        return [value + (columns.value(j) >> bits) for j, value in enumerate(low_parts)]

    def _uncarried_rows(self, terms: int) -> tuple[list[int], list[int]] | None:
        """Return the maxima of columns before the last row and after it, without carries.

        Returns None if a column could overflow.
        """
        n, mask = self.shape.count, self.shape.mask
        maxima = [0] * (n - 1)
        next_maxima = maxima
        for _ in range(n):
            maxima = next_maxima
            row = [
                maximum + terms * mask * mask + mask * p
                for maximum, p in zip([*maxima, 0], self.modulus, strict=True)
            ]
            row[1] += row[0] >> self.shape.bits
            if max(row) >= self.shape.limit:
                return None
            next_maxima = row[1:]
        return maxima, next_maxima

    def _carried_rows(self, terms: int) -> list[int]:
        """Return the maxima of columns before a row, if each row ends with carries."""
        n, bits = self.shape.count, self.shape.bits
        # After each row the total is below the sum of the first factors and p.
        top = terms * (1 << bits) + self.modulus[-1] + 1
        return [self.shape.mask + (self.shape.limit - 1 >> bits)] * (n - 1) + [top]

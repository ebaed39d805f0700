"""Leaves of a tree of fractions, computed in registers from columns of integers.

A leaf is the denominator of a row: a shift minus a sum of factors times numbers. The numbers are
elements of columns in memory. Integers of b bits are read without their sign, as x + 2**(b - 1);
shifts make up for it. The host multiplies affine forms, powers of beta and constants into factors
and shifts (`quod.lookup.leaves`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from quod.field.integers import load_biased
from quod.field.spec import Extension, FieldSpec
from quod.frozen import frozen
from quod.kernel import U32, U64, Builder, Pointer, kernel, u64
from quod.kernel.ir import types
from quod.kernel.ir.value import Value
from quod.sumcheck.mixed import MixedField
from quod.sumcheck.structs import InputTables

HEADER_WORDS = 4
"""The words before the offsets in the parameters of leaves: log2 of the rows, columns, first record
as an index of elements, and zero."""


@frozen
class Term:
    """One number of a row, and the kind of its factor.

    type: a name in `quod.field.integers.INTEGER_TYPES`, or `ELEMENT`.
    factor: "one", "base" for a factor in the prime field, or "extended".
    """

    type: str
    factor: str


@frozen
class LeafForm:
    """The static parameters of the leaves of a tree.

    Its parameters in memory are `HEADER_WORDS` words, an offset (u64, in numbers) for each term of
    each record, and the records: a shift and the terms' factors, as elements.

    terms: the numbers of a row.
    alike: all columns have the same factors and shift, and each term's columns are adjacent, so
        there is one record. Otherwise each column has its own.
    padded: indices from the number of columns on have leaves of 1.
    """

    field: FieldSpec
    terms: tuple[Term, ...]
    alike: bool
    padded: bool

    @property
    def in_base(self) -> bool:
        """True if a leaf is one shift, the same for all, minus an element of the prime field."""
        return (
            isinstance(self.field, Extension) and self.alike and not self.padded
            and all(term.factor != "extended" for term in self.terms)
        )  # fmt: skip


class Leaves:
    """The leaves of a tree in a kernel."""

    def __init__(self, mixed: MixedField, form: LeafForm, columns: Value, parameters: Value):
        self._mixed, self._form, self._columns = mixed, form, columns
        self._parameters = parameters
        self._values: dict[Value, Any] = {}
        self._records: dict[Value | None, tuple[Any, list[Any]]] = {}
        self._log_size, self._count, self._first_record = (
            parameters[index] for index in range(HEADER_WORDS - 1)
        )
        if form.alike:
            self._record(None)

    def value(self, index: Value) -> Any:
        """Return the sum of factors times numbers at an index, for leaves that are alike."""
        if index not in self._values:
            total = self._sum(index, None, self._record(None)[1])
            self._values[index] = self._mixed.base.bounded(total)
        return self._values[index]

    def leaf(self, index: Value) -> Any:
        """Return a leaf."""
        mixed, f, k = self._mixed, self._mixed.extended, self._mixed.extended.k
        if self._form.alike and not self._form.padded:
            shift, factors = self._record(None)
            return f.bounded(shift - mixed.embedded(self._sum(index, None, factors)))
        column = index >> self._log_size
        with k.if_(column < self._count) as branch:
            row = index & ((k.constant(1, index.type) << self._log_size) - 1)
            # Within the branch, so no value may be kept for use outside of it.
            record = None if self._form.alike else column
            shift, factors = self._record(record) if record is None else self._loaded(record)
            total = self._sum(index if self._form.alike else row, record, factors)
            branch.yield_(f.bounded(shift - mixed.embedded(total)))
        with branch.otherwise():
            branch.yield_(f.bounded(f.one()))
        return branch.results

    def _record(self, column: Value | None) -> tuple[Any, list[Any]]:
        if column not in self._records:
            self._records[column] = self._loaded(column)
        return self._records[column]

    def _loaded(self, column: Value | None) -> tuple[Any, list[Any]]:
        """Load the shift and the factors of a column, or of all columns."""
        f, terms = self._mixed.extended, self._form.terms
        first = self._first_record
        if column is not None:
            first = first + column * (1 + len(terms))
        shift = f.bounded(f.load(self._parameters, first))
        factors: list[Any] = []
        for number, term in enumerate(terms):
            factor = None
            if term.factor != "one":
                factor = f.bounded(f.load(self._parameters, first + (number + 1)))
                if term.factor == "base" and self._mixed.base is not f:
                    factor = factor.coefficients[0]
            factors.append(factor)
        return shift, factors

    def _sum(self, row: Value, column: Value | None, factors: list[Any]) -> Any:
        """Return the sum over the terms of a factor times a number of a row, not bounded."""
        mixed, terms = self._mixed, self._form.terms
        products, total = [], None
        for number, (term, factor) in enumerate(zip(terms, factors, strict=True)):
            first = self._k.constant(HEADER_WORDS // 2 + number, types.u32)
            if column is not None:
                first = first + column * len(terms)
            offset = self._parameters.cast(u64)[first]
            index = offset + row.cast(u64)
            element = load_biased(mixed.base, term.type, self._columns, index)
            if factor is None:
                total = element if total is None else mixed.add(total, element)
            else:
                products.append((element, factor))
        if products:
            product_sum = mixed.sum_of_products(products)
            total = product_sum if total is None else mixed.add(total, product_sum)
        return total

    @property
    def _k(self) -> Builder:
        k: Builder = self._mixed.extended.k
        return k


@frozen
class ComputedLevel:
    """The tables of a layer whose level is computed from the columns (`sumcheck.shape.Source`).

    depth: the distance of the level from the leaves. Level 0 has two tables, of denominators, and
        others four.
    """

    form: LeafForm
    depth: int

    @property
    def tables(self) -> int:
        return 4 if self.depth else 2

    @property
    def in_base(self) -> int:
        """The number of tables in the prime field: they lack the shift, and the sign."""
        return 2 if self.form.in_base and not self.depth else 0

    def reader(self, mixed: MixedField, inputs: InputTables, log_size: Value) -> _LevelReader:
        leaves = Leaves(mixed, self.form, inputs.base, inputs.parameters)
        return _LevelReader(self, leaves, mixed, log_size)


class _LevelReader:
    """The tables of a computed level in a kernel."""

    def __init__(
        self, level: ComputedLevel, leaves: Leaves, mixed: MixedField, log_size: Value
    ) -> None:
        self._level, self._leaves, self._mixed = level, leaves, mixed
        self._log_size = log_size
        self._fractions: dict[Value, tuple[Any, Any]] = {}

    def load(self, table: int, index: Value) -> Any:
        k, level = self._mixed.extended.k, self._level
        position = index + (k.constant(table & 1, index.type) << self._log_size)
        if not level.depth:
            return self._leaves.value(position) if level.in_base else self._leaves.leaf(position)
        if position not in self._fractions:
            size = k.constant(2, index.type) << self._log_size
            self._fractions[position] = fraction(
                self._mixed, self._leaves.leaf, position, size, level.depth
            )
        numerator, denominator = self._fractions[position]
        return denominator if table & 2 else numerator


def fraction(
    mixed: MixedField, leaf: Callable[[Value], Any], index: Value, size: Value, depth: int
) -> tuple[Any, Any]:
    """Return numerator and denominator `index` of a level of `size` fractions, `depth` above 0.

    The level is `depth` below the leaves, which are 1/leaf(i).
    """
    f = mixed.extended
    if depth == 1:
        d0, d1 = leaf(index), leaf(index + size)
        return f.bounded(d0 + d1), f.bounded(d0 * d1)
    (n0, d0), (n1, d1) = (
        fraction(mixed, leaf, index + size * side, size << 1, depth - 1) for side in range(2)
    )
    return f.bounded(f.sum_of_products([(n0, d1), (n1, d0)])), f.bounded(d0 * d1)


@kernel
def sum_leaves(
    k: Builder, n: U32, first: U64, columns: Pointer[U32], parameters: Pointer[U32],
    level: Pointer[U32], *, form: LeafForm, depth: int,
) -> None:  # fmt: skip
    """Compute a level of n fractions from the leaves, `depth` levels above it.

    Its numerators, then its denominators begin at index `first` of `level`. For depth 0 there are
    only denominators.
    """
    mixed, i = MixedField(k, form.field), k.global_id()
    f = mixed.extended
    leaves = Leaves(mixed, form, columns, parameters)
    with k.if_(i < n):
        start = first + i.cast(u64)
        if not depth:
            f.store(level, start, leaves.leaf(i))
        else:
            numerator, denominator = fraction(mixed, leaves.leaf, i, n, depth)
            f.store(level, start, numerator)
            f.store(level, start + n.cast(u64), denominator)


@frozen
class ColumnTable:
    """A single table of the numbers of a column, without sign (`sumcheck.shape.Source`).

    `inputs.base` is the column.
    """

    type: str

    @property
    def tables(self) -> int:
        return 1

    def reader(self, mixed: MixedField, inputs: InputTables, log_size: Value) -> _ColumnReader:
        return _ColumnReader(self, mixed, inputs)


class _ColumnReader:
    def __init__(self, table: ColumnTable, mixed: MixedField, inputs: InputTables) -> None:
        self._table, self._mixed, self._inputs = table, mixed, inputs

    def load(self, table: int, index: Value) -> Any:
        return load_biased(self._mixed.base, self._table.type, self._inputs.base, index.cast(u64))

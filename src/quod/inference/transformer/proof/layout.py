"""Arrays packed into one table of 2^n entries, and linear claims about them.

A row of an array has 2^w entries. Arrays are stored by descending w, one after the other, so that
each row starts at a multiple of its length, and the weight eq(point, index) of an entry is that of
its row, by the upper coordinates, times that of its column, by the last w.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from quod.field.element_bytes import Plain
from quod.frozen import frozen
from quod.inference.transformer.proof.vectors import (
    Vector,
    add,
    dot,
    element,
    eq_table,
    fold_columns,
    log2_ceil,
    multiply,
    total,
)
from quod.inference.transformer.rounding import Integers


@frozen
class Array:
    """An array of `rows` rows of 2**log_width integers."""

    name: str
    rows: int
    log_width: int


@frozen(eq=False)
class Term:
    """Weights of the entries of an array.

    rows: a weight per row, (rows, 2); or a matrix of weights, (rows, width, 2).
    columns: a weight per column, (width, 2), which multiplies the row's; None with a matrix.
    """

    array: str
    rows: Vector
    columns: Vector | None


@frozen(eq=False)
class LinearClaim:
    """The claim that weights times entries add to `value`, of shape (2,), over all terms."""

    terms: tuple[Term, ...]
    value: Vector


class Layout:
    """The offsets of arrays in a table of 2**log2_size entries; unused entries are zero."""

    def __init__(self, arrays: Iterable[Array]) -> None:
        self.arrays: dict[str, Array] = {}
        self.starts: dict[str, int] = {}
        end = 0
        for array in sorted(arrays, key=lambda array: -array.log_width):
            self.arrays[array.name], self.starts[array.name] = array, end
            end += array.rows << array.log_width
        self.log2_size = max(1, log2_ceil(end))

    def pack(self, values: Mapping[str, Integers]) -> Integers:
        """Return the table: the values of each array, of shape (rows, width), in its place."""
        table = np.zeros(1 << self.log2_size, np.int64)
        for name, array in self.arrays.items():
            start = self.starts[name]
            table[start : start + (array.rows << array.log_width)] = values[name].reshape(-1)
        return table

    def rows_at(self, point: Sequence[Plain]) -> dict[str, Vector]:
        """Return the weight of each row in the value at a point, (rows, 2) for each array."""
        weights, tables = {}, dict[int, Vector]()
        for name, array in self.arrays.items():
            width = array.log_width
            if width not in tables:
                tables[width] = eq_table(point[: self.log2_size - width])
            start = self.starts[name] >> width
            weights[name] = tables[width][start : start + array.rows]
        return weights

    def columns_at(self, point: Sequence[Plain], name: str) -> Sequence[Plain]:
        """Return the coordinates of a point that choose the column of an array."""
        return point[self.log2_size - self.arrays[name].log_width :]

    def weights_at(self, terms: Sequence[Term], point: Sequence[Plain]) -> Vector:
        """Return the value at a point of the table of all weights, of shape (2,)."""
        rows, value = self.rows_at(point), element(0)
        columns: dict[str, Vector] = {}
        for term in terms:
            name = term.array
            if name not in columns:
                columns[name] = eq_table(self.columns_at(point, name))
            if term.columns is None:
                inner = total(multiply(term.rows, columns[name]), axis=1)
                value = add(value, dot(rows[name], inner))
            else:
                value = add(
                    value,
                    multiply(dot(rows[name], term.rows), dot(columns[name], term.columns)),
                )
        return value


def evaluate_terms(terms: Iterable[Term], values: Mapping[str, Integers]) -> Vector:
    """Return the sum of weights times entries, of shape (2,); all entries have at most 48 bits."""
    result = element(0)
    for term in terms:
        array = values[term.array]
        if term.columns is None:
            flat = array.reshape(1, -1)
            result = add(result, fold_columns(flat, term.rows.reshape(-1, 2))[0])
        else:
            result = add(result, dot(term.rows, fold_columns(array, term.columns)))
    return result

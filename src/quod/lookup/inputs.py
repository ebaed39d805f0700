"""Validation of columns and tables on the host."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quod.device.memory.buffer import Buffer
from quod.device.protocol import AnyDevice
from quod.errors import InputError
from quod.field.array import Words, to_integers, to_montgomery
from quod.field.integers import ELEMENT, Integers, dtype_of
from quod.field.moduli import Modulus
from quod.field.spec import FieldSpec
from quod.lookup.columns import Affine, Array, Entry, element_array, entries_of, parts_of
from quod.lookup.counts import count
from quod.lookup.leaves import PlacedColumns
from quod.lookup.statement import IDENTITY, Range, Statement, Table

Element = Words | NDArray[Any] | Buffer | Integers | Affine
"""Prime field elements (rows, words), integers (rows,), or an affine form of integers."""

Column = Element | Sequence[Element]
"""One element of each row, or a list of them if the entries of the table are tuples."""

_BYTES_PER_ENTRY = 24
"""Bytes of memory per entry of the table while lookups are counted and converted."""


class LookupInputs:
    """Validated columns and table of a lookup argument, and its statement."""

    def __init__(self, field: FieldSpec, columns: Sequence[Column], table: Column | Range) -> None:
        """Validate columns and table; InputError if they do not fit together."""
        if not isinstance(columns, (list, tuple)) or not columns:
            raise InputError("columns must be a list of at least one column")
        modulus = field.modulus
        self.columns = [
            entries_of(modulus, f"column {number}", column) for number, column in enumerate(columns)
        ]
        rows = {a.rows for column in self.columns for entry in column for a in entry.arrays}
        self.table: list[Words] | None = None
        shape: Range | Table
        if isinstance(table, Range):
            shape = table
        else:
            self.table = _arrays(modulus, "the table", table)
            entries = {len(array) for array in self.table}
            shape = Table(_logarithm("the table", entries), len(self.table))
        if any(len(column) != shape.width for column in self.columns):
            raise InputError(f"each column must have {shape.width} arrays, as the table has")
        types = {tuple(tuple(a.type for a in e.arrays) for e in c) for c in self.columns}
        if len(types) > 1:
            raise InputError(
                "the columns differ in the types or numbers of their arrays; all columns of a "
                "lookup must have the same"
            )
        forms = tuple(tuple(entry.form for entry in column) for column in self.columns)
        if all(form == IDENTITY for column in forms for form in column):
            forms = ()
        log2_size = _logarithm("a column", rows)
        self.statement = Statement(field, len(self.columns), log2_size, shape, forms)

    def placed(self, device: AnyDevice) -> PlacedColumns:
        """Place the columns in memory of a device."""
        return PlacedColumns(device, self.statement.field, self.columns)

    def entries(self, device: AnyDevice) -> list[Words]:
        """Return the arrays of the table; for a range they are computed."""
        if self.table is not None:
            return self.table
        log2_size = self.statement.table.log2_size
        device.check_budget("a range", _BYTES_PER_ENTRY << log2_size)
        return [to_words(device, self.statement.field.modulus, np.arange(1 << log2_size))]

    def counted(self, device: AnyDevice, placed: PlacedColumns | None = None) -> Words:
        """Count the lookups of each entry of the table, as elements of the prime field.

        The first of several equal entries gets all of their lookups. Raises InputError for a row
        that is not in the table.
        """
        statement = self.statement
        modulus, size = statement.field.modulus, 1 << statement.table.log2_size
        device.check_budget("the counts of lookups", _BYTES_PER_ENTRY * size)
        columns = self.placed(device) if placed is None else placed
        counts, missing = count(device, statement, columns, self.table)
        if missing is not None:
            column, row = divmod(missing, 1 << statement.log2_size)
            value = [_value(device, modulus, entry, row) for entry in self.columns[column]]
            shown_row = value[0] if len(value) == 1 else tuple(value)
            raise InputError(f"row {row} of column {column} is {shown_row}, not in the table")
        return to_words(device, modulus, counts)


def to_words(device: AnyDevice, modulus: Modulus, numbers: NDArray[Any]) -> Words:
    """Convert numbers below p and below 2**32 to elements in memory form."""
    words = np.zeros((len(numbers), modulus.words), np.uint32)
    words[:, 0] = numbers
    return words if modulus.montgomery_radix == 1 else to_montgomery(device, modulus, words)


def table_arrays(statement: Statement, table: object) -> list[Words]:
    """Return the arrays of a statement's table; InputError if they do not fit the statement."""
    arrays = _arrays(statement.field.modulus, "the table", table)
    size = 1 << statement.table.log2_size
    if len(arrays) != statement.table.width or any(len(array) != size for array in arrays):
        raise InputError(f"the table must be {statement.table.width} arrays of {size} entries each")
    return arrays


def check_multiplicities(statement: Statement, multiplicities: object) -> Words:
    """Return multiplicities; InputError unless there is one field element per table entry."""
    array = element_array(statement.field.modulus, "the multiplicities", multiplicities)
    if len(array) != 1 << statement.table.log2_size:
        raise InputError(
            f"{len(array)} multiplicities are not one for each of 2^{statement.table.log2_size} "
            "entries"
        )
    return array


def _arrays(modulus: Modulus, what: str, value: object) -> list[Words]:
    return [element_array(modulus, what, array) for array in parts_of(what, value)]


def _logarithm(what: str, lengths: set[int]) -> int:
    length = lengths.pop()
    if lengths or length < 2 or length & (length - 1):
        raise InputError(
            f"{what}: all arrays must have the same length, a power of two that is at least 2"
        )
    return length.bit_length() - 1


def _value(device: AnyDevice, modulus: Modulus, entry: Entry, row: int) -> int:
    """Return the integer that an entry has in a row, for messages."""
    numbers = [_number(device, modulus, array, row) for array in entry.arrays]
    return entry.form.constant + sum(
        coefficient * number
        for coefficient, number in zip(entry.form.coefficients, numbers, strict=True)
    )


def _number(device: AnyDevice, modulus: Modulus, array: Array, row: int) -> int:
    if array.type == ELEMENT:
        assert isinstance(array.memory, np.ndarray)
        return to_integers(modulus, array.memory[row : row + 1])[0]
    if not isinstance(array.memory, Buffer):
        return int(array.memory[row])
    number = np.zeros(1, dtype_of(array.type))
    size = number.itemsize
    device.download(array.memory.slice(row * size, (row + 1) * size), number)
    return int(number[0])

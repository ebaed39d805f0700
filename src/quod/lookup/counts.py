"""Validation of columns and tables on the host, and the counts of lookups."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quod.device.protocol import AnyDevice
from quod.errors import InputError
from quod.field.array import (
    Words,
    check_canonical,
    from_montgomery,
    to_integers,
    to_montgomery,
)
from quod.field.moduli import Modulus
from quod.field.spec import FieldSpec
from quod.lookup.statement import Range, Statement, Table
from quod.validation import plain_array

Column = Words | Sequence[Words]
"""Prime field elements (entries, words), or a list of such arrays if entries are tuples."""

Numbers = NDArray[np.int64]

_BYTES_PER_ENTRY = 24
"""Bytes of host memory per entry of the table while lookups are counted and converted."""


class LookupInputs:
    """Validated columns and table of a lookup argument, and its statement."""

    def __init__(self, field: FieldSpec, columns: Sequence[Column], table: Column | Range) -> None:
        """Validate columns and table; InputError if they do not fit together."""
        if not isinstance(columns, (list, tuple)) or not columns:
            raise InputError("columns must be a list of at least one column")
        modulus = field.modulus
        self.columns = [
            _arrays(modulus, f"column {number}", column) for number, column in enumerate(columns)
        ]
        rows = {len(array) for column in self.columns for array in column}
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
        self.statement = Statement(field, len(self.columns), _logarithm("a column", rows), shape)

    def entries(self, device: AnyDevice) -> list[Words]:
        """Return the arrays of the table; for a range they are computed."""
        if self.table is not None:
            return self.table
        log2_size = self.statement.table.log2_size
        device.check_budget("a range", _BYTES_PER_ENTRY << log2_size)
        return [to_words(device, self.statement.field.modulus, np.arange(1 << log2_size))]

    def counted(self, device: AnyDevice) -> Words:
        """Count the lookups of each entry of the table, as elements of the prime field.

        One of several equal entries gets all of their lookups. Raises InputError for a row that is
        not in the table.
        """
        statement = self.statement
        modulus, size = statement.field.modulus, 1 << statement.table.log2_size
        device.check_budget("the counts of lookups", _BYTES_PER_ENTRY * size)
        counts = np.zeros(size, np.int64)
        if self.table is not None:
            keys = _keys(self.table)
            order = np.argsort(keys, kind="stable")
            sorted_keys = keys[order]
        for number, column in enumerate(self.columns):
            if self.table is None:
                entry_indices, is_entry = _in_range(device, modulus, column[0], size)
            else:
                row_keys = _keys(column)
                positions = np.minimum(np.searchsorted(sorted_keys, row_keys), size - 1)
                entry_indices, is_entry = order[positions], sorted_keys[positions] == row_keys
            if not is_entry.all():
                row = int(np.argmin(is_entry))
                value = [to_integers(modulus, array[row])[0] for array in column]
                shown_row = value[0] if len(value) == 1 else tuple(value)
                raise InputError(f"row {row} of column {number} is {shown_row}, not in the table")
            counts += np.bincount(entry_indices, minlength=size)
        return to_words(device, modulus, counts)


def to_words(device: AnyDevice, modulus: Modulus, numbers: Numbers) -> Words:
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
    array = _array(statement.field.modulus, "the multiplicities", multiplicities)
    if len(array) != 1 << statement.table.log2_size:
        raise InputError(
            f"{len(array)} multiplicities are not one for each of 2^{statement.table.log2_size} "
            "entries"
        )
    return array


def _arrays(modulus: Modulus, what: str, value: object) -> list[Words]:
    arrays: Any = value if isinstance(value, (list, tuple)) else [value]
    if not arrays:
        raise InputError(f"{what} must have at least one array")
    return [_array(modulus, what, array) for array in arrays]


def _array(modulus: Modulus, what: str, value: object) -> Words:
    array = plain_array(what, value)
    if array.dtype != np.uint32 or array.ndim != 2 or array.shape[1] != modulus.words:
        raise InputError(
            f"{what} must be uint32 of shape (entries, {modulus.words}), of {modulus.name}, not "
            f"{array.dtype} of {array.shape}"
        )
    check_canonical(modulus, array)
    return np.ascontiguousarray(array)


def _logarithm(what: str, lengths: set[int]) -> int:
    length = lengths.pop()
    if lengths or length < 2 or length & (length - 1):
        raise InputError(
            f"{what}: all arrays must have the same length, a power of two that is at least 2"
        )
    return length.bit_length() - 1


def _keys(arrays: Sequence[Words]) -> NDArray[Any]:
    """Return a sortable key per row; equal rows have equal keys."""
    rows = np.ascontiguousarray(np.concatenate(arrays, axis=1))
    width = rows.shape[1]
    if width <= 2:
        words = rows.astype(np.uint64)
        return words[:, 0] if width == 1 else words[:, 0] | words[:, 1] << np.uint64(32)
    # NumPy byte strings drop trailing zeros, so a further byte 1 follows each row.
    padded = np.full((len(rows), 4 * width + 1), 1, np.uint8)
    padded[:, :-1] = rows.view(np.uint8)
    return padded.view(f"S{4 * width + 1}").reshape(-1)


def _in_range(
    device: AnyDevice, modulus: Modulus, array: Words, size: int
) -> tuple[Numbers, NDArray[np.bool_]]:
    """Return elements as numbers, and a mask of those below `size`; larger ones become 0."""
    canonical_words = (
        array if modulus.montgomery_radix == 1 else from_montgomery(device, modulus, array)
    )
    is_below = (canonical_words[:, 0] < size) & (canonical_words[:, 1:] == 0).all(axis=1)
    return np.where(is_below, canonical_words[:, 0], 0).astype(np.int64), is_below

"""Search for rows of values in a table, for one instance or for a batch of instances."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import repeat
from typing import Any

import numpy as np

from quod.field.moduli import Modulus


class RowIndex:
    """An index of a table's rows by their first `width` columns.

    A cell is an int, equal in all instances, or an array of a number below p per instance.
    """

    def __init__(self, field: Modulus, rows: Sequence[Sequence[Any]], width: int) -> None:
        self._field, self._size = field, len(rows)
        self._instances = _instances(cell for row in rows for cell in row)
        # One table serves all instances if no cell differs between them.
        columns = [self._tuples(row, self._instances or 1) for row in rows]
        self._tables = list(zip(*columns, strict=True))
        self._index_of_row: list[dict[tuple[int, ...], int]] = []
        for table in self._tables:
            row_indices: dict[tuple[int, ...], int] = {}
            for row_index, row in enumerate(table):
                row_indices.setdefault(row[:width], row_index)
            self._index_of_row.append(row_indices)

    def _tuples(self, row: Sequence[Any], instances: int) -> list[tuple[int, ...]]:
        """Return the row of each instance as integers in [0, p)."""
        p = self._field.value
        columns = [
            cell.tolist() if isinstance(cell, np.ndarray) else repeat(cell % p, instances)
            for cell in row
        ]
        return list(zip(*columns, strict=True))

    def find(self, row: Sequence[Any]) -> list[int]:
        """Return the first index of a row in each instance; -1 if it is not in the table."""
        instances = _instances(row) or self._instances or 1
        tables = self._index_of_row if self._instances else repeat(self._index_of_row[0], instances)
        return [
            table.get(values, -1)
            for table, values in zip(tables, self._tuples(row, instances))
        ]  # fmt: skip

    def counted(self, rows: Sequence[Sequence[Any]]) -> list[Any]:
        """Count the lookups of each row of the table; the first of equal rows gets all of them.

        Returns a count per row: an int, or an array (instances,).
        """
        instances = _instances(cell for row in rows for cell in row) or self._instances
        # Index -1 counts rows that are not in the table in an extra last element.
        counts = np.zeros((self._size + 1, instances or 1), np.int64)
        for row in rows:
            indices = self.find(row)
            if len(indices) > 1:
                np.add.at(counts, (np.asarray(indices), np.arange(len(indices))), 1)
            else:
                # The row may be equal in all instances.
                counts[indices[0]] += 1
        counts = counts[:-1]
        return counts[:, 0].tolist() if instances is None else list(counts)

    def completed(self, row: Sequence[Any]) -> list[Any]:
        """Return the table's columns after those of a row; 0 where the row is not in the table."""
        indices = self.find(row)
        tables = self._tables if self._instances else repeat(self._tables[0], len(indices))
        zeros = (0,) * len(self._tables[0][0])
        rows = [
            table[row_index] if row_index >= 0 else zeros
            for table, row_index in zip(tables, indices)
        ]
        columns = list(zip(*(values[len(row) :] for values in rows), strict=True))
        if self._instances is None and _instances(row) is None:
            return [column[0] for column in columns]
        return [np.array(column, number_type(self._field)) for column in columns]


def _instances(columns: Any) -> int | None:
    """Return the number of instances of columns; None if no column is an array."""
    return next((len(column) for column in columns if isinstance(column, np.ndarray)), None)


def number_type(field: Modulus) -> Any:
    """Return the type of arrays that can hold elements and products of two elements."""
    return np.int64 if field.value < 1 << 31 else object

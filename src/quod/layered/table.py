"""Lookup tables of a program: rows of numbers, or of wires."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from quod.errors import InputError
from quod.field.moduli import Modulus
from quod.layered.row_index import RowIndex
from quod.layered.wire import Owner, Wire
from quod.validation import shown, shown_kind, whole_number

MAX_ROWS = 1 << 20
MAX_COLUMNS = 64

Cell = int | Wire


class Table:
    """A table of rows of equal length, of int and wires; equal rows are merged.

    A row of one cell may be given without a list. A number is above -p and below p. A table without
    wires can be used by any program. InputError for a malformed table.
    """

    def __init__(self, rows: Sequence[Cell | Sequence[Cell]]) -> None:
        sequence: object = rows
        if not isinstance(sequence, (list, tuple, range)):
            raise InputError(f"a table must be a list of rows, not {shown_kind(sequence)}")
        whole_number("the rows of a table", len(sequence), 1, MAX_ROWS)
        distinct_rows = dict.fromkeys(_row(number, row) for number, row in enumerate(sequence))
        self.rows: tuple[tuple[Cell, ...], ...] = tuple(distinct_rows)
        self.width = whole_number("the columns of a table", len(self.rows[0]), 1, MAX_COLUMNS)
        """The number of columns."""
        self.owner: Owner | None = None
        self._largest = 0
        self._indices: dict[tuple[int, int], RowIndex] = {}
        for number, row in enumerate(self.rows):
            if len(row) != self.width:
                raise InputError(
                    f"the rows of a table have one length; there are some of {self.width} and of "
                    f"{len(row)} values"
                )
            for cell in row:
                if isinstance(cell, Wire):
                    if self.owner not in (None, cell.owner):
                        raise InputError(f"row {number} of the table is of another program")
                    self.owner = cell.owner
                else:
                    self._largest = max(self._largest, abs(cell))

    def __len__(self) -> int:
        return len(self.rows)

    def __repr__(self) -> str:
        return f"Table({len(self)} rows of {self.width})"

    def check(self, owner: Owner) -> None:
        """Raise InputError if the table does not fit a program's field, or has another's wires."""
        if self.owner not in (None, owner):
            raise InputError("the table has wires of another program; use wires of this program")
        if self._largest >= owner.field.value:
            raise InputError(f"{self._largest} in a table is not below {owner.field.name}'s p")

    def index(
        self, field: Modulus, value: Callable[[Wire], Any], width: int | None = None
    ) -> RowIndex:
        """Index the rows by their first `width` columns, by default all.

        value: returns the value of a wire.
        """
        width = self.width if width is None else width
        if self.owner is not None:
            rows = [
                [value(cell) if isinstance(cell, Wire) else cell for cell in row]
                for row in self.rows
            ]
            return RowIndex(field, rows, width)
        if (key := (field.value, width)) not in self._indices:
            self._indices[key] = RowIndex(field, self.rows, width)
        return self._indices[key]

    @property
    def wires(self) -> list[Wire]:
        """The wires that occur in the rows."""
        if self.owner is None:
            return []
        return [cell for row in self.rows for cell in row if isinstance(cell, Wire)]


def _row(number: int, value: object) -> tuple[Cell, ...]:
    row = tuple(value) if isinstance(value, (list, tuple)) else (value,)
    if not row:
        raise InputError(f"row {number} of the table is empty")
    cells: list[Cell] = []
    for cell in row:
        if not isinstance(cell, Wire) and type(cell) is not int:
            try:
                cell = whole_number("a value", cell)
            except InputError:
                raise InputError(
                    f"row {number} of a table must be int and wires, not {shown(cell)}"
                ) from None
        cells.append(cell)
    return tuple(cells)

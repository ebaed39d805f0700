"""Columns in memory: rows of entries, one entry for each instance of the circuit."""

from __future__ import annotations

from typing import Any, Literal

from quod.kernel.ir.value import Value
from quod.sumcheck.mixed import MixedField

ColumnForm = Literal["base", "extended", "planes"]
"""The representation of columns.

base: values of a layer in the prime field.
extended: values of a layer in the field of challenges.
planes: folded columns. Each coefficient of the elements has an array (a plane) of its own, so that
    neighbouring kernel instances load neighbouring addresses.
"""


class Table:
    """The columns of one proof inside a kernel, `stride` entries from one row to the next."""

    def __init__(
        self, mixed: MixedField, memory: Value, source: ColumnForm, stride: Value, first_row: Value
    ) -> None:
        self._mixed, self._memory, self._stride = mixed, memory, stride
        self._in_planes = source == "planes" and mixed.base is not mixed.extended
        self._f: Any = mixed.base if source == "base" else mixed.extended
        self._planes = self._f.degree if self._in_planes else 1
        self._first = first_row * stride * self._planes

    def _element_index(self, row: Value, plane: int, entry: Value) -> Value:
        return self._first + (row * self._planes + plane) * self._stride + entry

    def load(self, row: Value, entry: Value) -> Any:
        """Load an entry of a column."""
        if not self._in_planes:
            return self._f.bounded(self._f.load(self._memory, self._element_index(row, 0, entry)))
        base = self._mixed.base
        coefficients = [
            base.load(self._memory, self._element_index(row, plane, entry))
            for plane in range(self._planes)
        ]
        return self._f.bounded(self._f.from_coefficients(*coefficients))

    def store(self, row: Value, entry: Value, element: Any) -> None:
        """Store an element as an entry of a column."""
        if not self._in_planes:
            self._f.store(self._memory, self._element_index(row, 0, entry), element)
            return
        for plane, coefficient in enumerate(element.coefficients):
            self._mixed.base.store(
                self._memory, self._element_index(row, plane, entry), coefficient
            )

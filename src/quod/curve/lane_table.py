"""Small tables that each instance of a kernel fills and looks up for itself."""

from __future__ import annotations

from typing import Any

from quod.kernel import types
from quod.kernel.builder import Builder
from quod.kernel.structure import flatten
from quod.kernel.value import Value


class LaneTable:
    """Rows of structures, such as points, in shared memory, with limbs as they are.

    All rows have the static bounds of `template`.
    """

    def __init__(self, k: Builder, template: Any, rows: int) -> None:
        self._k = k
        values, self._key, self._rebuild = flatten(template)
        self._types = [value.type for value in values]
        self._memory = k.shared(types.u64, rows * len(values) * k.workgroup_size)

    def _place(self, row: Value, part: int) -> Value:
        return (row * len(self._types) + part) * self._k.workgroup_size + self._k.local_id()

    def store(self, row: Value, item: Any) -> None:
        """Puts a structure like the template into a row."""
        values, key, _ = flatten(item)
        if key != self._key:
            raise ValueError("a row of a table has the static bounds of its template")
        for part, value in enumerate(values):
            if value.type == types.bool_:
                value = self._k.select(value, self._k.constant(1, types.u64), 0)
            self._memory[self._place(row, part)] = value

    def load(self, row: Value) -> Any:
        """The structure in a row."""
        values = []
        for part, type_ in enumerate(self._types):
            value = self._memory[self._place(row, part)]
            values.append(value != 0 if type_ == types.bool_ else value)
        return self._rebuild(values)

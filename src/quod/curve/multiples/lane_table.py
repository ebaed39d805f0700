"""Small tables that each instance of a kernel fills and looks up for itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from quod.kernel.builder.builder import Builder
from quod.kernel.builder.structure import flatten
from quod.kernel.ir import types
from quod.kernel.ir.types import Type
from quod.kernel.ir.value import Value


def digit_bits(k: Builder, template: Any) -> int:
    """Bits of a digit of whose multiples a table, of rows like the template, should be kept.

    As many of 4 and 2 as leave room for two workgroups, or else 1, for which no table is needed:
    portable WGSL has less memory a workgroup than 64 points take.
    """
    values, _, _ = flatten(template)
    row = _width(values).bytes * len(values) * k.workgroup_size
    return next((bits for bits in (4, 2) if row << bits <= k.machine.shared_bytes_limit // 2), 1)


def _width(values: Sequence[Value]) -> Type:
    """The type of the limbs, in which flags are kept too."""
    return types.u64 if any(value.type is types.u64 for value in values) else types.u32


class LaneTable:
    """Rows of structures, such as points, in shared memory, with limbs as they are.

    All rows have the static bounds of `template`, whose limbs are of one type.
    """

    def __init__(self, k: Builder, template: Any, rows: int) -> None:
        self._k = k
        values, self._key, self._rebuild = flatten(template)
        self._types = [value.type for value in values]
        self._width = _width(values)
        self._memory = k.shared(self._width, rows * len(values) * k.workgroup_size)

    def _place(self, row: Value, part: int) -> Value:
        return (row * len(self._types) + part) * self._k.workgroup_size + self._k.local_id()

    def store(self, row: Value, item: Any) -> None:
        """Put a structure like the template into a row."""
        values, key, _ = flatten(item)
        if key != self._key:
            raise ValueError("a row of a table has the static bounds of its template")
        for part, value in enumerate(values):
            if value.type == types.bool_:
                value = self._k.select(value, self._k.constant(1, self._width), 0)
            self._memory[self._place(row, part)] = value

    def load(self, row: Value) -> Any:
        """The structure in a row."""
        values = []
        for part, type_ in enumerate(self._types):
            value = self._memory[self._place(row, part)]
            values.append(value != 0 if type_ == types.bool_ else value)
        return self._rebuild(values)

"""A table in shared memory for each instance of a kernel, such as small multiples of a point."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from quod.kernel.builder.structure import flatten
from quod.kernel.ir import types
from quod.kernel.ir.types import Type
from quod.kernel.ir.value import Value

if TYPE_CHECKING:
    from quod.kernel.builder.builder import Builder


def digit_bits(k: Builder, template: Any) -> int:
    """Return the window width in bits for a table of multiples.

    template: an item of the table, such as a point: a structure of kernel values.
    The result is the larger of 4 and 2 with which two workgroups fit the shared memory of a
    multiprocessor, else 1, which needs no table. Shared memory of portable WGSL is too small.
    """
    values, _, _ = flatten(template)
    row_bytes = _limb_type(values).bytes * len(values) * k.workgroup_size
    return next(
        (bits for bits in (4, 2) if row_bytes << bits <= k.machine.shared_bytes_limit // 2), 1
    )


def _limb_type(values: Sequence[Value]) -> Type:
    """Return the type of the limbs, in which flags are stored too."""
    return types.u64 if any(value.type is types.u64 for value in values) else types.u32


class InstanceTable:
    """A table of structures, such as points, in shared memory; limbs are not reduced.

    template: a structure like every item, with equal compile-time bounds and limbs of one type.
    Component c of item r is adjacent in memory for neighbouring instances.
    """

    def __init__(self, k: Builder, template: Any, rows: int) -> None:
        self._k = k
        values, self._structure, self._rebuild = flatten(template)
        self._types = [value.type for value in values]
        self._limb_type = _limb_type(values)
        self._memory = k.shared(self._limb_type, rows * len(values) * k.workgroup_size)

    def _offset(self, row: Value, component: int) -> Value:
        return (row * len(self._types) + component) * self._k.workgroup_size + self._k.local_id()

    def store(self, row: Value, item: Any) -> None:
        """Store a structure in a row; raise ValueError for other bounds than the template's."""
        values, structure, _ = flatten(item)
        if structure != self._structure:
            raise ValueError("a row of a table has the static bounds of its template")
        for component, value in enumerate(values):
            if value.type == types.bool_:
                value = self._k.select(value, self._k.constant(1, self._limb_type), 0)
            self._memory[self._offset(row, component)] = value

    def load(self, row: Value) -> Any:
        """Load the structure in a row."""
        values = []
        for component, type_ in enumerate(self._types):
            value = self._memory[self._offset(row, component)]
            values.append(value != 0 if type_ == types.bool_ else value)
        return self._rebuild(values)

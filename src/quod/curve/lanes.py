"""Values that the lanes of a subgroup give each other, whatever they are made of."""

from __future__ import annotations

from typing import Any

from quod.kernel.builder.builder import Builder
from quod.kernel.builder.structure import flatten
from quod.kernel.ir import types
from quod.kernel.ir.value import Value


def of_lane(k: Builder, item: Any, lane: Value) -> Any:
    """An element, a point or a flag as another lane of the subgroup has it."""
    values, _, rebuild = flatten(item)
    moved = []
    for value in values:
        if value.type is types.bool_:
            number = k.select(value, k.constant(1, types.u32), 0)
            moved.append(k.shuffle(number, lane) != 0)
        else:
            moved.append(k.shuffle(value, lane))
    return rebuild(moved)

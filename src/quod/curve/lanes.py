"""Exchange of structures, such as points, between the lanes of a subgroup."""

from __future__ import annotations

from typing import Any

from quod.kernel.builder.builder import Builder
from quod.kernel.builder.structure import flatten
from quod.kernel.ir import types
from quod.kernel.ir.value import Value


def of_lane(k: Builder, item: Any, lane: Value) -> Any:
    """Return the value that `item`, an element, a point or a flag, has in another lane.

    Flags travel as u32, since shuffles take no booleans. Control flow must be uniform.
    """
    values, _, rebuild = flatten(item)
    received = []
    for value in values:
        if value.type is types.bool_:
            flag = k.select(value, k.constant(1, types.u32), 0)
            received.append(k.shuffle(flag, lane) != 0)
        else:
            received.append(k.shuffle(value, lane))
    return rebuild(received)

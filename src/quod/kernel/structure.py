"""Structured values: tuples, lists and objects made of kernel values.

Loops, branches and functions take and give flat lists of values. What a user carries through them
may be a field element or a point: any object with a `flatten` method that gives its values, a
hashable key of everything else about it, and a function that rebuilds it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, Protocol, runtime_checkable

from quod.kernel.errors import TraceError
from quod.kernel.value import Value

Rebuild = Callable[[Sequence[Value]], Any]


@runtime_checkable
class Structured(Protocol):
    """An object made of kernel values."""

    def flatten(self) -> tuple[list[Value], Hashable, Rebuild]:
        """The values, a key of the static rest, and the inverse."""
        ...


def flatten(item: Any) -> tuple[list[Value], Hashable, Rebuild]:
    """The values of a structure, a key of its static rest, and a function that rebuilds it."""
    if item is None:
        return [], None, lambda _: None
    if isinstance(item, Value):
        return [item], item.type, lambda values: values[0]
    if isinstance(item, (tuple, list)):
        parts = [flatten(part) for part in item]
        counts = [len(values) for values, _, _ in parts]
        kind = type(item)

        def rebuild(values: Sequence[Value]) -> Any:
            built, start = [], 0
            for count, (_, _, part_rebuild) in zip(counts, parts, strict=True):
                built.append(part_rebuild(values[start : start + count]))
                start += count
            return kind(built)

        flat = [value for values, _, _ in parts for value in values]
        return flat, (kind.__name__, tuple(key for _, key, _ in parts)), rebuild
    if isinstance(item, Structured):
        return item.flatten()
    if isinstance(item, (bool, int, float)):
        raise TraceError(
            f"{item!r} is no kernel value and has no type here; write k.constant({item!r}, type)"
        )
    raise TraceError(
        f"a {type(item).__name__} holds no kernel values; use values, tuples and lists of them, or "
        "an object with a `flatten` method"
    )


def describe(key: Hashable) -> str:
    """The types of a structure, from its key, for a message."""
    match key:
        case None:
            return "nothing"
        case ("tuple", tuple(parts)):
            return f"({', '.join(map(describe, parts))})"
        case ("list", tuple(parts)):
            return f"[{', '.join(map(describe, parts))}]"
    return str(key)

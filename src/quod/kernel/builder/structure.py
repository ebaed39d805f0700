"""Structured values: tuples, lists and objects made of kernel values.

Loops, branches and functions take and return flat lists of values. Users carry structures through
them, such as field elements or points: any object whose `flatten` method returns its values, a
hashable key of its static data, and a function that rebuilds it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, ClassVar, NoReturn, Protocol, runtime_checkable

from quod.frozen import field_names
from quod.kernel.errors import TraceError, an
from quod.kernel.ir.value import Value

Rebuild = Callable[[Sequence[Value]], Any]


class Structured(Protocol):
    """An object made of kernel values.

    Messages describe a key of the form (class, tuple of keys) part by part. A `BoundedKey` lets
    them point out bounds that differ.
    """

    def flatten(self) -> tuple[list[Value], Hashable, Rebuild]:
        """Return the values, a key of the static data, and the inverse function."""
        ...


@runtime_checkable
class BoundedKey(Protocol):
    """A key that includes bounds, which a field operation can bring to a standard value."""

    def same_but_for_bounds(self, other: object) -> bool:
        """Return whether the keys differ in bounds alone."""
        ...


class Unknown:
    """Base of run-time values, which Python cannot compare during the trace.

    `comparison` is the advice in the error: what to write instead.
    """

    __slots__ = ()
    comparison: ClassVar[str]

    # By identity: `==` is an error here, or records an op in subclasses.
    __hash__ = object.__hash__

    def _refuse(self, use: str) -> NoReturn:
        raise TraceError(f"{use} is not known while the kernel is traced; {type(self).comparison}")

    def __bool__(self) -> NoReturn:
        self._refuse("the truth of this")

    def __eq__(self, other: object) -> NoReturn:
        self._refuse("whether these are equal")

    def __ne__(self, other: object) -> NoReturn:
        self._refuse("whether these are equal")

    def __lt__(self, other: object) -> NoReturn:
        self._refuse("which of these is less")

    def __le__(self, other: object) -> NoReturn:
        self._refuse("which of these is less")

    def __gt__(self, other: object) -> NoReturn:
        self._refuse("which of these is less")

    def __ge__(self, other: object) -> NoReturn:
        self._refuse("which of these is less")


def exact(value: Any) -> Hashable:
    """Return a key that distinguishes static values by type and bits.

    Python's equality does not: 1, 1.0 and True are equal, and so are 0.0 and -0.0.
    """
    if isinstance(value, float):
        return type(value), value.hex()
    if isinstance(value, tuple):
        return type(value), tuple(map(exact, value))
    if isinstance(value, frozenset):
        return type(value), frozenset(map(exact, value))
    kind: Any = type(value)
    names = field_names(kind)
    if names is not None and kind.__eq__ is not object.__eq__:
        return value, tuple(exact(getattr(value, name)) for name in names)
    return type(value), value


def flatten(item: Any) -> tuple[list[Value], Hashable, Rebuild]:
    """Return a structure's values, a key of its static data, and a function that rebuilds it."""
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
        return flat, (kind, tuple(key for _, key, _ in parts)), rebuild
    # Much faster than a check of the protocol.
    if hasattr(item, "flatten"):
        structured: Structured = item
        return structured.flatten()
    if isinstance(item, (bool, int, float)):
        raise TraceError(
            f"{item!r} is no kernel value and has no type here; write k.constant({item!r}, type)"
        )
    raise TraceError(
        f"{an(type(item).__name__)} holds no kernel values; use values, tuples and lists of "
        "them, or an object with a `flatten` method"
    )


def describe(key: Hashable) -> str:
    """Describe the types of a structure from its key, for a message."""
    match key:
        case None:
            return "nothing"
        case (type() as kind, tuple(parts), *_):
            part_texts = ", ".join(map(describe, parts))
            if kind is list:
                return f"[{part_texts}]"
            return f"({part_texts})" if kind is tuple else f"{kind.__name__}({part_texts})"
    return str(key)


def remedy(key: Hashable, other: Hashable) -> str:
    """Return advice, or "", to append to a message about two structures with different keys."""
    if _differ_in_bounds(key, other):
        return "; give each with the field's standard bounds, as `field.bounded(x)`"
    return ""


def _differ_in_bounds(key: Any, other: Any) -> bool:
    """Return whether the keys differ, and in bounds alone."""
    if key == other:
        return False
    if isinstance(key, BoundedKey):
        return key.same_but_for_bounds(other)
    if not isinstance(key, tuple) or not isinstance(other, tuple) or len(key) != len(other):
        return False
    pairs = list(zip(key, other, strict=True))
    return all(a == b or _differ_in_bounds(a, b) for a, b in pairs)

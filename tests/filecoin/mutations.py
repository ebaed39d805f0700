"""Changes of records, one field at a time."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from quod.frozen import fields_of, replace

Route = tuple[str | int, ...]
"""The names and indices that lead from a record to a field."""


def routes(value: Any, route: Route = ()) -> Iterator[Route]:
    """Yield the routes of all fields and lists: those of bytes, of numbers and of tuples."""
    if isinstance(value, bytes | int):
        yield route
    elif isinstance(value, tuple):
        if value:
            yield route
        for index, item in enumerate(value):
            yield from routes(item, (*route, index))
    elif hasattr(type(value), "__frozen_fields__"):
        for name, item in fields_of(value).items():
            yield from routes(item, (*route, name))


def changed(value: Any, route: Route, chance: random.Random) -> Any:
    """Return a record of which one field is another value, or one list another list."""
    if route:
        key, *others = route
        if isinstance(key, int):
            return (*value[:key], changed(value[key], tuple(others), chance), *value[key + 1 :])
        return replace(value, **{key: changed(getattr(value, key), tuple(others), chance)})
    if isinstance(value, bytes):
        return _changed_bytes(value, chance)
    if isinstance(value, tuple):
        shorter, index = list(value), chance.randrange(len(value))
        removed = shorter.pop(index)
        return chance.choice([tuple(shorter), (*value, removed), (*shorter[:index], None)])
    return chance.choice([value + 1, value ^ 1 << chance.randrange(40), -1, 1 << 80, None, "1"])


def _changed_bytes(value: bytes, chance: random.Random) -> Any:
    flipped = bytearray(value)
    flipped[chance.randrange(len(value))] ^= 1 << chance.randrange(8)
    others = [value[:-1], value + b"\0", b"\xff" * len(value), None, list(value)]
    return bytes(flipped) if chance.random() < 0.8 else chance.choice(others)

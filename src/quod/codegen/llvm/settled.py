"""Memoised evaluation of facts about values, bottom-up and without recursion."""

from __future__ import annotations

from collections.abc import Callable, MutableMapping, Sequence
from typing import TypeVar

from quod.kernel.ir.value import Value

T = TypeVar("T")


def settled(
    value: Value,
    results: MutableMapping[Value, T],
    needs: Callable[[Value], Sequence[Value]],
    find: Callable[[Value], T],
) -> T:
    """Return `find(value)`, which may look up in `results` the results for `needs(value)`.

    Iterative, as chains of values may be arbitrarily long. Each value is evaluated once, in the
    order of a recursive evaluation.
    """
    pending = [value]
    while pending:
        last = pending[-1]
        missing = (
            [] if last in results else [other for other in needs(last) if other not in results]
        )
        if missing:
            pending += reversed(missing)
        else:
            pending.pop()
            if last not in results:
                results[last] = find(last)
    return results[value]

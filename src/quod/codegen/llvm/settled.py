"""What is found of a value once it is known of what the value was computed from."""

from __future__ import annotations

from collections.abc import Callable, MutableMapping, Sequence
from typing import TypeVar

from quod.kernel.ir.value import Value

T = TypeVar("T")


def settled(
    value: Value,
    found: MutableMapping[Value, T],
    needs: Callable[[Value], Sequence[Value]],
    find: Callable[[Value], T],
) -> T:
    """What `find` says of a value; it may look up in `found` what the value `needs`.

    No recursion: a value may stand at the end of a chain of any length. Each value is found once,
    in the order in which a recursion would.
    """
    pending = [value]
    while pending:
        last = pending[-1]
        missing = [] if last in found else [other for other in needs(last) if other not in found]
        if missing:
            pending += reversed(missing)
        else:
            pending.pop()
            if last not in found:
                found[last] = find(last)
    return found[value]

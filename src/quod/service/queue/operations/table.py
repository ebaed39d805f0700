"""The operations of the queue by kind of call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from quod.service.queue.operations.claim import claim
from quod.service.queue.operations.keys import resume, suspend
from quod.service.queue.operations.rules import Rules
from quod.service.queue.operations.settle import renew, settle
from quod.service.queue.operations.submit import submit
from quod.service.queue.operations.sweep import cancel


def _for_each(work: Callable[..., None]) -> Callable[..., list[None]]:
    """Make an operation that handles rare calls one by one."""

    def run(tx: Any, rules: Rules, arguments: Sequence[tuple[Any, ...]]) -> list[None]:
        for call_arguments in arguments:
            work(tx, rules, *call_arguments)
        return [None] * len(arguments)

    return run


OPERATIONS: dict[str, Callable[..., Sequence[Any]]] = {
    "settle": settle,
    "renew": renew,
    "cancel": cancel,
    "suspend": _for_each(suspend),
    "resume": _for_each(resume),
    "submit": submit,
    "claim": claim,
}
"""The order within a transaction: finished jobs make room for new ones."""

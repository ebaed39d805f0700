"""Results in order, with work on later inputs started before earlier results are consumed."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar, cast

from quod.device.runtime.background import Background
from quod.device.runtime.future import Outcome

T = TypeVar("T")
R = TypeVar("R")

_END = object()


def overlapped(
    inputs: Iterable[T], begin: Callable[[T], Callable[[], R]], *, name: str, ahead: int = 1
) -> Iterator[R]:
    """Yield the results of `inputs` in order, with up to `ahead` more inputs started.

    begin: starts the work on an input, in the caller's thread, and returns a function that waits
    for its result. A thread called `name` runs that function while the next input is started.
    An exception of `begin`, of that function or of `inputs` is raised after the results of all
    preceding inputs. Raises MemoryError if the thread ended without a result.
    """
    waiter = Background(name, 1)
    outcomes: deque[Outcome[R]] = deque()
    source = iter(inputs)
    failed: Exception | None = None
    try:
        while True:
            try:
                item = next(source, _END)
                if item is _END:
                    break
                finish = begin(cast("T", item))
                try:
                    outcomes.append(waiter.begin(finish))
                except (RuntimeError, MemoryError):
                    # No thread could be started, so finish the started work in this one.
                    outcomes.append(Outcome.of(finish()))
            except Exception as error:
                failed = error
                break
            while _is_due(outcomes, ahead):
                yield outcomes.popleft().result()
        while outcomes:
            yield outcomes.popleft().result()
        if failed is not None:
            raise failed
    finally:
        # Finish started work, so that it releases its resources.
        for outcome in outcomes:
            outcome.wait()
        waiter.close()


def _is_due(outcomes: Sequence[Outcome[R]], ahead: int) -> bool:
    """Return whether to yield the first result before another input is started."""
    return len(outcomes) > ahead or (len(outcomes) > 1 and outcomes[0].done())

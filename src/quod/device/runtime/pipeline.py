"""Results one after the other, of which the next is begun before the last one is given."""

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
    """The results of the inputs, in their order.

    `begin` starts the work on one, on the caller's thread, and gives what waits for its result,
    which a thread called `name` does while the next input is begun. A result that is not there
    yet is not waited for before `ahead` more inputs are begun. What either raises, or whoever gives
    the inputs, ends the results, after those of the inputs before. MemoryError if that thread ended
    without a word.
    """
    waiting = Background(name, 1)
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
                    outcomes.append(waiting.begin(finish))
                except (RuntimeError, MemoryError):
                    # No thread is to be had, and what was begun must come to its end.
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
        # What was begun is finished, so that whatever it holds is given back.
        for outcome in outcomes:
            outcome.wait()
        waiting.close()


def _is_due(outcomes: Sequence[Outcome[R]], ahead: int) -> bool:
    """Return whether to yield the first result before another input is started."""
    return len(outcomes) > ahead or (len(outcomes) > 1 and outcomes[0].done())

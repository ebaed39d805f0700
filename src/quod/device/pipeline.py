"""Results one after the other, of which the next is begun before the last one is given."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar, cast

from quod.device.background import Background
from quod.device.outcome import Outcome

T = TypeVar("T")
R = TypeVar("R")

_END = object()


def overlapped(
    inputs: Iterable[T], begin: Callable[[T], Callable[[], R]], *, name: str
) -> Iterator[R]:
    """The results of the inputs, in their order.

    `begin` starts the work on one, on the caller's thread, and gives what waits for its result,
    which a thread called `name` does while the next input is begun. What either raises, or whoever
    gives the inputs, ends the results, after those of the inputs before. MemoryError if that thread
    ended without a word.
    """
    waiting = Background(name, 1)
    begun: deque[Outcome[R]] = deque()
    source = iter(inputs)
    try:
        while True:
            failed: Exception | None = None
            try:
                one = next(source, _END)
                if one is _END:
                    break
                finish = begin(cast("T", one))
                try:
                    begun.append(waiting.begin(finish))
                except (RuntimeError, MemoryError):
                    # No thread is to be had, and what was begun must come to its end.
                    begun.append(Outcome.of(finish()))
            except Exception as error:
                failed = error
            if len(begun) > (failed is None):
                yield begun.popleft().result()
            if failed is not None:
                raise failed
        while begun:
            yield begun.popleft().result()
    finally:
        # What was begun is finished, so that whatever it holds is given back.
        for outcome in begun:
            outcome.wait()
        waiting.close()

"""Results one after the other, of which the next is begun before the last one is given."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")


def overlapped(
    inputs: Iterable[T], begin: Callable[[T], Callable[[], R]], *, name: str
) -> Iterator[R]:
    """The results of the inputs, in their order.

    `begin` starts the work on one, on the caller's thread, and gives what waits for its result,
    which a thread called `name` does while the next input is begun. What either raises ends the
    results, after those of the inputs before.
    """
    with ThreadPoolExecutor(1, name) as pool:
        before: Future[R] | None = None
        for one in inputs:
            failed: Exception | None = None
            after = None
            try:
                after = pool.submit(begin(one))
            except Exception as error:
                failed = error
            if before is not None:
                yield before.result()
            if failed is not None:
                raise failed
            before = after
        if before is not None:
            yield before.result()

"""Concurrent tasks, whose results the caller waits for."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

_NOTHING = object()


def run_concurrently(
    tasks: Mapping[str, Callable[[], Any]], threads: int, name: str, stop: Callable[[], None]
) -> dict[str, Any]:
    """Run tasks concurrently, and return their results by key.

    Tasks start in order on at most `threads` threads, called `name`-0 and so on.

    If a task raises or the wait is interrupted, calls `stop`, starts no other task, and raises the
    error when the running tasks have ended. Raises MemoryError if a thread ended without a result
    or an error, as CPython's threads do when memory runs out.
    """
    waiting = deque(tasks.items())
    results: dict[str, Any] = dict.fromkeys(tasks, _NOTHING)
    failures: list[BaseException] = []

    def take_next() -> tuple[str, Callable[[], Any]] | None:
        try:
            return waiting.popleft()
        except IndexError:
            return None

    def work() -> None:
        try:
            while (next_task := take_next()) is not None:
                key, task = next_task
                results[key] = task()
        except BaseException as error:
            failures.append(error)
            waiting.clear()
            stop()

    threads_started: list[threading.Thread] = []
    try:
        for number in range(min(threads, len(tasks))):
            thread = threading.Thread(target=work, name=f"{name}-{number}")
            try:
                thread.start()
            except (RuntimeError, MemoryError):
                if not threads_started:
                    raise
                break  # the threads that were started run all tasks
            threads_started.append(thread)
        # Wait for the threads, not for results: a thread that runs out of memory ends without a
        # result.
        for thread in threads_started:
            thread.join()
    except BaseException:
        waiting.clear()
        stop()
        for thread in threads_started:
            thread.join()
        raise
    if failures:
        raise failures[0]
    if any(result is _NOTHING for result in results.values()):
        raise MemoryError
    return results

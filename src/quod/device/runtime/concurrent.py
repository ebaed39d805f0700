"""Concurrent tasks, whose results the caller waits for."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from types import MappingProxyType
from typing import Any

_NOTHING = object()
_Queue = deque[tuple[str, Callable[[], Any]]]


Tasks = Mapping[str, Callable[[], Any]]


def run_concurrently(
    tasks: Tasks, threads: int, name: str, stop: Callable[[], None],
    alone: Tasks = MappingProxyType({}),
) -> dict[str, Any]:  # fmt: skip
    """Run tasks concurrently, and return their results by key.

    Tasks start in order on at most `threads` threads, called `name`-0 and so on. One further thread
    runs the tasks in `alone` one after another.

    If a task raises or the wait is interrupted, calls `stop`, starts no other task, and raises the
    error when the running tasks have ended. Raises MemoryError if a thread ended without a result
    or an error, as CPython's threads do when memory runs out.
    """
    waiting, waiting_alone = deque(tasks.items()), deque(alone.items())
    results: dict[str, Any] = dict.fromkeys((*tasks, *alone), _NOTHING)
    failures: list[BaseException] = []

    def take_next(*queues: _Queue) -> tuple[str, Callable[[], Any]] | None:
        for queue in queues:
            with suppress(IndexError):
                return queue.popleft()
        return None

    def end() -> None:
        waiting.clear()
        waiting_alone.clear()
        stop()

    def work(*queues: _Queue) -> None:
        try:
            while (next_task := take_next(*queues)) is not None:
                key, task = next_task
                results[key] = task()
        except BaseException as error:
            failures.append(error)
            end()

    threads_started: list[threading.Thread] = []
    # If the further thread cannot be started, the other threads run its tasks last.
    queues: list[tuple[_Queue, ...]] = [(waiting, waiting_alone)] * min(threads, len(tasks))
    if alone:
        queues.append((waiting_alone,))
    try:
        for number, thread_queues in enumerate(queues):
            thread = threading.Thread(target=work, args=thread_queues, name=f"{name}-{number}")
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
        end()
        for thread in threads_started:
            thread.join()
        raise
    if failures:
        raise failures[0]
    if any(result is _NOTHING for result in results.values()):
        raise MemoryError
    return results

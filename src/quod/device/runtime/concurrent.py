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
    later: Tasks = MappingProxyType({}),
) -> dict[str, Any]:  # fmt: skip
    """Run tasks concurrently, and return their results by key.

    Tasks start in order on at most `threads` threads, called `name`-0 and so on. Once the first has
    ended, one further thread runs the tasks in `later` one after another.

    If a task raises or the wait is interrupted, calls `stop`, starts no other task, and raises the
    error when the running tasks have ended. Raises MemoryError if a thread ended without a result
    or an error, as CPython's threads do when memory runs out.
    """
    waiting, waiting_later = deque(tasks.items()), deque(later.items())
    results: dict[str, Any] = dict.fromkeys((*tasks, *later), _NOTHING)
    failures: list[BaseException] = []
    # Held until a task has ended. (If memory runs out in a condition variable, it stays locked.)
    none_ended = threading.Lock()
    if tasks:
        none_ended.acquire()

    def start_later() -> None:
        with suppress(RuntimeError):  # it was released before
            none_ended.release()

    def take_next(*queues: _Queue) -> tuple[str, Callable[[], Any]] | None:
        for queue in queues:
            with suppress(IndexError):
                return queue.popleft()
        return None

    def end() -> None:
        waiting.clear()
        waiting_later.clear()
        start_later()
        stop()

    def work(*queues: _Queue) -> None:
        try:
            while (next_task := take_next(*queues)) is not None:
                key, task = next_task
                results[key] = task()
                start_later()
        except BaseException as error:
            failures.append(error)
            end()

    def work_later() -> None:
        none_ended.acquire()
        work(waiting_later)

    threads_started: list[threading.Thread] = []
    # If the further thread cannot be started, the other threads run its tasks last.
    targets = [lambda: work(waiting, waiting_later)] * min(threads, len(tasks))
    if later:
        targets.append(work_later)
    try:
        for number, target in enumerate(targets):
            thread = threading.Thread(target=target, name=f"{name}-{number}")
            try:
                thread.start()
            except (RuntimeError, MemoryError):
                if not threads_started:
                    raise
                break  # the threads that were started run all tasks
            threads_started.append(thread)
        # Wait for the threads, not for results: a thread that runs out of memory ends without a
        # result.
        for thread in threads_started[:-1]:
            thread.join()
        # The further thread is the last one.
        start_later()
        for thread in threads_started[-1:]:
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

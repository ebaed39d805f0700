"""Background threads for tasks in native code, mostly assembly of kernels."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable
from typing import Any, TypeVar

from quod.device.runtime.future import Outcome
from quod.device.runtime.large_stack_thread import LargeStackThread
from quod.frozen import frozen

T = TypeVar("T")


@frozen(eq=False)
class _Waiting:
    outcome: Outcome[Any]
    task: Callable[[], Any]
    keeps_process: bool


class Background:
    """Runs tasks in the order of their arrival, on up to `threads` threads.

    Threads end when they have been idle for `linger` seconds. At exit, the process waits for tasks
    that have started, since native code cannot return to an interpreter that is gone. It also runs
    tasks queued by threads that are not daemons, as it waits for these, and drops all other tasks.
    """

    def __init__(self, name: str, threads: int, *, linger: float = 0.0) -> None:
        self._name = name
        self._max_threads = threads
        self._linger = linger
        self._start_anew()

    def _start_anew(self) -> None:
        self._process = os.getpid()
        self._changed = threading.Condition(threading.Lock())
        self._waiting: deque[_Waiting] = deque()
        self._threads: set[threading.Thread] = set()
        self._idle = 0

    def begin(self, task: Callable[[], T]) -> Outcome[T]:
        """Queue a task for another thread and return its outcome."""
        if self._process != os.getpid():
            # Threads do not survive a fork, and the queued tasks are the parent's.
            self._start_anew()
        started_threads: list[threading.Thread] = []
        outcome: Outcome[T] = Outcome(
            lambda: not _any_alive(started_threads or tuple(self._threads))
        )

        def in_thread() -> T:
            started_threads.append(threading.current_thread())
            return task()

        with self._changed:
            # Forget threads that ended silently.
            self._threads = {thread for thread in self._threads if thread.is_alive()}
            self._waiting.append(_Waiting(outcome, in_thread, _keeps_process()))
            try:
                if len(self._waiting) > self._idle and len(self._threads) < self._max_threads:
                    self._add_thread()
                else:
                    self._changed.notify()
            except (RuntimeError, MemoryError):
                # No thread could be started, and the existing ones may have ended already.
                if not self._threads:
                    self._waiting.pop()
                    raise
        return outcome

    def _add_thread(self) -> None:
        thread = LargeStackThread(target=self._work, name=self._name)
        self._threads.add(thread)
        try:
            thread.start()
        except BaseException:
            self._threads.discard(thread)
            raise

    def _work(self) -> None:
        while (queued := self._next()) is not None:
            outcome, task = queued.outcome, queued.task
            if not outcome.begin():
                continue
            try:
                outcome.set(task())
            except BaseException as error:
                outcome.fail(error)
            # Release the finished task's objects before waiting for the next task.
            del queued, outcome, task

    def _next(self) -> _Waiting | None:
        with self._changed:
            if not self._waiting and self._linger:
                self._idle += 1
                try:
                    self._changed.wait(self._linger)
                finally:
                    self._idle -= 1
            if not threading.main_thread().is_alive():
                self._drop(at_exit=True)
            if not self._waiting:
                self._threads.discard(threading.current_thread())
                return None
            return self._waiting.popleft()

    def _drop(self, *, at_exit: bool = False) -> None:
        """Drop the queued tasks; at exit, keep those for whose threads the process waits."""
        remaining: deque[_Waiting] = deque()
        for entry in self._waiting:
            if at_exit and entry.keeps_process:
                remaining.append(entry)
            else:
                entry.outcome.drop()
        self._waiting = remaining

    def close(self) -> None:
        """Wait for the tasks that have started; drop the others."""
        with self._changed:
            self._drop()
            self._changed.notify_all()
            threads = tuple(self._threads)
        for thread in threads:
            thread.join()


def _keeps_process() -> bool:
    """Return whether the process waits for this thread after the main thread has ended."""
    thread = threading.current_thread()
    return thread is not threading.main_thread() and not thread.daemon


def _any_alive(threads: tuple[threading.Thread, ...] | list[threading.Thread]) -> bool:
    return any(thread.is_alive() for thread in threads)

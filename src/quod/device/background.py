"""Tasks for native code, done beside the caller: assemblers mostly."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

T = TypeVar("T")


class Background:
    """Does tasks in the order in which they come, on up to `threads` threads.

    Threads end when there is nothing to do. A process that ends waits for the tasks that were
    begun, since native code cannot return to an interpreter that is gone, and drops the others.
    """

    def __init__(self, name: str, threads: int) -> None:
        self._name = name
        self._most = threads
        self._start_anew()

    def _start_anew(self) -> None:
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._waiting: deque[tuple[Future[Any], Callable[[], Any]]] = deque()
        self._threads: set[threading.Thread] = set()

    def begin(self, task: Callable[[], T]) -> Future[T]:
        """The result of a task that will be done by another thread."""
        future: Future[T] = Future()
        if self._process != os.getpid():
            # Threads do not survive a fork, and what waits is the parent's to do.
            self._start_anew()
        with self._lock:
            self._waiting.append((future, task))
            try:
                if len(self._threads) < self._most:
                    self._add_thread()
            except (RuntimeError, MemoryError):
                # None was to be had, and those that there are may have ended before.
                if not self._threads:
                    self._waiting.pop()
                    raise
        return future

    def _add_thread(self) -> None:
        thread = threading.Thread(target=self._work, name=self._name)
        self._threads.add(thread)
        try:
            thread.start()
        except BaseException:
            self._threads.discard(thread)
            raise

    def _work(self) -> None:
        while True:
            with self._lock:
                if not threading.main_thread().is_alive():
                    self._drop()
                if not self._waiting:
                    self._threads.discard(threading.current_thread())
                    return
                future, task = self._waiting.popleft()
            if not future.set_running_or_notify_cancel():
                continue
            try:
                future.set_result(task())
            except BaseException as error:
                future.set_exception(error)

    def _drop(self) -> None:
        for future, _ in self._waiting:
            future.cancel()
        self._waiting.clear()

    def close(self) -> None:
        """Waits for the tasks that were begun; the others are cancelled."""
        with self._lock:
            self._drop()
            begun = tuple(self._threads)
        for thread in begun:
            thread.join()

"""A pool of database connections shared by threads."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Generic, TypeVar

C = TypeVar("C")


class Pool(Generic[C]):
    """At most `most` connections, opened on demand by `connect`."""

    def __init__(self, connect: Callable[[], C], close: Callable[[C], None], most: int = 4) -> None:
        self._connect, self._close = connect, close
        self._permits = threading.Semaphore(most)
        self._lock = threading.Lock()
        self._idle: list[C] = []
        self._closed = False

    @contextmanager
    def connection(self) -> Iterator[C]:
        """Yield a connection for this thread; if the block raises, close it and all idle ones."""
        with self._permits:
            with self._lock:
                idle = self._idle.pop() if self._idle else None
            connection = self._connect() if idle is None else idle
            try:
                yield connection
            except BaseException:
                # If the server has gone, all connections are broken.
                for broken in [connection, *self._take_idle()]:
                    self._close(broken)
                raise
            with self._lock:
                is_open = not self._closed
                if is_open:
                    self._idle.append(connection)
            if not is_open:
                self._close(connection)

    def close(self) -> None:
        """Close idle connections now, and the others when they are returned."""
        self._closed = True
        for idle in self._take_idle():
            self._close(idle)

    def _take_idle(self) -> list[C]:
        with self._lock:
            idle, self._idle = self._idle, []
        return idle

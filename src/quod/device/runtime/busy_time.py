"""The busy time of a device: the union of intervals that may overlap."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter_ns


class BusyMeter:
    """The time during which at least one piece of work runs; thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._active = 0
        self._since = self._total = 0

    @contextmanager
    def working(self) -> Iterator[None]:
        """Count the duration of the body as busy time."""
        with self._lock:
            if not self._active:
                self._since = perf_counter_ns()
            self._active += 1
        try:
            yield
        finally:
            with self._lock:
                self._active -= 1
                if not self._active:
                    self._total += perf_counter_ns() - self._since

    @property
    def seconds(self) -> float:
        """The busy time so far, including work that still runs."""
        with self._lock:
            running = perf_counter_ns() - self._since if self._active else 0
            return (self._total + running) / 1e9

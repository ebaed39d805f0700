"""Counts of kernels being compiled and done, to report progress to waiting callers."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from quod.device.cache.compile_notice import CompileNotice


class Compilations:
    """The counts of one process, and which compilations its helper processes take.

    requested: compilations that have started, also finished ones.
    helpers_first_depth: the number of `helpers_first` that are entered; 0 outside.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._watchers: list[Callable[[int, int], None]] = []
        self._notice: CompileNotice | None = None
        self._notifies = True
        self._of_thread = threading.local()
        self.requested = 0
        self.done = 0
        self.helpers_first_depth = 0

    @property
    def is_running(self) -> bool:
        """True while a kernel is being compiled."""
        return self.requested > self.done

    @contextmanager
    def helpers_first(self) -> Iterator[None]:
        """Have helpers compile the processor's kernels where possible, during the body.

        This includes kernels of devices with too few threads for a helper. Meanwhile this process
        traces others.
        """
        with self._lock:
            self.helpers_first_depth += 1
        try:
            yield
        finally:
            with self._lock:
                self.helpers_first_depth -= 1

    @contextmanager
    def texts_from_helpers(self) -> Iterator[None]:
        """Let helpers trace the GPU kernels that this thread compiles."""
        self._of_thread.takes_texts = True
        try:
            yield
        finally:
            self._of_thread.takes_texts = False

    @property
    def takes_texts(self) -> bool:
        """True in a thread within `texts_from_helpers`."""
        return bool(getattr(self._of_thread, "takes_texts", False))

    @contextmanager
    def running(self) -> Iterator[None]:
        """Count a compilation as requested, and as done at the end of the body."""
        self._count(requested=1)
        try:
            yield
        finally:
            self._count(done=1)

    def _count(self, *, requested: int = 0, done: int = 0) -> None:
        with self._lock:
            self.requested += requested
            self.done += done
            for watcher in self._watchers:
                watcher(self.done, self.requested)
            if self._notifies and not self._watchers:
                self._notify()

    def _notify(self) -> None:
        # A process that finds its kernels in the cache does not need this module.
        from quod.device.cache.compile_notice import CompileNotice

        if self._notice is None:
            self._notice = CompileNotice()
        self._notice(self.done, self.requested)

    def set_notice(self, on: bool) -> None:
        """Turn the `CompileNotice` on or off; it is drawn while nothing watches."""
        with self._lock:
            self._notifies = on
            if self._notice is not None and not on:
                self._notice.erase()

    @contextmanager
    def watched(self, watcher: Callable[[int, int], None]) -> Iterator[None]:
        """Call `watcher(done, requested)` at each change during the body.

        Both numbers count from the start of the body. The thread that compiles calls `watcher`,
        which must be quick and must not raise.
        """
        with self._lock:
            done_before, requested_before = self.done, self.requested

            def counted(done_now: int, requested_now: int) -> None:
                watcher(done_now - done_before, requested_now - requested_before)

            self._watchers.append(counted)
        try:
            yield
        finally:
            with self._lock:
                self._watchers.remove(counted)


compilations = Compilations()
"""The kernels that this process compiles to machine code for its processor and NVIDIA's GPUs."""


def progress(on: bool) -> None:
    """Turn the notice that kernels are being compiled on or off, for this process.

    The notice is on by default. It is written to standard error while kernels compile, if standard
    error is a terminal.
    """
    compilations.set_notice(on)

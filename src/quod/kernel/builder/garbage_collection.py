"""Pausing Python's garbage collector while a kernel is traced.

A trace creates many small live objects that refer to one another. The collector would scan them
repeatedly, for a third of the tracing time, and free nothing.
"""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_lock = threading.Lock()
_pauses = 0
_was_enabled = False


def _forget_pauses() -> None:
    """Reset the count after a fork: the threads that paused the collector do not exist there."""
    global _lock, _pauses
    if _pauses and _was_enabled:
        gc.enable()
    _lock, _pauses = threading.Lock(), 0


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_pauses)


@contextmanager
def paused() -> Iterator[None]:
    """Pause garbage collection in this process until the last thread leaves the context."""
    global _pauses, _was_enabled
    with _lock:
        if not _pauses:
            _was_enabled = gc.isenabled()
            gc.disable()
        _pauses += 1
    try:
        yield
    finally:
        with _lock:
            _pauses = max(0, _pauses - 1)
            if not _pauses and _was_enabled:
                gc.enable()

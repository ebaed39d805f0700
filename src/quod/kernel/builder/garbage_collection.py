"""Python's search for garbage, left out while a kernel is traced.

A trace is many small objects that refer to one another and are all alive: the search goes through
them again and again, a third of the time that tracing takes, and finds nothing.
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
    """A forked process has none of the threads that had paused it."""
    global _lock, _pauses
    if _pauses and _was_enabled:
        gc.enable()
    _lock, _pauses = threading.Lock(), 0


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_pauses)


@contextmanager
def paused() -> Iterator[None]:
    """No search in this process meanwhile, whichever of several threads ends last."""
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

"""Disable core dumps while a secret is in memory, or for good."""

from __future__ import annotations

import contextlib
import ctypes
import sys
import threading
from collections.abc import Iterator

# Of prctl(2).
_PR_GET_DUMPABLE, _PR_SET_DUMPABLE = 3, 4

_lock = threading.Lock()
_blocks = 0
_outside: tuple[tuple[int, int] | None, int] = (None, 0)


@contextlib.contextmanager
def no_core_dumps() -> Iterator[None]:
    """Keeps the system from writing this process's memory to a file, should it crash.

    The limit on core files says nothing to a system that pipes them into a program, as many do, so
    that on Linux the process is not dumpable at all meanwhile; nor may others of the same user look
    into it. Blocks may be in several threads at once: what was there before comes back after the
    last one.
    """
    global _blocks, _outside
    with _lock:
        if not _blocks:
            _outside = _limit(0), _dumpable(0)
        _blocks += 1
    try:
        yield
    finally:
        with _lock:
            _blocks -= 1
            if not _blocks:
                limit, dumpable = _outside
                if limit is not None:
                    _limit(limit[0])
                _dumpable(dumpable)


def forbid_core_dumps() -> None:
    """Keep the system from writing this process's memory to a file or a pipe, from now on.

    Child processes inherit the limit on core files, but must call this themselves, because
    executing a program makes the process dumpable again.
    """
    _limit(0, for_good=True)
    _dumpable(0)


def _limit(size: int, *, for_good: bool = False) -> tuple[int, int] | None:
    """Sets the limit on core files and gives what it was; None for a system that has none."""
    try:
        import resource
    except ImportError:
        return None
    before = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (size, size if for_good else before[1]))
    return before


def _dumpable(value: int) -> int:
    """Sets whether this process may be dumped and gives what it was; only 0 and 1 can be set."""
    if sys.platform != "linux":
        return 0
    call = ctypes.CDLL(None, use_errno=True).prctl
    before: int = call(_PR_GET_DUMPABLE, 0, 0, 0, 0)
    if value in (0, 1):
        call(_PR_SET_DUMPABLE, value, 0, 0, 0)
    return before

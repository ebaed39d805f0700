"""Disable core dumps while a secret is in memory, or for good."""

from __future__ import annotations

import contextlib
import ctypes
import sys
import threading
from collections.abc import Iterator

# Constants of prctl(2).
_PR_GET_DUMPABLE, _PR_SET_DUMPABLE = 3, 4

_lock = threading.Lock()
# The number of bodies of `no_core_dumps` that are running.
_blocks = 0
_saved_state: tuple[tuple[int, int] | None, int] = (None, 0)


@contextlib.contextmanager
def no_core_dumps() -> Iterator[None]:
    """Disable core dumps of this process in the body.

    The limit on core files does not apply to dumps that the system pipes to a handler, so on Linux
    the process is also made non-dumpable; this also prevents other processes of the user from
    reading its memory. Threads may enter concurrently; the last one that leaves
    restores the earlier state.
    """
    global _blocks, _saved_state
    with _lock:
        if not _blocks:
            _saved_state = _limit(0), _dumpable(0)
        _blocks += 1
    try:
        yield
    finally:
        with _lock:
            _blocks -= 1
            if not _blocks:
                limit, dumpable = _saved_state
                if limit is not None:
                    _limit(limit[0])
                _dumpable(dumpable)


def forbid_core_dumps() -> None:
    """Keep the system from writing this process's memory to a file or a pipe, from now on.

    Child processes inherit the limit on core files, but must call this themselves, because
    executing a program makes the process dumpable again.
    """
    _limit(0, permanent=True)
    _dumpable(0)


def _limit(size: int, *, permanent: bool = False) -> tuple[int, int] | None:
    """Set the limit on core files, and return the old one; None on systems without a limit."""
    try:
        import resource
    except ImportError:
        return None
    old_limit = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (size, size if permanent else old_limit[1]))
    return old_limit


def _dumpable(value: int) -> int:
    """Set whether this process is dumpable (0 or 1), and return the old value."""
    if sys.platform != "linux":
        return 0
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    old_value: int = prctl(_PR_GET_DUMPABLE, 0, 0, 0, 0)
    # The old value can be 2, which the system sets and prctl rejects.
    if value in (0, 1):
        prctl(_PR_SET_DUMPABLE, value, 0, 0, 0)
    return old_value

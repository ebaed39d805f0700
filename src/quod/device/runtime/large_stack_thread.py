"""Threads for kernels on the CPU, with stacks large enough for shared memory."""

from __future__ import annotations

import functools
import os
import threading

# A kernel's shared memory is on the worker's stack, up to 4 MiB; untouched pages cost nothing. By
# default musl gives a thread 128 KiB and macOS 512 KiB.
STACK_BYTES = 16 << 20

_stack_size_lock = threading.Lock()


def _forget_starts() -> None:
    """Replace the lock in a forked process, where the threads that may hold it do not exist."""
    global _stack_size_lock
    _stack_size_lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_starts)


class LargeStackThread(threading.Thread):
    """A thread whose stack has room for the shared memory of any kernel."""

    def start(self) -> None:
        with _stack_size_lock:
            previous_bytes = threading.stack_size(STACK_BYTES)
            try:
                super().start()
            finally:
                threading.stack_size(previous_bytes)


def room_on_stack() -> int:
    """Return how many bytes of shared memory a kernel may keep on this thread's stack.

    Returns 0 for threads that other code started, whose stacks may be small.
    """
    thread = threading.current_thread()
    if isinstance(thread, LargeStackThread):
        return STACK_BYTES // 4
    return _stack_of_main_thread() // 8 if thread is threading.main_thread() else 0


@functools.cache
def _stack_of_main_thread() -> int:
    """Return the limit, in bytes, of the main thread's stack."""
    try:
        import resource
    except ImportError:  # Windows, where the interpreter's stack has 2 MB or more
        return 1 << 20
    limit, _ = resource.getrlimit(resource.RLIMIT_STACK)
    return STACK_BYTES if limit == resource.RLIM_INFINITY else limit

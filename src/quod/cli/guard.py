"""The guard of commands under a memory limit (`ulimit -v`).

LLVM, OpenBLAS and the C library abort the process when an allocation fails. Under a limit the
command therefore runs in a child process, whose abort is reported as lack of memory.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable
from typing import Any

from quod.cli.display.streams import prepare_streams
from quod.cli.display.terminal import fail
from quod.device.memory.address_space import memory_limit
from quod.errors import DeviceError


def _ignoring_memory_errors(hook: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda unraisable: (
        None if issubclass(unraisable.exc_type, MemoryError) else hook(unraisable)
    )


def run_guarded(run: Callable[[], int]) -> int:
    """Call `run` in a child process; return its exit code, or that of DeviceError if it aborts."""
    read_end, write_end = os.pipe()
    forwarded = {signal.SIGTERM}
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        forwarded.add(signal.SIGHUP)
    # Blocked before the fork and received one by one: a handler would miss a signal that arrives
    # just before this process sleeps.
    blocked = forwarded | {signal.SIGINT, signal.SIGCHLD}
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_BLOCK, blocked)
    child = os.fork()
    if child == 0:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, blocked)
        # The output of an aborting library is discarded; the message below replaces it.
        errors = os.dup(2)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        prepare_streams(errors)
        # Threads report MemoryError with their results, so it is not printed here.
        threading.excepthook = _ignoring_memory_errors(threading.excepthook)
        sys.unraisablehook = _ignoring_memory_errors(sys.unraisablehook)
        code = run()
        # A byte in the pipe means that the command ended without an abort.
        os.write(write_end, b"!")
        os._exit(code)
    # A terminal sends SIGINT to both, so it is not passed on.
    ended_child = 0
    while not ended_child:
        number = signal.sigwait(forwarded | {signal.SIGCHLD})
        if number in forwarded:
            os.kill(child, number)
        ended_child, status = os.waitpid(child, os.WNOHANG)
    code = os.waitstatus_to_exitcode(status)
    os.close(write_end)
    # SIGKILL comes from outside, not from a library that aborts.
    if not os.read(read_end, 1) and code != -signal.SIGKILL:
        limit = (memory_limit() or 0) >> 20
        fail(f"error: out of memory: the process is limited to {limit} MiB; raise `ulimit -v`")
        return DeviceError.exit_code
    return code if code >= 0 else 128 - code

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


def _but_of_memory(hook: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda unraisable: (
        None if issubclass(unraisable.exc_type, MemoryError) else hook(unraisable)
    )


def run_guarded(run: Callable[[], int]) -> int:
    """Call `run` in a child process; return its exit code, `DeviceError`'s if it aborts."""
    reading, writing = os.pipe()
    passed_on = {signal.SIGTERM}
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        passed_on.add(signal.SIGHUP)
    # Blocked before the fork and received one by one: a handler would miss a signal that arrives
    # just before this process sleeps.
    blocked = passed_on | {signal.SIGINT, signal.SIGCHLD}
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
        threading.excepthook = _but_of_memory(threading.excepthook)
        sys.unraisablehook = _but_of_memory(sys.unraisablehook)
        code = run()
        os.write(writing, b"!")
        os._exit(code)
    # A terminal sends SIGINT to both, so it is not passed on.
    ended = 0
    while not ended:
        number = signal.sigwait(passed_on | {signal.SIGCHLD})
        if number in passed_on:
            os.kill(child, number)
        ended, status = os.waitpid(child, os.WNOHANG)
    code = os.waitstatus_to_exitcode(status)
    os.close(writing)
    if not os.read(reading, 1) and code != -signal.SIGKILL:
        limit = (memory_limit() or 0) >> 20
        fail(f"error: out of memory: the process is limited to {limit} MiB; raise `ulimit -v`")
        return DeviceError.exit_code
    return code if code >= 0 else 128 - code

"""Concurrent compilation of kernels in helper processes.

Threads would not help: Python traces one kernel at a time, and llvmlite lets one thread at a time
into LLVM. So if a kernel is requested while another is being compiled, and a CPU is free, this
process starts a helper process that compiles the kernel (`compile_helper`). A helper exits when
idle.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from quod.device.cache import sources
from quod.device.cache.compilations import compilations
from quod.device.cpu.messages import CODE, QUICK_CODE, receive, send
from quod.device.host import usable_threads
from quod.device.memory.address_space import memory_limit
from quod.kernel.definition import KernelDefinition
from quod.kernel.machine import Machine

_MAX_HELPERS = 7
"""A helper takes about 100 MB, and starts in about the time that a kernel compiles."""

_RECHECK_SECONDS = 0.05
"""Seconds that a kernel waits for this process before it checks again for an idle helper.

Condition variables are avoided, because a thread that runs out of memory in one keeps its lock.
"""

# Helpers import the same modules as this process, by the same search path.
_START = """import sys; sys.path[:] = sys.argv[2:]
from quod.device.cpu.compile_helper import main; main(int(sys.argv[1]))"""


KeyedCode = tuple[str, bytes]
"""The key of a kernel's text, and its packed code."""


class _Helper:
    """A helper process, used by one thread at a time; raises OSError if it cannot be started."""

    def __init__(self) -> None:
        # Code that sites run at the start of Python may print to standard output.
        read_end, write_end = os.pipe()
        self._replies = os.fdopen(read_end, "rb")
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-c", _START, str(write_end), *sys.path], stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, pass_fds=[write_end],
            )  # fmt: skip
        except BaseException:
            self._replies.close()
            raise
        finally:
            os.close(write_end)
        try:
            # No other code waits for the process to end.
            threading.Thread(target=self._process.wait, name="quod-helper", daemon=True).start()
        except BaseException as error:
            self.end()
            self._process.wait()
            if isinstance(error, RuntimeError):  # no thread could be started
                raise OSError(str(error)) from error
            raise

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    def ask(self, request: bytes, stored: Callable[[str], bytes | None]) -> KeyedCode:
        """Compile a kernel in the helper; see `compile_elsewhere`.

        Raises EOFError, OSError or pickle.PickleError if the helper has failed.
        """
        key = self.reply_to(request)
        if key is None:
            raise EOFError
        packed = stored(key)
        assert self._process.stdin is not None
        send(self._process.stdin, packed is None)
        if packed is None:
            packed = receive(self._replies)
            if packed is None:
                raise EOFError
        return key, packed

    def reply_to(self, request: bytes) -> Any:
        """Send a request and return the first reply; errors as `ask`."""
        assert self._process.stdin is not None
        self._process.stdin.write(request)
        self._process.stdin.flush()
        return receive(self._replies)

    def end(self) -> None:
        """Kill the process without waiting for its end."""
        self._process.kill()
        for stream in (self._process.stdin, self._replies):
            with contextlib.suppress(OSError):
                assert stream is not None
                stream.close()


class _CompilerPool:
    """The compilers of kernels: this process, one kernel at a time, and its helpers."""

    def __init__(self) -> None:
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._here = threading.Lock()  # held while a kernel is compiled in this process
        self._helpers: list[_Helper] = []
        self._idle: list[_Helper] = []

    @contextlib.contextmanager
    def acquire(self, most: int, *, helper_first: bool = False) -> Iterator[_Helper | None]:
        """Take a helper, or None to compile in this process; see `compile_elsewhere`.

        Waits while `most` kernels are being compiled.
        """
        helper = self._free_helper(most) if helper_first else None
        if helper is None:
            helper = self._take(most)
        if helper is not None:
            with self._lent(helper):
                yield helper
            return
        try:
            yield None
        finally:
            self._here.release()

    @contextlib.contextmanager
    def lend(self, most: int) -> Iterator[_Helper | None]:
        """Take a helper if one is free or may be started, and do not wait for one."""
        helper = self._free_helper(most)
        if helper is None:
            yield None
            return
        with self._lent(helper):
            yield helper

    @contextlib.contextmanager
    def _lent(self, helper: _Helper) -> Iterator[None]:
        try:
            yield
        except BaseException:
            # After an interrupt too: the helper's next reply would be for this request.
            self.end(helper)
            raise
        finally:
            with self._lock:
                if helper in self._helpers:
                    self._idle.append(helper)

    def _take(self, most: int) -> _Helper | None:
        seconds = 0.0
        while not self._here.acquire(timeout=seconds):
            helper = self._free_helper(most)
            if helper is not None:
                return helper
            seconds = _RECHECK_SECONDS
        return None

    def _free_helper(self, most: int) -> _Helper | None:
        with self._lock:
            while self._idle:
                helper = self._idle.pop()
                if helper.is_alive:
                    return helper
                self._helpers.remove(helper)
            if len(self._helpers) < min(most - 1, _MAX_HELPERS):
                with contextlib.suppress(OSError):
                    self._helpers.append(_Helper())
                    return self._helpers[-1]
        return None

    def end(self, helper: _Helper) -> None:
        """Remove a helper from the pool and end it."""
        with self._lock:
            if helper in self._helpers:
                self._helpers.remove(helper)
        helper.end()

    def close(self) -> None:
        """End all helpers."""
        for helper in tuple(self._helpers):
            if self._pid == os.getpid():
                self.end(helper)


def compile_elsewhere(
    definition: KernelDefinition, machine: Machine, static: Mapping[str, Any], *, most: int,
    stored: Callable[[str], bytes | None], here: Callable[[], KeyedCode],
    helper_first: bool = False, quick: bool = False,
) -> KeyedCode:  # fmt: skip
    """Compile a kernel in a helper process or in this one.

    most: number of kernels that may be compiled at a time.
    helper_first: prefer a helper process even if no kernel is being compiled in this one.
    quick: compile without optimisations.
    stored: returns the cached code of a text by its key; a helper asks for it before it compiles.
    here: compiles in this process; also called if a helper has failed. Of kernels that a helper
        could compile, one at a time is compiled here.
    """
    answer = QUICK_CODE if quick else CODE
    request = request_for(definition, machine, static, answer) if most > 1 else None
    if request is None:
        return here()
    pool = _compiler_pool()
    with pool.acquire(most, helper_first=helper_first) as helper:
        if helper is None:
            return here()
        with contextlib.suppress(EOFError, OSError, pickle.PickleError):
            return helper.ask(request, stored)
        pool.end(helper)
    return here()


def text_elsewhere(
    emitter: str, definition: KernelDefinition, machine: Machine, static: Mapping[str, Any]
) -> bytes | None:
    """Return the packed text of a kernel from a helper.

    emitter: the name of a module, whose function `packed_text` the helper calls.

    Returns None outside of `Compilations.texts_from_helpers`, if no helper is free, and if it has
    failed.
    """
    most = usable_threads() if compilations.takes_texts else 1
    request = request_for(definition, machine, static, emitter) if most > 1 else None
    if request is None:
        return None
    pool = _compiler_pool()
    with pool.lend(most) as helper:
        if helper is None:
            return None
        with contextlib.suppress(EOFError, OSError, pickle.PickleError):
            packed: bytes | None = helper.reply_to(request)
            return packed
        pool.end(helper)
    return None


def request_for(
    definition: KernelDefinition, machine: Machine, static: Mapping[str, Any], answer: str = CODE
) -> bytes | None:
    """Return the request for a helper, or None if another process cannot find the kernel.

    answer: what the helper returns; see `messages.Request`.
    """
    module_name = definition.function.__module__
    module = sys.modules.get(module_name)
    if getattr(module, definition.name, None) is not definition or not _can_start():
        return None
    if memory_limit() is not None:
        # Where memory is short, a thread that waits for a helper may die as it starts, silently.
        return None
    import io

    message = io.BytesIO()
    try:
        send(
            message, (sources.digest(), answer, module_name, definition.name, machine, dict(static))
        )
    except (pickle.PickleError, TypeError, AttributeError):
        return None
    return message.getvalue()


def _can_start() -> bool:
    """Return whether the executable is a Python interpreter, not a program that embeds one."""
    name = os.path.basename(sys.executable or "").lower()
    return name.startswith(("python", "pypy")) and not getattr(sys, "frozen", False)


_process_pool: _CompilerPool | None = None
_making = threading.Lock()


def _compiler_pool() -> _CompilerPool:
    """Return the pool of this process; a forked process makes its own."""
    global _process_pool
    pool = _process_pool
    if pool is None or pool._pid != os.getpid():
        with _making:
            pool = _process_pool
            if pool is None or pool._pid != os.getpid():
                pool = _process_pool = _CompilerPool()
                atexit.register(pool.close)
    return pool

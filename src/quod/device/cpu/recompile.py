"""Quickly compiled kernels in a command's process, and a later process that optimises them.

The background process compiles the kernels at low priority into the cache, and ends. It outlives
the command, as the background process of `git gc --auto` does. A cache has at most one.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import os
import sys
from collections.abc import Iterator
from typing import IO, TYPE_CHECKING

from quod.device.cache import sources
from quod.device.cache.cache import CompileCache, default_folder
from quod.device.cpu import compiler as cpu_compiler
from quod.device.cpu.processor import processor_through
from quod.private_folder import open_base

if TYPE_CHECKING:
    import subprocess

_LOCK = "recompile.lock"
_LOCK_FLAGS = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC

# The priority is lowered before the imports. With the lowest one, a process would wait for minutes
# on a machine that is never idle.
_START = """import os, sys; os.nice(10); sys.path[:] = sys.argv[2:]
from quod.device.cpu.recompile import main; main(int(sys.argv[1]))"""


@contextlib.contextmanager
def quick_code_first() -> Iterator[None]:
    """Compile kernels quickly during the body; then start a process that optimises them.

    For a process that ends soon afterwards: it keeps the quick code. No process is started after an
    interrupt, if the cache cannot be written, or while another one optimises kernels of this cache.
    """
    with cpu_compiler.quick_code() as requests:
        try:
            yield
        except (KeyboardInterrupt, SystemExit, GeneratorExit):
            requests.clear()
            raise
        finally:
            if requests and CompileCache().keeps():
                with contextlib.suppress(OSError):
                    _start(b"".join(requests))


_processes: list[subprocess.Popen[bytes]] = []
"""Kept, because a process that is forgotten while it runs makes Python warn."""


def _start(requests: bytes) -> None:
    """Start a background process, which inherits the cache's lock; raises OSError.

    Its own process group keeps the terminal's Ctrl-C from it. It stays in the session: Linux may
    weigh sessions equally (autogroup), whatever the priorities of their processes.
    """
    # Imported here: a process that finds optimised code in the cache starts none.
    import subprocess

    lock = _take_lock(str(default_folder()))
    try:
        paths = map(os.path.abspath, sys.path)
        process = subprocess.Popen(
            [sys.executable, "-c", _START, str(lock), *paths], stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd="/", process_group=0,
            pass_fds=[lock],
        )  # fmt: skip
    finally:
        os.close(lock)
    _processes.append(process)
    assert process.stdin is not None
    with process.stdin as stream:
        stream.write(requests)


def _take_lock(folder: str) -> int:
    """Lock the cache; return the descriptor of the lock's file.

    The lock is held while a process has the descriptor. Raises OSError if another process holds the
    lock, or the file system has no locks.
    """
    import fcntl

    base = open_base(folder)
    try:
        lock = os.open(_LOCK, _LOCK_FLAGS, 0o600, dir_fd=base)
    finally:
        os.close(base)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BaseException:
        os.close(lock)
        raise
    return lock


def main(lock: int) -> None:
    """Compile the kernels that standard input requests; `lock` is the cache's lock."""
    requests = io.BytesIO(sys.stdin.buffer.read())
    cache = _LockedCache(lock)
    with contextlib.suppress(_CacheLostError):
        # Otherwise the compiler would store the processor's description in a removed cache.
        processor_through(cache)
        recompile(requests, cache)


def recompile(requests: IO[bytes], cache: CompileCache) -> None:
    """Compile the kernels of a stream of requests into a cache, until a request from other sources.

    A kernel that cannot be compiled is left out: the process that needs it reports the error.
    """
    from quod.device.cpu.messages import receive

    while True:
        try:
            digest, _, module, name, machine, static = receive(requests)
            if sources.digest() != digest:
                return
            definition = getattr(importlib.import_module(module), name)
            cpu_compiler.build(definition, machine, static, cache)
        except EOFError:
            return
        except _CacheLostError:
            raise
        except Exception:
            continue


class _CacheLostError(Exception):
    """The cache cannot be written any longer."""


class _LockedCache(CompileCache):
    """The user's cache as long as the file of its lock exists.

    `put` raises _CacheLostError if the cache was removed (its folder is not made again), or cannot
    be written.
    """

    def __init__(self, lock: int) -> None:
        super().__init__()
        self._descriptor = lock

    def put(self, key: str, content: bytes) -> None:
        """Store an entry."""
        if not self._exists():
            raise _CacheLostError
        super().put(key, content)
        if not self.keeps():
            raise _CacheLostError

    def _exists(self) -> bool:
        with contextlib.suppress(OSError):
            assert self.folder is not None
            return os.path.samestat(os.stat(self.folder / _LOCK), os.fstat(self._descriptor))
        return False

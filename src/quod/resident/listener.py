"""The creation and removal of the helper's socket, and the start of a helper."""

from __future__ import annotations

import _socket
import contextlib
import fcntl
import os
import sys
import time
from collections.abc import Iterator

from quod.resident.runtime_folder import SOCKET, connect, open_folder, socket_path

LOCK, LOG = "helper.lock", "helper.log"

_LOCK_SECONDS = 5.0
_BACKLOG = 64
_LISTENER = 3
"""The descriptor on which a helper listens."""


def start(seconds: float) -> _socket.socket:
    """Start a helper, unless there is one now, and connect to it; see `connect`.

    The socket listens before the helper runs, so that no client waits for a helper's imports to
    connect. Of several clients, the one that has the lock starts the helper. Raises OSError.
    """
    folder = open_folder(create=True)
    try:
        with locked(folder):
            with contextlib.suppress(FileNotFoundError, ConnectionRefusedError):
                return connect(folder, seconds)
            listener = listen(folder)
            try:
                _run(folder, listener)
            finally:
                listener.close()
            return connect(folder, seconds)
    finally:
        os.close(folder)


@contextlib.contextmanager
def locked(folder: int) -> Iterator[None]:
    """Hold the lock under which sockets are made and removed; raises OSError if it stays taken."""
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    lock = os.open(LOCK, flags, 0o600, dir_fd=folder)
    end = time.monotonic() + _LOCK_SECONDS
    try:
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > end:
                    raise
                time.sleep(0.01)
        yield
    finally:
        # Closing alone would not release it while a forked process has the descriptor.
        fcntl.flock(lock, fcntl.LOCK_UN)
        os.close(lock)


def listen(folder: int) -> _socket.socket:
    """Make the socket, and replace one on which no helper listens; call it with the lock held."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(SOCKET, dir_fd=folder)
    listener = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    umask = os.umask(0o177)
    try:
        listener.bind(socket_path(folder))
        listener.listen(_BACKLOG)
    except BaseException:
        listener.close()
        raise
    finally:
        os.umask(umask)
    return listener


def identity(folder: int) -> tuple[int, int] | None:
    """Return the device and inode of the socket; None if there is none."""
    with contextlib.suppress(FileNotFoundError):
        status = os.stat(SOCKET, dir_fd=folder, follow_symlinks=False)
        return status.st_dev, status.st_ino
    return None


def remove(folder: int, socket_identity: tuple[int, int] | None) -> None:
    """Remove the socket if it still has this identity."""
    with locked(folder):
        if socket_identity is not None and identity(folder) == socket_identity:
            os.unlink(SOCKET, dir_fd=folder)


def _run(folder: int, listener: _socket.socket) -> None:
    """Run a helper that is no child of this process, in a session of its own."""
    child = os.fork()
    if child:
        os.waitpid(child, 0)
        return
    try:
        os.setsid()
        if os.fork() == 0:
            _replace_process(folder, listener)
    finally:
        # Reached only by the middle process, and if the helper could not be started: the client's
        # connection then ends.
        os._exit(0)


def _replace_process(folder: int, listener: _socket.socket) -> None:
    null = os.open(os.devnull, os.O_RDWR)
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
    try:
        log = os.open(LOG, flags, 0o600, dir_fd=folder)
    except OSError:
        log = null
    # Duplicates of higher numbers, so that none is closed by the next call.
    sources = [os.dup2(descriptor, 100 + index) for index, descriptor in enumerate(
        (null, null, log, listener.fileno())
    )]  # fmt: skip
    for target, source in enumerate(sources):
        os.dup2(source, target)
    os.closerange(_LISTENER + 1, os.sysconf("SC_OPEN_MAX"))
    os.chdir("/")
    # -P: the current folder has no modules.
    os.execv(sys.executable, [sys.executable, "-P", "-m", "quod.resident", str(_LISTENER)])

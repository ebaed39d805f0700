"""The folder of the helper's socket, and connections to the helper.

The folder is ``quod`` in XDG_RUNTIME_DIR, or ``/tmp/quod-UID`` without that variable. Only the user
can enter it. It has the socket, a lock file (`quod.resident.listener`) and the log of the last
helper.
"""

from __future__ import annotations

import _socket  # The module `socket` takes as long to import as Python to start.
import os
import stat
import sys

from quod.private_folder import open_base

SOCKET = "helper.socket"

_PEER = getattr(_socket, "SO_PEERCRED", None)


class ForeignError(OSError):
    """A socket, its folder or its process is not of this user alone."""


def folder_path() -> str:
    """Return the path of the folder."""
    base = os.environ.get("XDG_RUNTIME_DIR", "")
    return f"{base}/quod" if os.path.isabs(base) else f"/tmp/quod-{os.geteuid()}"


def open_folder(*, create: bool) -> int:
    """Open the folder; return a descriptor.

    Raises FileNotFoundError if it does not exist, `ForeignError` or `NotOwnError` if other users
    can enter or replace it, and other OSErrors.
    """
    path = folder_path()
    if not create and not os.path.lexists(path):
        raise FileNotFoundError(path)
    folder = open_base(path, create=create)
    status = os.fstat(folder)
    if status.st_uid != os.geteuid() or status.st_mode & 0o077:
        os.close(folder)
        raise ForeignError(
            f"{path} must be a folder of mode 0700 of this user: run `chmod 700`, or remove it"
        )
    return folder


def socket_path(folder: int) -> str:
    """Return a path of the socket in an open folder, for system calls of this process."""
    # Paths of sockets are limited to 107 bytes, and the folder's own may be longer.
    return f"/proc/self/fd/{folder}/{SOCKET}"


def connect(folder: int, seconds: float) -> _socket.socket:
    """Connect to the helper; each read and write takes at most `seconds`.

    Raises FileNotFoundError or ConnectionRefusedError if there is none, `ForeignError` for a socket
    or a process of another user, and other OSErrors.
    """
    status = os.stat(SOCKET, dir_fd=folder, follow_symlinks=False)
    is_private = status.st_uid == os.geteuid() and not status.st_mode & 0o177
    if not stat.S_ISSOCK(status.st_mode) or not is_private:
        raise ForeignError("its socket is not a socket of mode 0600 of this user")
    connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    try:
        connection.settimeout(seconds)
        connection.connect(socket_path(folder))
        check_peer(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def check_peer(connection: _socket.socket) -> None:
    """Raise `ForeignError` unless the process at the other end belongs to this user."""
    if _PEER is None:
        raise ForeignError("this system does not report the user of a socket's process")
    # struct ucred: three 32-bit numbers, of the process, the user and the group.
    credentials = connection.getsockopt(_socket.SOL_SOCKET, _PEER, 12)
    user = int.from_bytes(credentials[4:8], sys.byteorder)
    if user != os.geteuid():
        raise ForeignError(f"its process belongs to user {user}")

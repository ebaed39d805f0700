"""The target of an output path: a file, or an open descriptor of this process.

Links are followed one by one for two reasons. A path such as /dev/stdout names a descriptor of this
process. Output is written to the descriptor, and the file behind it must not be replaced. And a
link in a world-writable sticky folder such as /tmp is followed only if it belongs to the user or to
the folder's owner, as Linux does with ``fs.protected_symlinks``: anyone could put a link there to
have a file of the user overwritten.
"""

from __future__ import annotations

import errno
import os
import re
import stat

_MAX_LINKS = 40
_MAX_DIGITS = 9
_DESCRIPTORS = r"/dev/fd|/proc/(?P<process>[0-9]+)(/task/[0-9]+)?/fd"


class ForeignLinkError(OSError):
    """A link that another user may have planted, or a descriptor of another process."""


def follow(path: str) -> str | int:
    """Return the real path of `path`, which need not exist, or the number of a descriptor.

    Raises OSError, including `ForeignLinkError`, and ValueError for an invalid path.
    """
    folder = "/" if path.startswith("/") else os.getcwd()
    parts = path.split("/")[::-1]
    links = 0
    while parts:
        part = parts.pop()
        if part in ("", "."):
            continue
        if part == "..":
            folder = os.path.dirname(folder)
            continue
        if part.isascii() and part.isdecimal() and not any(parts) and _has_descriptors(folder):
            # Longer numbers are not descriptors, and exceed a C int.
            if len(part) > _MAX_DIGITS:
                raise OSError(errno.EBADF, os.strerror(errno.EBADF))
            return int(part)
        entry_path = os.path.join(folder, part)
        try:
            status = os.lstat(entry_path)
        except FileNotFoundError:
            folder = entry_path
            continue
        if not stat.S_ISLNK(status.st_mode):
            folder = entry_path
            continue
        links += 1
        if links > _MAX_LINKS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
        _check_owner(entry_path, status, os.stat(folder))
        if not any(parts) and re.fullmatch(_DESCRIPTORS, folder):
            raise ForeignLinkError(errno.EACCES, f"{entry_path} is another process's descriptor")
        target = os.readlink(entry_path)
        if target.startswith("/"):
            folder = "/"
        parts += target.split("/")[::-1]
    return folder


def _has_descriptors(folder: str) -> bool:
    match = re.fullmatch(_DESCRIPTORS, folder)
    return match is not None and match["process"] in (None, str(os.getpid()))


def _check_owner(link: str, status: os.stat_result, folder: os.stat_result) -> None:
    shared = folder.st_mode & stat.S_ISVTX and folder.st_mode & stat.S_IWOTH
    if shared and status.st_uid not in (os.geteuid(), folder.st_uid):
        raise ForeignLinkError(
            errno.EACCES,
            f"{link} is another user's link in a world-writable folder",
        )

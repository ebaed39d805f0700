"""Folders that only the user and root can change, opened through descriptors.

Code that is loaded from a file runs with the user's rights. So anyone who can write the file, or
replace one of its parent folders, gains these rights. The folders of a path are opened and checked
from the root down, each through the descriptor of its parent, so that none can be exchanged between
check and use.
"""

from __future__ import annotations

import os
import stat

# Parent folders are not listed: the right to pass through them is enough.
_PASS = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# Opening a pipe must not block until there is a writer.
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_PRIVATE = 0o700
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


class NotOwnError(OSError):
    """Other users can change a folder, or choose which folder it is; the text says how."""


def open_base(path: str, *, create: bool = False) -> int:
    """Open a folder by its absolute path, following links; return a descriptor.

    The folder must belong to the user or root, and nobody else may be able to write to it. The same
    holds for its parents, except that others may write if only owners can rename (the sticky bit).
    create: make missing folders, with mode 0700.
    Raises `NotOwnError`, or another OSError.
    """
    if not os.path.isabs(path):
        raise NotOwnError(f"{path!r} is not an absolute path")
    existing, missing = path.rstrip("/") or "/", list[str]()
    while not os.path.lexists(existing):
        existing, name = os.path.split(existing)
        missing.insert(0, name)
    names = os.path.realpath(existing, strict=True).split("/") + missing
    names = [name for name in names if name]
    folder, current_path = os.open("/", _PASS), "/"
    try:
        for index, name in enumerate(names):
            _check(folder, current_path, sticky_is_enough=True)
            if create and index >= len(names) - len(missing):
                _make(folder, name)
            folder, parent = os.open(name, _PASS, dir_fd=folder), folder
            os.close(parent)
            current_path = os.path.join(current_path, name)
        _check(folder, current_path, sticky_is_enough=False)
    except BaseException:
        os.close(folder)
        raise
    return folder


def open_within(folder: int, name: str, *, create: bool = False) -> tuple[int, bool]:
    """Open a folder directly in another, which must not be a link.

    Returns a descriptor, and whether others could write to the folder. If such a
    folder is the user's, their write permission is removed, but its contents may be theirs.
    Raises `NotOwnError`, or another OSError.
    """
    if create:
        _make(folder, name)
    descriptor = os.open(name, _READ, dir_fd=folder)
    try:
        status = os.fstat(descriptor)
        was_open = bool(status.st_mode & _OTHERS_WRITE)
        if was_open and status.st_uid == os.geteuid():
            os.fchmod(descriptor, _PRIVATE)
        _check(descriptor, f"its folder {name}", sticky_is_enough=False)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor, was_open


def read_own(folder: int, name: str, most: int) -> tuple[bytes, float]:
    """Read a file of the user or root, not a link; return its bytes and modification time.

    The bytes are empty if another user can write to the file or it is longer than `most` bytes.
    Raises OSError if the file does not exist.
    """
    handle = os.open(name, _FILE, dir_fd=folder)
    try:
        status = os.fstat(handle)
        if not (stat.S_ISREG(status.st_mode) and is_own(status) and status.st_size <= most):
            return b"", status.st_mtime
        # Ask for one byte more, to detect a file that has grown or was read only in part.
        return os.read(handle, status.st_size + 1), status.st_mtime
    finally:
        os.close(handle)


def is_own(status: os.stat_result) -> bool:
    """Return whether a file belongs to the user or root, and only its owner may write to it."""
    return _belongs(status) and not status.st_mode & _OTHERS_WRITE


def _belongs(status: os.stat_result) -> bool:
    return status.st_uid in (os.geteuid(), 0)


def _make(folder: int, name: str) -> None:
    try:
        os.mkdir(name, _PRIVATE, dir_fd=folder)
    except FileExistsError:
        return


def _check(folder: int, path: str, *, sticky_is_enough: bool) -> None:
    status = os.fstat(folder)
    if not _belongs(status):
        raise NotOwnError(f"{path} belongs to user {status.st_uid}")
    if status.st_mode & _OTHERS_WRITE and not (sticky_is_enough and status.st_mode & stat.S_ISVTX):
        raise NotOwnError(f"others may write to {path}")

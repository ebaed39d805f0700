"""Disk space laid aside, so that what was accepted can be finished on a full disk."""

from __future__ import annotations

import contextlib
import logging
import os
import threading
from pathlib import Path

_PIECE = 1 << 20

_log = logging.getLogger(__name__)


class Ballast:
    """A file of `size` bytes that is deleted once the disk is full, and laid again when it is not.

    New jobs are taken only while it is there and as much again is free beside it.
    """

    def __init__(self, path: Path, size: int) -> None:
        self._path, self._size = path, size
        self._lock = threading.Lock()
        self._laid = path.exists() and path.stat().st_size == size

    def full(self) -> bool:
        """Whether new jobs have to wait; lays the ballast where there is space for it again."""
        with self._lock:
            free = self._free()
            if not self._laid and free >= 2 * self._size:
                self._lay()
                free = self._free()
            return not self._laid or free < self._size

    def throw(self) -> None:
        """Gives the space to what must be finished."""
        with self._lock:
            if self._laid:
                _log.warning("the disk of the queue is full: no new jobs are taken")
            self._laid = False
            self._path.unlink(missing_ok=True)

    def _free(self) -> int:
        found = os.statvfs(self._path.parent)
        return found.f_bavail * found.f_frsize

    def _lay(self) -> None:
        flags = os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW
        try:
            descriptor = os.open(self._path, flags, 0o600)
            try:
                os.ftruncate(descriptor, 0)
                left = self._size
                while left:
                    left -= os.write(descriptor, bytes(min(left, _PIECE)))
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
        except OSError:
            with contextlib.suppress(OSError):
                self._path.unlink(missing_ok=True)
            return
        self._laid = True

"""Reserved disk space, so that accepted jobs can finish on a full disk."""

from __future__ import annotations

import contextlib
import logging
import os
import threading
from pathlib import Path

_CHUNK_BYTES = 1 << 20

_log = logging.getLogger(__name__)


class ReservedSpace:
    """A file of `size` bytes, deleted when the disk is full and rewritten when space returns.

    New jobs are accepted only while the file exists and as much space again is free.
    """

    def __init__(self, path: Path, size: int) -> None:
        self._path, self._size = path, size
        self._lock = threading.Lock()
        self._is_written = path.exists() and path.stat().st_size == size

    def full(self) -> bool:
        """Report whether new jobs must be refused; rewrites the file if there is space again."""
        with self._lock:
            free = self._free()
            if not self._is_written and free >= 2 * self._size:
                self._write_file()
                free = self._free()
            return not self._is_written or free < self._size

    def release(self) -> None:
        """Free the reserved space for jobs in progress."""
        with self._lock:
            if self._is_written:
                _log.warning("the disk of the queue is full: no new jobs are accepted")
            self._is_written = False
            self._path.unlink(missing_ok=True)

    def _free(self) -> int:
        statistics = os.statvfs(self._path.parent)
        return statistics.f_bavail * statistics.f_frsize

    def _write_file(self) -> None:
        flags = os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW
        try:
            descriptor = os.open(self._path, flags, 0o600)
            try:
                os.ftruncate(descriptor, 0)
                remaining_bytes = self._size
                while remaining_bytes:
                    remaining_bytes -= os.write(
                        descriptor, bytes(min(remaining_bytes, _CHUNK_BYTES))
                    )
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
        except OSError:
            with contextlib.suppress(OSError):
                self._path.unlink(missing_ok=True)
            return
        self._is_written = True

"""The blob store, or spool: payloads as files in a folder that only this user may read.

Payloads hold witnesses, which are secret; no error or log message contains any part of a payload. A
file gets its name after its content is synced, and the folder is synced before the job that names
the file is committed. The file is deleted when the job ends.
"""

from __future__ import annotations

import ctypes
import errno
import logging
import os
import re
import secrets
import stat
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from queue import SimpleQueue
from typing import BinaryIO

from quod.errors import InputError, OutputError
from quod.service.errors import NotFoundError, StorageFullError
from quod.service.queue.validation import payload_chunks
from quod.validation import file_path, shown_kind

_log = logging.getLogger(__name__)

_NAME = re.compile(r"[0-9a-f]{32}")
_FULL_DISK_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
RETRY_SECONDS_OF_A_FULL_DISK = 30.0

# Linux only; since 5.8 it reports write errors.
_syncfs = getattr(ctypes.CDLL(None, use_errno=True), "syncfs", None)


class BlobWriter:
    """A writer of one payload in chunks."""

    def __init__(self, name: str, descriptor: int) -> None:
        self.name = name
        """The value for `Submission.payload`, valid once the `with` block has ended."""
        self.bytes = 0
        """The number of bytes written so far."""
        self._descriptor = descriptor

    def write(self, chunk: object) -> None:
        """Append bytes, a bytearray or a memoryview; raises InputError for any other type."""
        if not isinstance(chunk, (bytes, bytearray, memoryview)):
            raise InputError(f"a payload must be written as bytes, not {shown_kind(chunk)}")
        unwritten = memoryview(chunk).cast("B")
        self.bytes += len(unwritten)
        while unwritten:
            unwritten = unwritten[os.write(self._descriptor, unwritten) :]


class BlobStore:
    """The folder of payloads: the folder has mode 0700, its files 0600.

    Raises InputError if another user owns the folder or has access to it, OutputError if it cannot
    be created or opened.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        folder_path = self.path = os.path.abspath(file_path(folder))
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            with suppress(FileExistsError):
                os.mkdir(folder_path, 0o700)
            self._descriptor = os.open(folder_path, flags)
        except OSError as error:
            raise _storage_error(error) from None
        status = os.fstat(self._descriptor)
        if status.st_uid != os.geteuid() or stat.S_IMODE(status.st_mode) & 0o077:
            os.close(self._descriptor)
            raise InputError(
                "is not private to this user; give it mode 0700 and this owner",
                path=folder_path,
            )
        self._lock = threading.Lock()
        self._unsynced = False
        self._writing: set[str] = set()
        self._written: dict[str, int] = {}
        self._reserved: set[str] = set()
        self._seen: dict[tuple[str, int], float] = {}
        self._discarded: SimpleQueue[Sequence[str] | threading.Event | None] = SimpleQueue()
        self._discard_thread: threading.Thread | None = None

    def write(self, payload: bytes | Iterable[bytes]) -> str:
        """Write a payload, given whole or in chunks, to disk; return its name.

        A caller that does not submit the payload must delete it with `discard`.
        Raises StorageFullError if the disk is full.
        """
        with self.writing() as writer:
            for chunk in payload_chunks(payload):
                writer.write(chunk)
        return writer.name

    def write_many(self, payloads: Sequence[bytes | Iterable[bytes]]) -> list[str]:
        """Write payloads with one sync of the file system; return their names.

        Writes all payloads or none. Systems without `syncfs` sync each file separately.
        """
        flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC
        sizes = {secrets.token_hex(16): 0 for _ in payloads}
        file_names = {*sizes, *(f".{name}" for name in sizes)}
        with self._lock:
            self._writing |= file_names
        try:
            for name, payload in zip(sizes, payloads, strict=True):
                descriptor = os.open(f".{name}", flags, 0o600, dir_fd=self._descriptor)
                try:
                    writer = BlobWriter(name, descriptor)
                    for chunk in payload_chunks(payload):
                        writer.write(chunk)
                    sizes[name] = writer.bytes
                    if _syncfs is None:
                        os.fsync(descriptor)
                finally:
                    os.close(descriptor)
            if _syncfs is not None and _syncfs(self._descriptor):
                raise OSError(ctypes.get_errno(), "syncfs")
            for name in sizes:
                folder = self._descriptor
                os.rename(f".{name}", name, src_dir_fd=folder, dst_dir_fd=folder)
            with self._lock:
                self._unsynced = True
                self._written |= sizes
        except BaseException as error:
            for name in file_names:
                with suppress(OSError):
                    os.unlink(name, dir_fd=self._descriptor)
            if isinstance(error, OSError):
                raise _storage_error(error) from None
            raise
        finally:
            with self._lock:
                self._writing -= file_names
        return list(sizes)

    @contextmanager
    def writing(self) -> Iterator[BlobWriter]:
        """Write a payload in chunks; delete it if the block raises."""
        name = secrets.token_hex(16)
        temporary = f".{name}"
        with self._lock:
            self._writing |= {name, temporary}
        try:
            flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC
            descriptor = os.open(temporary, flags, 0o600, dir_fd=self._descriptor)
            try:
                writer = BlobWriter(name, descriptor)
                yield writer
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
            os.rename(temporary, name, src_dir_fd=self._descriptor, dst_dir_fd=self._descriptor)
            with self._lock:
                self._unsynced = True
                self._written[name] = writer.bytes
        except BaseException as error:
            with suppress(OSError):
                os.unlink(temporary, dir_fd=self._descriptor)
            if isinstance(error, OSError):
                raise _storage_error(error) from None
            raise
        finally:
            with self._lock:
                self._writing -= {name, temporary}

    def reserve(self, name: str) -> int:
        """Reserve a payload for one submission; return its size in bytes.

        Raises InputError unless this object wrote the payload and it was neither submitted nor
        discarded, NotFoundError if another process has deleted it as an orphan.
        """
        with self._lock:
            is_written = name in self._written
        if is_written and self._size_or_missing(name) < 0:
            raise NotFoundError("the payload is no longer in the spool; send it again")
        with self._lock:
            if name not in self._written or name in self._reserved:
                raise InputError(
                    "the payload was not written by this spool for this job; write it "
                    "with blob_store.write, once for each submission"
                )
            self._reserved.add(name)
            return self._written[name]

    def release(self, names: Iterable[str]) -> None:
        """Undo `reserve` for payloads whose submission was not sent."""
        with self._lock:
            self._reserved.difference_update(names)

    def forget(self, names: Iterable[str]) -> None:
        """Stop tracking payloads that are deleted, or that jobs now own.

        A job's payload is deleted with `discard` when the job ends.
        """
        with self._lock:
            for name in names:
                self._written.pop(name, None)
                self._reserved.discard(name)

    def sync(self) -> None:
        """Sync the folder if files were added; the queue does so before it commits a job."""
        with self._lock:
            pending, self._unsynced = self._unsynced, False
        if pending:
            try:
                os.fsync(self._descriptor)
            except OSError as error:
                self._unsynced = True
                raise _storage_error(error) from None

    def open(self, name: str) -> BinaryIO:
        """Open a payload for reading; the file stays readable if its job ends meanwhile.

        Raises NotFoundError if the payload was deleted because its job ended.
        """
        if not _is_name(name):
            raise InputError("read a payload by the name in its lease")
        try:
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
            return open(os.open(name, flags, dir_fd=self._descriptor), "rb")
        except OSError:
            raise NotFoundError("the payload is not in the spool; its job has ended") from None

    def discard(self, names: Iterable[str]) -> None:
        """Delete payloads of ended jobs, or payloads that were not submitted."""
        for name in names:
            if _is_name(name):
                with suppress(FileNotFoundError):
                    os.unlink(name, dir_fd=self._descriptor)
                self.forget([name])

    def discard_soon(self, names: Sequence[str]) -> None:
        """Delete payloads in a background thread, as deletion on a busy disk is slow."""
        if names:
            self._discarded.put(names)
            with self._lock:
                if self._discard_thread is None:
                    self._discard_thread = threading.Thread(
                        target=self._discard_all, name="quod-spool", daemon=True
                    )
                    self._discard_thread.start()

    def drain(self) -> None:
        """Wait until `discard_soon` has deleted everything it was given."""
        if self._discard_thread is not None:
            deleted = threading.Event()
            self._discarded.put(deleted)
            deleted.wait()

    def _discard_all(self) -> None:
        while (batch := self._discarded.get()) is not None:
            if isinstance(batch, threading.Event):
                batch.set()
                continue
            try:
                self.discard(batch)
            except OSError:
                # The next start or sweep deletes these payloads.
                _log.exception("payloads of finished jobs could not be deleted")

    def unchanged_files(self, now: float, patience: float) -> list[str]:
        """Return the files whose size is unchanged between calls at least `patience` seconds apart.

        Files that this process is writing, or has written but not submitted, are left out. The
        result includes payloads of live jobs, which the caller must exclude. The size is compared
        because another process may be writing a file. `now` is the monotonic clock in seconds.
        """
        with self._lock:
            files_in_use = self._writing | self._written.keys()
        files_and_sizes = [
            (name, self._size_or_missing(name)) for name in os.listdir(self._descriptor)
        ]
        self._seen = {
            file_and_size: self._seen.get(file_and_size, now)
            for file_and_size in files_and_sizes
            if file_and_size[0] not in files_in_use
        }
        return [name for (name, _), since in self._seen.items() if now - since >= patience]

    def _size_or_missing(self, name: str) -> int:
        """Return the size of a file in bytes, -1 if it is gone."""
        try:
            return os.stat(name, dir_fd=self._descriptor, follow_symlinks=False).st_size
        except OSError:
            return -1

    def delete_orphans(self, names: Iterable[str]) -> int:
        """Delete files from `unchanged_files` that no job refers to; return the number deleted."""
        count = 0
        for name in names:
            with suppress(OSError):
                os.unlink(name, dir_fd=self._descriptor)
                count += 1
        return count

    def close(self) -> None:
        """Close the folder after pending deletions; payloads of jobs stay on disk."""
        if self._discard_thread is not None:
            self._discarded.put(None)
            self._discard_thread.join()
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)


def _is_name(value: object) -> bool:
    return isinstance(value, str) and _NAME.fullmatch(value) is not None


def _storage_error(error: OSError) -> Exception:
    """Convert a disk error; the message has neither the content nor the file name."""
    if error.errno in _FULL_DISK_ERRORS:
        return StorageFullError(
            "the disk of the spool is full", retry_seconds=RETRY_SECONDS_OF_A_FULL_DISK
        )
    reason = os.strerror(error.errno or 0)
    return OutputError(f"the spool could not be written ({reason}); check its disk")

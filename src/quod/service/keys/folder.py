"""Folders by descriptor, which follow no links inside a repository and never block on pipes."""

from __future__ import annotations

import fcntl
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from quod.errors import InputError, OutputError
from quod.formats.output import advice_on

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_CHUNK_BYTES = 4 << 20


class Folder:
    """An open folder; `path` is for messages. A `with` block closes it."""

    def __init__(self, path: str, descriptor: int) -> None:
        self.path = path
        self.descriptor = descriptor

    @classmethod
    def at(cls, path: str) -> Folder:
        """Open the folder at a path, following links. Raises OSError."""
        return cls._checked(path, os.open(path, _FOLDER))

    def inner(self, name: str) -> Folder:
        """Open a direct subfolder.

        Raises InputError if it is a link or writable by everybody, OSError if it is missing.
        """
        path = self.file_path(name)
        try:
            return self._checked(
                path, os.open(name, _FOLDER | os.O_NOFOLLOW, dir_fd=self.descriptor)
            )
        except NotADirectoryError:
            raise InputError("is a link or not a folder; remove it", path=path) from None

    @classmethod
    def _checked(cls, path: str, descriptor: int) -> Folder:
        if os.fstat(descriptor).st_mode & stat.S_IWOTH:
            os.close(descriptor)
            raise InputError("is world-writable; run chmod o-w on it", path=path)
        return cls(path, descriptor)

    def file_path(self, name: str) -> str:
        """Return the path of a file, for messages."""
        return os.path.join(self.path, name)

    def names(self) -> list[str]:
        """Return the sorted names of the folder's entries."""
        return sorted(os.listdir(self.descriptor))

    def has(self, name: str, folder: Folder) -> bool:
        """Report whether the entry `name` of this folder is still the open `folder`."""
        try:
            status = os.stat(name, dir_fd=self.descriptor, follow_symlinks=False)
        except FileNotFoundError:
            return False
        return os.path.samestat(status, os.fstat(folder.descriptor))

    def make(self, name: str) -> None:
        """Create a subfolder with mode 0755."""
        os.mkdir(name, 0o755, dir_fd=self.descriptor)

    @contextmanager
    def file(self, name: str) -> Iterator[int]:
        """Open a regular file for reading; yield its descriptor.

        Raises FileNotFoundError if it is missing, InputError if it is a link or not a regular file.
        """
        path = self.file_path(name)
        try:
            descriptor = os.open(name, _FILE, dir_fd=self.descriptor)
        except FileNotFoundError:
            raise
        except OSError as error:
            reason = os.strerror(error.errno or 0)
            raise InputError(f"is a link, or cannot be read ({reason})", path=path) from None
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise InputError("is not a regular file; remove it", path=path)
            yield descriptor
        finally:
            os.close(descriptor)

    def read(self, name: str, most: int) -> bytes:
        """Read a file; raises InputError as `file` does, or if the file exceeds `most` bytes."""
        with self.file(name) as descriptor:
            content = b"".join(read_chunks(descriptor, most + 1))
        if len(content) > most:
            raise InputError(f"is longer than {most:,} bytes", path=self.file_path(name))
        return content

    def write(self, name: str, content: bytes) -> os.stat_result:
        """Write a new file and sync it; return its status."""
        with self.new_file(name) as descriptor:
            write_all(descriptor, content)
            os.fsync(descriptor)
            return os.fstat(descriptor)

    @contextmanager
    def new_file(self, name: str) -> Iterator[int]:
        """Create a file; yield its descriptor for writing. Raises FileExistsError if it exists."""
        descriptor = os.open(name, _NEW, 0o644, dir_fd=self.descriptor)
        try:
            yield descriptor
        finally:
            os.close(descriptor)

    def replace(self, name: str, content: bytes, temporary: str) -> None:
        """Replace a file atomically: after a crash it has either the old content or the new one."""
        with suppress(FileNotFoundError):
            os.unlink(temporary, dir_fd=self.descriptor)
        self.write(temporary, content)
        os.rename(temporary, name, src_dir_fd=self.descriptor, dst_dir_fd=self.descriptor)
        self.sync()

    def move(self, name: str, target: Folder, target_name: str) -> None:
        """Rename a file or folder; raises OSError if the target is a folder with entries."""
        os.rename(name, target_name, src_dir_fd=self.descriptor, dst_dir_fd=target.descriptor)
        target.sync()
        self.sync()

    def delete(self, name: str) -> None:
        """Delete a file, or a folder with its content; links are deleted, not followed."""
        status = os.stat(name, dir_fd=self.descriptor, follow_symlinks=False)
        if not stat.S_ISDIR(status.st_mode):
            os.unlink(name, dir_fd=self.descriptor)
            return
        with Folder(
            self.file_path(name),
            os.open(name, _FOLDER | os.O_NOFOLLOW, dir_fd=self.descriptor),
        ) as inner:
            for entry in inner.names():
                inner.delete(entry)
        os.rmdir(name, dir_fd=self.descriptor)

    def sync(self) -> None:
        """Sync the folder's entries to disk."""
        os.fsync(self.descriptor)

    def lock(self, *, wait: bool) -> bool:
        """Lock the folder until it is closed; without `wait`, return False if it is locked."""
        try:
            fcntl.flock(self.descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            return False
        return True

    def close(self) -> None:
        os.close(self.descriptor)

    def __enter__(self) -> Folder:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def read_chunks(
    descriptor: int, most: int | None = None, check_cancelled: Callable[[], None] = lambda: None
) -> Iterator[bytes]:
    """Read a file in chunks, at most `most` bytes in all; call `check_cancelled` before each."""
    remaining = most
    while remaining is None or remaining > 0:
        check_cancelled()
        chunk = os.read(
            descriptor, _CHUNK_BYTES if remaining is None else min(_CHUNK_BYTES, remaining)
        )
        if not chunk:
            return
        remaining = None if remaining is None else remaining - len(chunk)
        yield chunk


def write_all(descriptor: int, content: bytes) -> None:
    """Write all bytes to a descriptor."""
    unwritten = memoryview(content)
    while unwritten:
        unwritten = unwritten[os.write(descriptor, unwritten) :]


@contextmanager
def as_output_error(path: str) -> Iterator[None]:
    """Convert OSError to OutputError while a repository is written to."""
    try:
        yield
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno is not None else str(error)
        raise OutputError(f"{path}: could not be written ({reason}); {advice_on(error)}") from error

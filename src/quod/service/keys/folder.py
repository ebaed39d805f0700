"""Folders by descriptor: no link inside of a repository is followed, and no pipe is waited for."""

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
_PIECE = 4 << 20


class Folder:
    """An open folder; `path` is for messages. A `with` block closes it."""

    def __init__(self, path: str, descriptor: int) -> None:
        self.path = path
        self.descriptor = descriptor

    @classmethod
    def at(cls, path: str) -> Folder:
        """The folder at a path, whose links are followed. Raises OSError."""
        return cls._checked(path, os.open(path, _FOLDER))

    def inner(self, name: str) -> Folder:
        """A folder directly in this one. InputError for a link or one that everybody may write to;
        OSError if there is none."""
        path = self.file_path(name)
        try:
            return self._checked(
                path, os.open(name, _FOLDER | os.O_NOFOLLOW, dir_fd=self.descriptor)
            )
        except NotADirectoryError:
            raise InputError("is a link, or no folder; take it away", path=path) from None

    @classmethod
    def _checked(cls, path: str, descriptor: int) -> Folder:
        if os.fstat(descriptor).st_mode & stat.S_IWOTH:
            os.close(descriptor)
            raise InputError("may be written to by everybody; chmod o-w it", path=path)
        return cls(path, descriptor)

    def file_path(self, name: str) -> str:
        """What messages call a file."""
        return os.path.join(self.path, name)

    def names(self) -> list[str]:
        """What is in it, sorted."""
        return sorted(os.listdir(self.descriptor))

    def has(self, name: str, folder: Folder) -> bool:
        """Whether a folder is the one of that name in this one."""
        try:
            found = os.stat(name, dir_fd=self.descriptor, follow_symlinks=False)
        except FileNotFoundError:
            return False
        return os.path.samestat(found, os.fstat(folder.descriptor))

    def make(self, name: str) -> None:
        """A new folder in this one, which only its owner may write to."""
        os.mkdir(name, 0o755, dir_fd=self.descriptor)

    @contextmanager
    def file(self, name: str) -> Iterator[int]:
        """A regular file in it, open. InputError for a link or no file; FileNotFoundError."""
        path = self.file_path(name)
        try:
            descriptor = os.open(name, _FILE, dir_fd=self.descriptor)
        except FileNotFoundError:
            raise
        except OSError as error:
            reason = os.strerror(error.errno or 0)
            raise InputError(f"is a link, or may not be read ({reason})", path=path) from None
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise InputError("is not a regular file; take it away", path=path)
            yield descriptor
        finally:
            os.close(descriptor)

    def read(self, name: str, most: int) -> bytes:
        """A small file. InputError as `file`, and for more than `most` bytes."""
        with self.file(name) as descriptor:
            content = b"".join(pieces(descriptor, most + 1))
        if len(content) > most:
            raise InputError(f"is longer than {most:,} bytes", path=self.file_path(name))
        return content

    def write(self, name: str, content: bytes) -> os.stat_result:
        """A new file, on disk; its status."""
        with self.new_file(name) as descriptor:
            write_all(descriptor, content)
            os.fsync(descriptor)
            return os.fstat(descriptor)

    @contextmanager
    def new_file(self, name: str) -> Iterator[int]:
        """A file that was not there, open for writing."""
        descriptor = os.open(name, _NEW, 0o644, dir_fd=self.descriptor)
        try:
            yield descriptor
        finally:
            os.close(descriptor)

    def replace(self, name: str, content: bytes, temporary: str) -> None:
        """A file as a whole: it has the old content or the new one, whatever happens."""
        with suppress(FileNotFoundError):
            os.unlink(temporary, dir_fd=self.descriptor)
        self.write(temporary, content)
        os.rename(temporary, name, src_dir_fd=self.descriptor, dst_dir_fd=self.descriptor)
        self.sync()

    def move(self, name: str, target: Folder, target_name: str) -> None:
        """Renames a file or folder; raises FileExistsError for a folder that is not empty."""
        os.rename(name, target_name, src_dir_fd=self.descriptor, dst_dir_fd=target.descriptor)
        target.sync()
        self.sync()

    def delete(self, name: str) -> None:
        """A file, or a folder with what is in it; links are deleted, not followed."""
        status = os.stat(name, dir_fd=self.descriptor, follow_symlinks=False)
        if not stat.S_ISDIR(status.st_mode):
            os.unlink(name, dir_fd=self.descriptor)
            return
        with Folder(
            self.file_path(name),
            os.open(name, _FOLDER | os.O_NOFOLLOW, dir_fd=self.descriptor),
        ) as inner:
            for each in inner.names():
                inner.delete(each)
        os.rmdir(name, dir_fd=self.descriptor)

    def sync(self) -> None:
        """Puts the names in it on disk."""
        os.fsync(self.descriptor)

    def lock(self, *, wait: bool) -> bool:
        """Locks the folder until it is closed; whether that was possible at once, unless `wait`."""
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


def pieces(
    descriptor: int, most: int | None = None, stop: Callable[[], None] = lambda: None
) -> Iterator[bytes]:
    """A file's bytes in pieces, at most so many; `stop` is called before each."""
    left = most
    while left is None or left > 0:
        stop()
        piece = os.read(descriptor, _PIECE if left is None else min(_PIECE, left))
        if not piece:
            return
        left = None if left is None else left - len(piece)
        yield piece


def write_all(descriptor: int, content: bytes) -> None:
    """All of some bytes."""
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


@contextmanager
def told(path: str) -> Iterator[None]:
    """What the system refuses while a repository is written to, as `OutputError`."""
    try:
        yield
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno is not None else str(error)
        raise OutputError(f"{path}: could not be written ({reason}); {advice_on(error)}") from error

"""Reading files into memory: mapped, read as a whole, or read within a limit.

Every reader of a file uses one of these functions, and none reads a whole file before its start and
its length have been checked. Small inputs (JSON, symbols, WebAssembly) may be regular files or
pipes, such as ``<(...)`` and /dev/stdin, and have a limit that is checked before anything is read.
Large ones are regular files: before memory is allocated, a check gets a `FileView`, which reads
only the bytes that the check asks for (magic, header, lengths of sections). Folders and endless
devices such as /dev/zero are always refused. Running out of memory is an `InputError` that names
the file.
"""

from __future__ import annotations

import contextlib
import errno
import io
import mmap
import os
import stat
from codecs import getincrementaldecoder
from collections.abc import Callable, Iterator
from typing import BinaryIO, TypeVar

import numpy as np

from quod.errors import InputError
from quod.frozen import frozen
from quod.validation import file_path

T = TypeVar("T")

Path = str | os.PathLike[str]

_CHUNK_BYTES = 1 << 20
_TEXT_BYTES = 96
# The minimum number of bytes of a read; longer than most headers, so that checks take one read.
_WINDOW = 1 << 12


@frozen
class FileIdentity:
    """The attributes of a file that change when it is written to or replaced.

    path: The absolute path.
    device, inode: The file's numbers.
    size: The length in bytes.
    modified: The time of modification in nanoseconds.
    """

    path: str
    device: int
    inode: int
    size: int
    modified: int

    @classmethod
    def of(cls, path: str, status: os.stat_result) -> FileIdentity:
        absolute_path = os.path.abspath(path)
        return cls(absolute_path, status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)

    def check(self) -> None:
        """Raise InputError if the file was replaced or written to.

        A file that was removed counts as unchanged, because its mapping stays.
        """
        try:
            current = FileIdentity.of(self.path, os.stat(self.path))
        except OSError:
            return
        if current == self:
            return
        change = "another file replaced it" if current.inode != self.inode else "it was written to"
        raise InputError(
            f"has changed since it was opened ({change}); open it again, and replace keys by "
            "renaming a complete file over them",
            path=self.path,
        )


class FileView:
    """The bytes of an open regular file; slicing reads them.

    Parsers of magic numbers, headers and lengths take it in place of a `memoryview` of the whole
    file. `size` is the file's size when it was opened; with `offset` the bytes are the part of the
    file from there on. Reading moves the file position.
    """

    def __init__(self, path: str, file: BinaryIO, size: int, offset: int = 0) -> None:
        self._path, self._file, self._size, self._offset = path, file, size, offset
        self._start, self._window = 0, b""

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, key: slice) -> memoryview:
        start, stop, step = key.indices(self._size)
        if step != 1:
            raise ValueError("slices of a file's view must have step 1")
        length = max(stop - start, 0)
        if not self._start <= start <= start + length <= self._start + len(self._window):
            self._start = start
            self._window = self._read(start, max(length, min(_WINDOW, self._size - start)))
        offset = start - self._start
        return memoryview(self._window)[offset : offset + length]

    def _read(self, start: int, length: int) -> bytes:
        self._file.seek(self._offset + start)
        data = b""
        while len(data) < length:
            chunk = self._file.read(length - len(data))
            if not chunk:
                raise _shrank(self._path)
            data += chunk
        return data


Bytes = memoryview | FileView
"""The bytes of a file, in memory or read on access."""
Check = Callable[[FileView], object]
"""A check of a file's start that raises `InputError` to refuse the file."""


def map_file(path: Path, check: Check | None = None) -> memoryview:
    """Map a regular file read-only, and return its bytes; raises `InputError` if that fails.

    `check` gets a view of the file before it is mapped, and raises to refuse it.
    """
    return map_identified(path, check)[0]


def map_identified(path: Path, check: Check | None = None) -> tuple[memoryview, FileIdentity]:
    """Map a file as `map_file` does; also return an identity that detects changes of the file."""
    with opened_file(path) as (file, status):
        if check is not None:
            check(FileView(file_path(path), file, status.st_size))
        data = mmap.mmap(file.fileno(), status.st_size, access=mmap.ACCESS_READ)
        return memoryview(data), FileIdentity.of(os.fspath(path), status)


def read_file(path: Path, check: Check) -> memoryview:
    """Read a regular file into private read-only memory.

    `check` gets a view of the file before memory is allocated: it raises for another kind of file,
    one that is too long, and a header that does not fit the length. The parser of the result must
    check again, because the file may have changed meanwhile. Later changes of the file do not
    change the bytes. Raises `InputError`.
    """
    with opened_file(path) as (file, status):
        check(FileView(file_path(path), file, status.st_size))
        content = np.empty(status.st_size, dtype=np.uint8).data
        file.seek(0)
        position = 0
        while position < len(content):
            count = file.readinto(content[position:])  # type: ignore[attr-defined]
            if not count:
                raise _shrank(os.fspath(path))
            position += count
        return content.toreadonly()


def read_parsed(
    path: Path, head: Callable[[FileView, str], object], parse: Callable[[memoryview, str], T]
) -> T:
    """Read a file as `read_file` does, and return the result of `parse`.

    head: Raises for a wrong start, before memory is allocated; it gets a view and the name.
    parse: Gets the bytes, and the name for errors.
    """
    name = file_path(path)
    return parse(read_file(path, lambda view: head(view, name)), name)


def check_length(length: int, limit: int, what: str, name: str) -> None:
    """Raise InputError if a file is longer than `limit`; errors call its type `what`."""
    if length > limit:
        raise InputError(
            f"is longer than the limit for {what} ({limit:,} bytes); check that the "
            "right file was given",
            path=name,
        )


def _shrank(path: str) -> InputError:
    return InputError("shrank while it was read; copy it again", path=path)


def read_small(
    path: Path, *, limit: int, what: str, begins: bytes = b"", empty: bool = False
) -> bytes:
    """Read a file or pipe of at most `limit` bytes; errors call its type `what`.

    Raises `InputError` for a longer file before any of it is read, for a longer pipe once it
    exceeds the limit, for a start other than `begins` before more is read, for devices and folders,
    and for an empty file unless `empty` is true.
    """
    name = file_path(path)
    with _open(path, pipes=True) as (file, status):
        check_length(status.st_size, limit, what, name)
        content = io.BytesIO()
        while chunk := file.read(min(_CHUNK_BYTES, limit + 1 - content.tell())):
            content.write(chunk)
            check_length(content.tell(), limit, what, name)
            start = content.getbuffer()[: len(begins)]
            if start != begins[: len(start)]:
                raise InputError(
                    f"is not {what} (it begins with {bytes(start)!r}, not {begins!r}); check that "
                    "the right file was given",
                    path=name, offset=0,
                )  # fmt: skip
            # A BytesIO cannot grow while a view of its buffer exists.
            del start
        if not content.tell() and not empty:
            raise InputError("is empty; make or copy the file again", path=name, offset=0)
        return content.getvalue()


def existing_size(path: Path) -> int | None:
    """Return the size of a file, None if there is none; InputError if the system refuses."""
    name = file_path(path)
    try:
        return os.stat(name).st_size
    except (FileNotFoundError, NotADirectoryError):
        return None
    except PermissionError as error:
        raise InputError("permission denied; check the folder's permissions", path=name) from error
    except OSError as error:
        raise InputError(f"could not be read ({error.strerror})", path=name) from error
    except ValueError as error:  # a NUL in the path
        raise InputError(f"could not be read ({error})", path=name) from error


def identity_of(path: Path) -> FileIdentity:
    """Return the identity of a non-empty regular file; raises InputError."""
    with opened_file(path) as (_, status):
        return FileIdentity.of(os.fspath(path), status)


def begins_as_text(path: Path) -> bool:
    """Return true if a file begins with 96 bytes of UTF-8, unlike binary keys and proofs.

    Pipes count as text, because they can be read only once. Raises `InputError`.
    """
    if is_pipe(path):
        return True
    with opened_file(path) as (file, _):
        return is_text(file.read(_TEXT_BYTES))


def is_text(data: bytes) -> bool:
    """Return true if the first 96 bytes of `data` are UTF-8."""
    try:
        # The last character may be cut off.
        getincrementaldecoder("utf-8")().decode(data[:_TEXT_BYTES])
    except UnicodeDecodeError:
        return False
    return True


def begins_with(path: Path, magic: bytes) -> bool:
    """Return true if a file begins with these bytes; false for pipes. Raises `InputError`."""
    if is_pipe(path):
        return False
    with opened_file(path) as (file, _):
        return file.read(len(magic)) == magic


def is_pipe(path: Path) -> bool:
    """Return true if `path` names a pipe, which can be read only once."""
    try:
        return stat.S_ISFIFO(os.stat(path).st_mode)
    except (OSError, ValueError):
        return False


@contextlib.contextmanager
def opened_file(path: Path) -> Iterator[tuple[BinaryIO, os.stat_result]]:
    """Open a non-empty regular file unbuffered, and yield it with its status.

    Raises `InputError`, also for errors of reading within the block.
    """
    with _open(path, pipes=False) as (file, status):
        if status.st_size == 0:
            raise InputError(
                "is empty; make or copy the file again", path=os.fspath(path), offset=0
            )
        yield file, status


@contextlib.contextmanager
def _open(path: Path, *, pipes: bool) -> Iterator[tuple[BinaryIO, os.stat_result]]:
    """Open a file unbuffered, and yield it with its status; errors in the block are InputErrors."""
    name = file_path(path)
    try:
        # Checked before opening, which would wait for a pipe's writer or rewind a tape.
        _check_type(name, os.stat(name).st_mode, pipes)
        # Nor does opening wait for a pipe that has replaced the file meanwhile.
        with open(name, "rb", buffering=0, opener=None if pipes else _without_waiting) as file:
            status = os.fstat(file.fileno())
            _check_type(name, status.st_mode, pipes)
            yield file, status
    except FileNotFoundError as error:
        raise InputError("does not exist; check the path", path=name) from error
    except PermissionError as error:
        raise InputError("permission denied; check the file's permissions", path=name) from error
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno is not None else str(error)
        advice = "; free some memory" if error.errno == errno.ENOMEM else ""
        raise InputError(f"could not be read ({reason}){advice}", path=name) from error
    except MemoryError as error:
        raise InputError(
            "needs more memory than is available; free some memory", path=name
        ) from error
    except ValueError as error:  # a NUL in the path, or a file that shrank while it was mapped
        raise InputError(f"could not be read ({error})", path=name) from error


def _without_waiting(name: str, flags: int) -> int:
    return os.open(name, flags | os.O_NONBLOCK)


def _check_type(name: str, mode: int, pipes: bool) -> None:
    if stat.S_ISREG(mode) or (pipes and stat.S_ISFIFO(mode)):
        return
    if stat.S_ISDIR(mode):
        raise InputError("is not a regular file but a folder; name a file in it", path=name)
    if pipes:
        raise InputError(
            "is neither a regular file nor a pipe; copy the data into a file first", path=name
        )
    raise InputError("is not a regular file; copy the data into one first", path=name)

"""Writing results so that a file is there completely or not at all.

Content goes to a temporary file in the directory of its target, is flushed to the disk and then
renamed over the target, which POSIX makes atomic. A failure of any kind, Ctrl-C among them,
removes the temporary files and leaves the targets as they were. Files that belong together are
flushed together, so that a journal is written once for all of them.

What cannot be replaced is written to: devices, pipes, and descriptors such as /dev/stdout, whatever
they lead to.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import BinaryIO

from quod.errors import InputError, OutputError
from quod.formats.source import Path
from quod.formats.target_path import ForeignLinkError, follow
from quod.validation import file_path, instance, shown_kind

Content = bytes | Callable[[BinaryIO], None]

_ADVICE = {
    errno.ENOSPC: "free some space or write to another disk",
    errno.EDQUOT: "free some space or write to another disk",
    errno.EFBIG: "raise the limit on file sizes (ulimit -f) or write to another file system",
    errno.ENOENT: "create its directory first",
    errno.ENOTDIR: "name a path whose parent is a directory",
    errno.EPIPE: "whoever read it has closed it",
    errno.EISDIR: "name a file, not a directory",
    errno.EACCES: "choose a directory that you may write to",
    errno.EPERM: "choose a directory that you may write to",
    errno.EROFS: "choose a directory that you may write to",
    errno.ENAMETOOLONG: "choose a shorter name",
}


def write_atomically(path: Path, content: Content) -> None:
    """Write `content` (bytes, or a function that writes to an open file) to `path`.

    An existing regular file is replaced and keeps its permissions; a symbolic link is followed,
    unless another user may have put it there (see `quod.formats.target_path`). A pipe, a device and
    a descriptor such as /dev/stdout or /dev/fd/3 are not replaced but written to.

    Raises `OutputError` when the system refuses, with nothing left behind; whatever a writing
    function raises passes through.
    """
    write_all_atomically({file_path(path): content})


def write_all_atomically(
    contents: Mapping[Path, Content], *, private: Collection[Path] = ()
) -> None:
    """Write several files that belong together: each is complete before the first one appears.

    Between the renames a crash of the machine can still leave some of them in place and not the
    others; no file is ever partial. New files of `private` are for their owner alone. Raises as
    `write_atomically` does, and InputError for what is no content.
    """
    instance("contents", contents, Mapping, "map each path to what goes there")  # type: ignore[type-abstract]
    for path, content in contents.items():
        if not isinstance(content, bytes | bytearray | memoryview) and not callable(content):
            raise InputError(
                f"what {file_path(path)} gets must be bytes or a function that writes, "
                f"not {shown_kind(content)}"
            )
    staged: list[tuple[str, str, str]] = []  # (path as given, temporary, target)
    streams: list[tuple[str, str | int, Content]] = []
    written: list[tuple[str, BinaryIO]] = []
    try:
        for path, content in contents.items():
            name = file_path(path)
            with reported(name):
                target = followed(name)
                if isinstance(target, int):
                    streams.append((name, target, content))
                    continue
                mode = mode_of(target)
                if mode is not None and stat.S_ISDIR(mode):
                    raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
                if mode is not None and not stat.S_ISREG(mode):
                    streams.append((name, target, content))
                    continue
                temporary = f"{os.path.dirname(target)}/.quod-{os.urandom(8).hex()}.tmp"
                staged.append((name, temporary, target))
                rights = 0o600 if path in private else 0o666
                written.append((name, _new(temporary, mode, rights)))
                _put(written[-1][1], content)
        for name, file in written:
            with reported(name), file:
                os.fsync(file.fileno())
        for name, stream, content in streams:
            with reported(name), _opened(stream) as file:
                _put(file, content)
        directories: dict[str, None] = {}
        while staged:
            name, temporary, target = staged[0]
            with reported(name):
                os.replace(temporary, target)
                del staged[0]
                directories[os.path.dirname(target)] = None
        for directory in directories:
            flush_directory(directory)
    finally:
        for _, file in written:
            with contextlib.suppress(OSError):
                file.close()
        for _, temporary, _ in staged:
            with contextlib.suppress(OSError):
                os.unlink(temporary)


def advice_on(error: OSError) -> str:
    """What to do about an output that the system refused."""
    return _ADVICE.get(error.errno or 0, "check the path and the disk")


def followed(path: str) -> str | int:
    try:
        return follow(path)
    except ForeignLinkError as error:
        raise OutputError(
            f"{path}: could not be written ({error.strerror}); name the file itself, or another "
            "folder"
        ) from error
    except ValueError as error:  # a NUL, or half of a pair of surrogates
        raise OutputError(f"{path!r}: could not be written ({error}); name another file") from error


def _opened(stream: str | int) -> BinaryIO:
    # Opened anew, a descriptor's file would be cut short and written from its beginning.
    return open(os.dup(stream) if isinstance(stream, int) else stream, "wb")


def mode_of(target: str) -> int | None:
    """Type and permissions of `target`, or None where there is nothing yet."""
    try:
        return os.stat(target).st_mode
    except FileNotFoundError:
        return None


def _new(temporary: str, mode: int | None, rights: int) -> BinaryIO:
    # os.open, not tempfile: a new file gets the permissions that the user's umask leaves. What
    # writes a large one may map it, to read again what is already there.
    descriptor = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, rights)
    file = os.fdopen(descriptor, "wb")
    if mode is not None:
        os.fchmod(descriptor, stat.S_IMODE(mode))
    return file


def _put(file: BinaryIO, content: Content) -> None:
    if callable(content):
        content(file)
    else:
        file.write(content)
    file.flush()


def flush_directory(directory: str) -> None:
    # The renames have happened; some file systems cannot flush a directory, which is no failure.
    with contextlib.suppress(OSError):
        descriptor = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


@contextlib.contextmanager
def reported(path: str) -> Iterator[None]:
    """OutputError that names the path for whatever the system refuses within."""
    try:
        yield
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno is not None else str(error)
        raise OutputError(f"{path}: could not be written ({reason}); {advice_on(error)}") from error

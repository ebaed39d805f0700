"""Writing results atomically: a file is complete, or unchanged.

Content goes to a temporary file in the directory of its target, is flushed to the disk and then
renamed over the target, which POSIX makes atomic. A failure of any kind, Ctrl-C among them,
removes the temporary files and leaves the targets as they were. Files that belong together are
flushed together, so that a journal is written once for all of them.

Secrets go to private files, which only their owner may read. Results that cannot be recomputed are
written without `replace`: an existing file stays, even one that appears meanwhile.

Devices, pipes, and descriptors such as /dev/stdout cannot be replaced, so they are written to.
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
    errno.EPIPE: "the reader has closed it",
    errno.EISDIR: "name a file, not a directory",
    errno.EACCES: "choose a directory that you may write to",
    errno.EPERM: "choose a directory that you may write to",
    errno.EROFS: "choose a directory that you may write to",
    errno.ENAMETOOLONG: "choose a shorter name",
}


# Errors of file systems that have no hard links, such as FAT.
_NO_LINKS = {errno.EPERM, errno.ENOSYS, errno.EOPNOTSUPP, errno.EMLINK}


def write_atomically(
    path: Path, content: Content, *, private: bool = False, replace: bool = True
) -> None:
    """Write `content` (bytes, or a function that writes to an open file) to `path`.

    An existing regular file is replaced and keeps its permissions; a symbolic link is followed,
    unless another user may have put it there (see `quod.formats.target_path`). A pipe, a device and
    a descriptor such as /dev/stdout or /dev/fd/3 are not replaced but written to. A `private` file
    has at most mode 0600, even if it replaces one that others may read.

    Raises `OutputError` when the system refuses, with nothing left behind, and for an existing file
    without `replace`; errors of a writing function pass through.
    """
    name = file_path(path)
    write_all_atomically(
        {name: content}, private=[name] if private else (), exclusive=() if replace else [name]
    )


def write_all_atomically(
    contents: Mapping[Path, Content],
    *,
    private: Collection[Path] = (),
    exclusive: Collection[Path] = (),
    durable: bool = True,
) -> None:
    """Write several files that belong together: each is complete before the first one appears.

    Between the renames a crash of the machine can still leave some of them in place and not the
    others; no file is ever partial. Unless they are `durable`, a crash soon after the return can
    also remove them, which suits files that are made in less time than it takes to store them. Only
    the owner can read files in `private`, and files in `exclusive` must not exist yet. Raises as
    `write_atomically` does, and InputError for content of another type.
    """
    instance("contents", contents, Mapping, "map each path to its content")  # type: ignore[type-abstract]
    for path, content in contents.items():
        if not isinstance(content, bytes | bytearray | memoryview) and not callable(content):
            raise InputError(
                f"the content of {file_path(path)} must be bytes or a function that "
                f"writes, not {shown_kind(content)}"
            )
    # A Path and its text name the same file.
    private_names, exclusive_names = set(map(file_path, private)), set(map(file_path, exclusive))
    # (path of the caller, temporary, target, whether to replace it)
    staged: list[tuple[str, str, str, bool]] = []
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
                replace = name not in exclusive_names
                if not replace and mode is not None:
                    raise exists(name)
                temporary = f"{os.path.dirname(target)}/.quod-{os.urandom(8).hex()}.tmp"
                # Exclusive files come first: if one fails, no file has been renamed yet.
                staged.insert(len(staged) if replace else 0, (name, temporary, target, replace))
                permissions, mode = (0o600, None) if name in private_names else (0o666, mode)
                written.append((name, _create(temporary, mode, permissions)))
                _write_content(written[-1][1], content)
        for name, file in written:
            with reported(name), file:
                os.fsync(file.fileno())
        for name, stream, content in streams:
            with reported(name), _open_stream(stream) as file:
                _write_content(file, content)
        directories: dict[str, None] = {}
        while staged:
            name, temporary, target, replace = staged[0]
            with reported(name):
                put_in_place(name, temporary, target, replace=replace)
                del staged[0]
                directories[os.path.dirname(target)] = None
        if durable:
            for directory in directories:
                flush_directory(directory)
    finally:
        for _, file in written:
            with contextlib.suppress(OSError):
                file.close()
        for _, temporary, _, _ in staged:
            with contextlib.suppress(OSError):
                os.unlink(temporary)


def put_in_place(name: str, temporary: str, target: str, *, replace: bool) -> None:
    """Rename a complete file to its target; without `replace`, fail if the target exists.

    Raises OSError, and OutputError for an existing target, which it calls `name`.
    """
    if replace:
        os.replace(temporary, target)
        return
    try:
        os.link(temporary, target)
    except FileExistsError:
        raise exists(name) from None
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        # Creating an empty file first fails if another file has the name.
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        try:
            descriptor = os.open(target, flags, 0o600)
        except FileExistsError:
            raise exists(name) from None
        try:
            os.replace(temporary, target)
        except BaseException:
            with contextlib.suppress(OSError):
                if os.path.samestat(os.lstat(target), os.fstat(descriptor)):
                    os.unlink(target)
            raise
        finally:
            os.close(descriptor)
    else:
        os.unlink(temporary)


def exists(name: str) -> OutputError:
    """Return the error for an existing file that must not be replaced."""
    return OutputError(
        f"{name}: already exists and may be the only copy; name another file, or "
        "replace it with --force (in Python replace=True)"
    )


def advice_on(error: OSError) -> str:
    """Return advice for an output that the system refused."""
    return _ADVICE.get(error.errno or 0, "check the path and the disk")


def followed(path: str) -> str | int:
    """Return the target of a path, or a descriptor; OutputError if the path cannot be written."""
    try:
        return follow(path)
    except ForeignLinkError as error:
        raise OutputError(
            f"{path}: could not be written ({error.strerror}); name the file itself, or another "
            "folder"
        ) from error
    except ValueError as error:  # a NUL, or half of a pair of surrogates
        raise OutputError(f"{path!r}: could not be written ({error}); name another file") from error


def _open_stream(stream: str | int) -> BinaryIO:
    # Duplicate the descriptor: reopening its file would truncate it and write from its beginning.
    return open(os.dup(stream) if isinstance(stream, int) else stream, "wb")


def mode_of(target: str) -> int | None:
    """Return the type and permissions of `target`, or None if it does not exist."""
    try:
        return os.stat(target).st_mode
    except FileNotFoundError:
        return None


def _create(temporary: str, mode: int | None, permissions: int) -> BinaryIO:
    """Create a file with the permissions of `mode`, or `permissions` less the umask if None."""
    # os.open, not tempfile, so that a new file has the permissions of the user's umask. The file is
    # readable because writers of large files may map it to read what they have written.
    descriptor = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, permissions)
    file = os.fdopen(descriptor, "wb")
    if mode is not None:
        os.fchmod(descriptor, stat.S_IMODE(mode))
    return file


def _write_content(file: BinaryIO, content: Content) -> None:
    if callable(content):
        content(file)
    else:
        file.write(content)
    file.flush()


def flush_directory(directory: str) -> None:
    """Flush a directory's entries to the disk, if its file system can."""
    # The renames have happened; a file system that cannot flush a directory is not an error.
    with contextlib.suppress(OSError):
        descriptor = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


@contextlib.contextmanager
def reported(path: str) -> Iterator[None]:
    """Convert an OSError of the block to an OutputError that names the path."""
    try:
        yield
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno is not None else str(error)
        raise OutputError(f"{path}: could not be written ({reason}); {advice_on(error)}") from error

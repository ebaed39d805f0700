"""Results that take hours, written in parts, so that a later run resumes after an interruption.

The unfinished file, `.NAME.quod-part`, is in the folder of its target. A journal,
`.NAME.quod-journal`, records the inputs and the finished parts, each with its BLAKE2b hash. A part
is flushed to the disk before its line in the journal, and counts only if its bytes still have that
hash. The complete file is renamed over the target. The user owns both files, and one process at a
time locks them. Short runs leave neither.

Inputs are identified by their contents. Files that were moved or copied again, or whose disk has
another device number after a reboot, are the same inputs. Files with other contents are not,
whatever their sizes and times.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import json
import os
import stat
from collections.abc import Callable
from functools import cached_property
from time import monotonic
from typing import Any, BinaryIO

from quod import shallow_json
from quod.errors import DeviceError, OutputError
from quod.formats.output import (
    exists,
    flush_directory,
    followed,
    mode_of,
    put_in_place,
    reported,
    write_atomically,
)
from quod.formats.source import Path
from quod.frozen import frozen
from quod.validation import check_function, file_path, flag

SECONDS_BETWEEN = 5.0
"""The most seconds of finished work that a crash may lose, in addition to the unfinished part."""

INTERRUPTIONS = (KeyboardInterrupt, SystemExit, DeviceError, MemoryError)
"""Exceptions after which work can resume later, besides a result that cannot be written."""

kept: list[str] = []
"""Targets for which this process has left unfinished files to resume."""

expected: list[str] = []
"""Targets of work that is about to begin and that may resume an earlier run."""

_CHUNK_BYTES = 1 << 24
_MAX_JOURNAL = 1 << 24
_MARK_KEYS = {"at", "length", "blake2b"}
_PART, _JOURNAL = "part", "journal"

Mark = tuple[int, int]
"""The offset and the length of a part, in bytes."""


@frozen
class Inputs:
    """All inputs that determine a result.

    identity: Returns a text that identifies their contents; called once something is to be
        recorded.
    check: Raises InputError if they have changed since the work began.
    """

    identity: Callable[[], str]
    check: Callable[[], None] = lambda: None


class Parts:
    """A file that is written in parts, in any order.

    `file` is open for reading and writing. Without a journal no part is recorded. The writing
    function must leave the file position at the end of the result.
    """

    def __init__(
        self, file: BinaryIO, journal: str | None = None, inputs: Inputs | None = None
    ) -> None:
        self.file = file
        self._journal = journal
        self._inputs = inputs
        self._done: dict[Mark, str] = {}
        self._pending: list[Mark] = []
        self._last_append = monotonic()
        self.has_journal = False

    def is_done(self, at: int, length: int) -> bool:
        """Return whether an earlier run has written these bytes."""
        return (at, length) in self._done

    def stored(self, at: int, length: int) -> bytes | None:
        """Return these bytes if an earlier run has written them, else None."""
        return os.pread(self.file.fileno(), length, at) if self.is_done(at, length) else None

    def finish(self, at: int, length: int) -> None:
        """Mark bytes as final; every few seconds, marked bytes are recorded in the journal."""
        self._pending.append((at, length))
        if self._journal is None or monotonic() - self._last_append < SECONDS_BETWEEN:
            return
        self.file.flush()
        os.fsync(self.file.fileno())
        lines = [
            {"at": at, "length": length, "blake2b": self._digest(at, length)}
            for at, length in self._pending
        ]
        self._append(lines)
        self._pending.clear()
        self._last_append = monotonic()

    def recover(self) -> int | None:
        """Read the journal; return the number of finished parts, None if it is for other inputs."""
        assert self._journal is not None
        try:
            # O_NONBLOCK, so that a pipe planted by another user does not block.
            flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
            descriptor = os.open(self._journal, flags)
        except OSError:
            return None
        if not _is_owned(descriptor):
            os.close(descriptor)
            return None
        with os.fdopen(descriptor, "rb") as file:
            lines = file.read(_MAX_JOURNAL).split(b"\n")[:-1]
        if not lines or _parse_object(lines[0]) != {"identity": self._identity}:
            return None
        size = os.fstat(self.file.fileno()).st_size
        for line in lines[1:]:
            mark = _parse_object(line)
            if mark is None or mark.keys() != _MARK_KEYS:
                continue
            offset, length, digest = mark["at"], mark["length"], mark["blake2b"]
            if type(offset) is not int or type(length) is not int or offset < 0 or length < 0:
                continue
            if offset + length <= size and self._digest(offset, length) == digest:
                self._done[offset, length] = digest
        self.has_journal = True
        return len(self._done)

    @cached_property
    def _identity(self) -> str:
        assert self._inputs is not None
        return self._inputs.identity()

    def _append(self, lines: list[dict[str, Any]]) -> None:
        """Append lines to the journal; a new one begins with the identity of the inputs."""
        assert self._journal is not None
        flags = os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        if not self.has_journal:
            _remove(self._journal)
            flags |= os.O_CREAT | os.O_EXCL
            lines = [{"identity": self._identity}, *lines]
        text = "".join(json.dumps(line) + "\n" for line in lines)
        # The first line break ends a line that a full disk has truncated.
        text = "\n" * self.has_journal + text
        # If the inputs have changed, parts made before and after cannot be distinguished.
        assert self._inputs is not None
        self._inputs.check()
        descriptor = os.open(self._journal, flags, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(text.encode())
            file.flush()
            os.fsync(descriptor)
        self.has_journal = True

    def _digest(self, offset: int, length: int) -> str:
        hasher = hashlib.blake2b()
        while length:
            data = os.pread(self.file.fileno(), min(length, _CHUNK_BYTES), offset)
            if not data:
                return ""
            hasher.update(data)
            offset, length = offset + len(data), length - len(data)
        return hasher.hexdigest()


def expect(path: Path) -> None:
    """Announce a later call of `write_resumably` with this target."""
    expected.append(file_path(path))


def resumable_targets() -> list[str]:
    """Return the targets that another run can resume.

    These are the `kept` ones, and the `expected` ones for which an earlier run left a journal.
    """
    targets = dict.fromkeys(kept)
    for name in expected:
        with contextlib.suppress(OSError, OutputError):
            target = followed(name)
            if not isinstance(target, int) and os.path.lexists(_sibling_path(target, _JOURNAL)):
                targets[name] = None
    return [*targets]


def write_resumably(
    path: Path,
    inputs: Inputs,
    write: Callable[[Parts], None],
    *,
    resume: bool = True,
    report: Callable[[str], None] = lambda _: None,
    replace: bool = True,
) -> None:
    """Write a file atomically with a function that can reuse parts of an interrupted run.

    Parts of other `inputs`, and all parts without `resume`, are discarded, and `report` gets a line
    about either case. Parts are kept for a later run if the process is killed or interrupted, the
    device or the memory fails, or the file cannot be written, for example on a full disk; after
    other errors they are removed. Raises OutputError also if another process writes the same
    result, and InputError for a wrong `resume` or `report` before any file is touched. See
    `write_atomically`.
    """
    name = file_path(path)
    resume, replace = flag("resume", resume), flag("replace", replace)
    check_function("report", report)
    with reported(name):
        target = followed(name)
        mode = None if isinstance(target, int) else mode_of(target)
        if isinstance(target, int) or (mode is not None and not stat.S_ISREG(mode)):
            write_atomically(path, lambda file: write(Parts(file)))
            return
        if not replace and mode is not None:
            raise exists(name)
        temporary, journal = (_sibling_path(target, suffix) for suffix in (_PART, _JOURNAL))
        file = _open_locked(temporary, name)
    keep_parts = False
    parts = Parts(file, journal, inputs)
    try:
        with reported(name):
            part_count = parts.recover() if resume else None
            if part_count is None:
                if resume and os.path.lexists(journal):
                    report(
                        f"{name}: the partial output of an earlier run is for other "
                        "inputs; starting again"
                    )
                _remove(journal)
                if os.path.lexists(journal):
                    raise _blocked_error(name, journal)
                file.truncate(0)
            else:
                report(f"{name}: resuming after an interruption; {part_count} parts are done")
            if mode is not None:
                # The owner must be able to write until the file is complete.
                os.fchmod(file.fileno(), stat.S_IMODE(mode) | stat.S_IRUSR | stat.S_IWUSR)
        try:
            with reported(name):
                write(parts)
                # Remove bytes of an earlier unfinished file after the result.
                file.truncate()
                file.flush()
                if mode is not None:
                    os.fchmod(file.fileno(), stat.S_IMODE(mode))
                os.fsync(file.fileno())
                put_in_place(name, temporary, target, replace=replace)
        except (*INTERRUPTIONS, OutputError):
            keep_parts = parts.has_journal
            raise
        _remove(journal)
        flush_directory(os.path.dirname(target))
    finally:
        if keep_parts:
            kept.append(name)
        else:
            if _is_at(temporary, file):
                _remove(temporary)
            _remove(journal)
        with contextlib.suppress(OSError):
            # Closing flushes again, and fails again after a failed write.
            file.close()


def _sibling_path(target: str, suffix: str) -> str:
    folder, base = os.path.split(target)
    return f"{folder}/.{base}.quod-{suffix}"


def _open_locked(temporary: str, name: str) -> BinaryIO:
    """Open and lock the unfinished file, an existing or a new one, until it is closed."""
    flags = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW
    for _ in range(100):
        try:
            descriptor = os.open(temporary, flags)
            if not _is_owned(descriptor):
                os.close(descriptor)
                os.unlink(temporary)
                continue
        except FileNotFoundError:
            try:
                descriptor = os.open(temporary, flags | os.O_CREAT | os.O_EXCL, 0o666)
            except FileExistsError:
                continue
        except OSError as error:
            if error.errno in (errno.EISDIR, errno.ELOOP):
                raise _blocked_error(name, temporary) from error
            raise
        file = os.fdopen(descriptor, "r+b")
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            raise OutputError(
                f"{name}: another process is writing this file; wait for it"
            ) from None
        # The previous owner may have renamed or removed the file in between.
        if _is_at(temporary, file):
            return file
        file.close()
    raise OutputError(
        f"{name}: could not be written (other processes keep replacing {temporary}); stop them"
    )


def _blocked_error(name: str, path: str) -> OutputError:
    return OutputError(f"{name}: could not be written ({path} is in the way); remove that path")


def _is_owned(descriptor: int) -> bool:
    """Return whether an open file is a regular file of the user without another hard link."""
    status = os.fstat(descriptor)
    return stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid() and status.st_nlink == 1


def _is_at(path: str, file: BinaryIO) -> bool:
    """Return whether a path still names an open file."""
    try:
        return os.path.samestat(os.lstat(path), os.fstat(file.fileno()))
    except FileNotFoundError:
        return False


def _remove(path: str) -> None:
    with contextlib.suppress(OSError):
        os.unlink(path)


def _parse_object(line: bytes) -> dict[str, Any] | None:
    try:
        record = shallow_json.load(line)
    except ValueError:
        return None
    return record if isinstance(record, dict) else None

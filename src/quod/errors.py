"""The errors that Quod raises deliberately, with the exit codes of its command line.

A message is one line that says what is wrong and what to do. The exit codes are documented in
docs/cli.md and tested.
"""

from __future__ import annotations

import os

# Not the name of `typing`, whose import takes as long as the start of Python. A client of the
# resident helper loads this module, so it does without `contextlib`, too.
TYPE_CHECKING = False

if TYPE_CHECKING:
    from types import TracebackType


class QuodError(Exception):
    """The base class of all errors with a known cause."""

    exit_code = 1


class InputError(QuodError):
    """A file or an argument is malformed.

    message: the text without the location.
    path: the file, or None.
    section: the section of the file, or None.
    offset: the byte offset in the file, or None.
    """

    exit_code = 3

    def __init__(
        self,
        message: str,
        *,
        path: str | os.PathLike[str] | None = None,
        section: str | None = None,
        offset: int | None = None,
    ) -> None:
        self.message = message
        self.path = None if path is None else os.fspath(path)
        self.section = section
        self.offset = offset
        location = [self.path] if self.path is not None else []
        if section is not None:
            location.append(f"section {section}")
        if offset is not None:
            location.append(f"offset {offset}")
        super().__init__(": ".join([", ".join(location), message] if location else [message]))


class naming_file:
    """A context that names the file in an InputError or a MismatchError that names none.

    Such an error is of a check of the file's content after it was read.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = path

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:  # fmt: skip
        if type(error) in (InputError, MismatchError):
            assert isinstance(error, InputError)
            if error.path is None:
                raise type(error)(
                    error.message, path=self._path, section=error.section, offset=error.offset
                ) from None


class MismatchError(InputError):
    """Two well-formed inputs do not match, such as a key and the witness of another circuit."""

    exit_code = 4


class OutputError(QuodError):
    """A result could not be written.

    No partial file is left, except one that a later run can resume (`quod.formats.resumable`).
    """

    exit_code = 5


class VerificationError(QuodError):
    """A proof does not verify, or a witness does not satisfy the constraints.

    The prover's self-check and the commands that verify or check raise this error.
    """

    exit_code = 6


class DeviceError(QuodError):
    """A device is absent, lost, out of memory or lacks a feature."""

    exit_code = 7


class KernelError(QuodError):
    """A kernel's source, types or launch are wrong; the message names the user's file and line."""

    exit_code = 8


class InsecureKeyError(QuodError):
    """Anyone can forge proofs for a key, because its trusted setup had no contribution.

    Keys whose secret is known, such as test keys, raise this error too.
    """

    exit_code = 9


class ServiceError(QuodError):
    """The proving service refused a request; `status` is the name of the gRPC code."""

    exit_code = 10
    status = "FAILED_PRECONDITION"


class TryAgainError(ServiceError):
    """The service refused a request for now; retry it after `retry_seconds`."""

    exit_code = 11
    status = "UNAVAILABLE"

    def __init__(self, message: str, *, retry_seconds: float) -> None:
        self.retry_seconds = retry_seconds
        super().__init__(message)


class RegressionError(QuodError):
    """A measurement has no baseline, or is worse than its baseline by more than the tolerance."""

    exit_code = 12


class AmbiguousError(QuodError):
    """A circuit has two witnesses with equal inputs and different values of a target."""

    exit_code = 13


class UndecidedError(QuodError):
    """A check within its time limit shows neither that targets are unique nor that one is not."""

    exit_code = 14

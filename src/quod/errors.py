"""Every error that Quod raises on purpose, with the exit code that its command line gives it.

The message of an error is one line that says what is wrong and what to do. The exit codes are
documented in docs/cli.md and tested.
"""

from __future__ import annotations

import os


class QuodError(Exception):
    """Base of all errors with a known cause."""

    exit_code = 1


class InputError(QuodError):
    """A file or value that came from outside is malformed.

    `path` names the file, `section` the part of it and `offset` the byte at which it went wrong;
    whichever is unknown is None.
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
        self.path = None if path is None else os.fspath(path)
        self.section = section
        self.offset = offset
        place = [self.path] if self.path is not None else []
        if section is not None:
            place.append(f"section {section}")
        if offset is not None:
            place.append(f"offset {offset}")
        super().__init__(": ".join([", ".join(place), message] if place else [message]))


class MismatchError(InputError):
    """Two inputs, each well formed, do not belong together (a witness of another circuit, say)."""

    exit_code = 4


class OutputError(QuodError):
    """A result could not be written; no unfinished file is left, but for what can be gone on with
    (`quod.formats.resumable`)."""

    exit_code = 5


class VerificationError(QuodError):
    """A proof did not verify, or a witness fails constraints; raised by the prover's self-check and
    by the commands that verify or check."""

    exit_code = 6


class DeviceError(QuodError):
    """A device is absent, lost, out of memory or lacks a feature."""

    exit_code = 7


class KernelError(QuodError):
    """A kernel is wrong: its source, its types, or its launch. Names the user's file and line."""

    exit_code = 8


class InsecureKeyError(QuodError):
    """Anyone can forge proofs for a key: it had no contribution, or its secret is known."""

    exit_code = 9


class ServiceError(QuodError):
    """The proving service refused a request; `status` is the code of gRPC that says so."""

    exit_code = 10
    status = "FAILED_PRECONDITION"


class TryAgainError(ServiceError):
    """The service refused a request for now; `retry_seconds` says when to ask again."""

    exit_code = 11
    status = "UNAVAILABLE"

    def __init__(self, message: str, *, retry_seconds: float) -> None:
        self.retry_seconds = retry_seconds
        super().__init__(message)


class RegressionError(QuodError):
    """A measured figure is worse than its baseline by more than what is allowed, or has none."""

    exit_code = 12

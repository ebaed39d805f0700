"""Standard streams that are always open, and writes to them that fail as they should.

Results that cannot be written are an error of their own; remarks on standard error that nobody can
read are lost, and change nothing about the work.
"""

from __future__ import annotations

import io
import os
import sys
from typing import TYPE_CHECKING, TextIO

from quod.errors import OutputError

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


class ReaderLeft(Exception):
    """Whoever read standard output has closed it: `quod kernel emit ... | head`.

    Not an OSError, which Typer would take for its own.
    """


class _Results(io.FileIO):
    """Standard output. Writes raise `ReaderLeft`, or `OutputError` for a full disk, say."""

    def write(self, data: ReadableBuffer, /) -> int:
        try:
            return super().write(data)
        except BrokenPipeError as error:
            raise ReaderLeft from error
        except OSError as error:
            raise OutputError(
                f"standard output could not be written ({os.strerror(error.errno or 0)}); "
                "send it elsewhere"
            ) from error


class _Remarks(io.FileIO):
    """Standard error. What cannot be written is lost."""

    def write(self, data: ReadableBuffer, /) -> int:
        try:
            return super().write(data)
        except OSError:
            return len(memoryview(data).cast("B"))


def prepare_streams(errors: int = 2) -> None:
    """Opens the standard streams that are closed on nothing, and sets `sys.stdout` and `stderr`.

    `errors` is the descriptor to which standard error goes.
    """
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            # Else the next file to be opened, a result perhaps, would be taken for the stream.
            opened = os.open(os.devnull, os.O_RDWR)
            if opened != number:
                os.dup2(opened, number)
                os.close(opened)
    if sys.stdin is None:
        sys.stdin = io.TextIOWrapper(io.BufferedReader(io.FileIO(0, closefd=False)))
    sys.stdout = _text(_Results(1, "w", closefd=False), sys.stdout)
    sys.stderr = _text(_Remarks(errors, "w", closefd=False), sys.stderr)


def discard_results() -> None:
    """What is still to be written to standard output goes nowhere: it cannot be written."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.close(nowhere)


def _text(raw: io.FileIO, before: TextIO | None) -> io.TextIOWrapper:
    # What the encoding lacks is escaped; it is no reason to fail.
    return io.TextIOWrapper(
        io.BufferedWriter(raw), encoding=before.encoding if before else None,
        errors="backslashreplace", line_buffering=isinstance(raw, _Remarks) or raw.isatty(),
    )  # fmt: skip

"""Standard streams that are always open, with distinct handling of failed writes.

A failed write of results is an error. A failed write to standard error is ignored and does not
affect the work.
"""

from __future__ import annotations

import io
import os
import sys
from typing import TYPE_CHECKING, TextIO

from quod.errors import OutputError

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


class StdoutClosed(Exception):
    """The reader of standard output has closed it, as in `quod kernel emit ... | head`.

    Not an OSError, which typer would handle itself.
    """


class _StandardOutput(io.FileIO):
    """Standard output; failed writes raise `StdoutClosed` or OutputError (a full disk)."""

    def write(self, data: ReadableBuffer, /) -> int:
        try:
            return super().write(data)
        except BrokenPipeError as error:
            raise StdoutClosed from error
        except OSError as error:
            raise OutputError(
                "standard output could not be written "
                f"({os.strerror(error.errno or 0)}); redirect it to another file"
            ) from error


class _StandardError(io.FileIO):
    """Standard error; failed writes are ignored."""

    def write(self, data: ReadableBuffer, /) -> int:
        try:
            return super().write(data)
        except OSError:
            return len(memoryview(data).cast("B"))


def prepare_streams(errors: int = 2) -> None:
    """Open closed standard streams on /dev/null, and set `sys.stdout` and `sys.stderr`.

    errors: the descriptor of standard error.
    """
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            # Otherwise the next opened file, such as a result, would become the stream.
            opened = os.open(os.devnull, os.O_RDWR)
            if opened != number:
                os.dup2(opened, number)
                os.close(opened)
    if sys.stdin is None:
        sys.stdin = io.TextIOWrapper(io.BufferedReader(io.FileIO(0, closefd=False)))
    sys.stdout = _text(_StandardOutput(1, "w", closefd=False), sys.stdout)
    sys.stderr = _text(_StandardError(errors, "w", closefd=False), sys.stderr)


def discard_results() -> None:
    """Discard buffered standard output, which cannot be written."""
    null_device = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null_device, 1)
    os.close(null_device)


def _text(raw: io.FileIO, old_stream: TextIO | None) -> io.TextIOWrapper:
    # Characters that the encoding lacks are escaped instead of failing.
    return io.TextIOWrapper(
        io.BufferedWriter(raw), encoding=old_stream.encoding if old_stream else None,
        errors="backslashreplace", line_buffering=isinstance(raw, _StandardError) or raw.isatty(),
    )  # fmt: skip

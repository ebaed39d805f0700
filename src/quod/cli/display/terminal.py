"""The output of commands: results on standard output, everything else on standard error."""

from __future__ import annotations

import json
import os
import re
import sys
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TextIO

from quod.cli.display.streams import StdoutClosed, discard_results
from quod.errors import OutputError

if TYPE_CHECKING:
    from rich.console import Console

    from quod.device.limits import Limits
    from quod.device.runtime.timeline import Row, Timeline


# Codes that move the cursor, ring the bell or reorder text, and lone surrogates, which stand for
# bytes of file names. Compiled on first use, which takes a millisecond.
_UNPRINTABLE = "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"


_UNBROKEN_COLUMNS = 1 << 30
"""A width in columns beyond any table; rich uses only what a table needs."""


def printable(text: str) -> str:
    """Escape all unprintable characters except line breaks and tabs.

    All output of this module passes through it once, so that names and contents of files cannot
    control the terminal.
    """
    if text.isprintable():
        return text
    return re.sub(_UNPRINTABLE, lambda match: match[0].encode("unicode_escape").decode(), text)


def one_line(text: str) -> str:
    """Escape all unprintable characters, so that a name with a line break cannot start a line."""
    return printable(text).replace("\n", "\\n").replace("\t", "\\t")


def show(text: str) -> None:
    """Print a result on standard output; raises `StdoutClosed` and OutputError, see `streams`."""
    sys.stdout.write(printable(text if text.endswith("\n") else text + "\n"))
    sys.stdout.flush()


def show_part(text: str) -> None:
    """Print a part of a result as it arrives, without a line break; see `show`."""
    sys.stdout.write(printable(text))
    sys.stdout.flush()


def show_or_note(out: str | os.PathLike[str], text: str) -> None:
    """Print a result that accompanies `out`, on standard error if `out` is standard output."""
    from quod.formats.target_path import follow

    if follow(os.fspath(out)) == 1:
        note(text)
    else:
        show(text)


def show_valid(*, quiet: bool, what: str = "the proof is valid") -> None:
    """Print that a proof is valid unless `quiet`; a failed write is only a warning."""
    if quiet:
        return
    try:
        show(f"OK: {what}.")
    except (OutputError, StdoutClosed):
        # The exit code reports that the proof is valid.
        discard_results()
        warn(f"{what}, but standard output could not be written")


def show_json(value: Any) -> None:
    """Print a result as JSON on standard output."""
    show(json.dumps(value, indent=1))


def note(text: str, *, quiet: bool = False) -> None:
    """Print a remark on standard error unless `quiet`."""
    if not quiet:
        print(one_line(text), file=sys.stderr)


def warn(text: str) -> None:
    """Print a warning, which `--quiet` does not hide."""
    note(f"quod: warning: {text}")


def fail(text: str) -> None:
    """Print the reason for a failure in one line, which `--quiet` does not hide."""
    note(f"quod: {' '.join(text.split())}")


def warn_of(
    message: Warning | str, category: type[Warning], filename: str, lineno: int,
    file: TextIO | None = None, line: str | None = None,
) -> None:  # fmt: skip
    """Print a warning of Python's `warnings`; Quod's own ones in one line."""
    if issubclass(category, UserWarning) and file is None:
        warn(str(message))
    else:
        text = warnings.formatwarning(message, category, filename, lineno, line)
        (file or sys.stderr).write(text)


def show_table(
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    right: Sequence[str] = (),
    title: str | None = None,
    stderr: bool = False,
) -> None:
    """Print a table of plain text cells; the columns in `right` are right-aligned."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(
        title=None if title is None else Text(one_line(title)),
        box=box.SIMPLE_HEAD,
        show_edge=False,
        title_justify="left",
        pad_edge=False,
    )
    for column in columns:
        numeric = column in right
        table.add_column(
            Text(one_line(column)), justify="right" if numeric else "left", no_wrap=numeric
        )
    for row in rows:
        table.add_row(*(Text(one_line(cell)) for cell in row))
    _console(stderr=stderr).print(table)


_NUMBERED_STAGE = r"(layer|chunk) \d+: "


def show_timings(timeline: Timeline, limits: Limits | None = None, *, stderr: bool = True) -> None:
    """Print the stages of a timeline; with `limits`, how near each stage came to them.

    Layers and chunks are merged: a circuit may have thousands, each with a dozen stages.
    """
    rows = [
        (
            "  " * row.depth + row.name + (f" ×{row.count}" if row.count > 1 else ""),
            f"{row.busy * 1e3:.{1 if row.busy >= 0.01 else 3}f}",
            f"{row.share:.0%}",
            f"{row.bytes / 1e6:.1f}" if row.bytes else "",
            f"{row.bytes_per_second / 1e9:.2f}" if row.bytes else "",
            f"{row.modmuls_per_second / 1e9:.3f}" if row.modmuls else "",
            _share_of_limit(row, limits),
        )
        for row in timeline.table(named=lambda name: re.sub(_NUMBERED_STAGE, r"\1s: ", name))
    ]
    columns = ("stage", "ms", "share", "MB", "GB/s", "G products/s", "of the limit")
    shown_columns = [
        column for column in range(len(columns)) if column < 3 or any(row[column] for row in rows)
    ]
    show_table(
        [columns[column] for column in shown_columns],
        [[row[column] for column in shown_columns] for row in rows],
        right=columns[1:],
        stderr=stderr,
    )


def _share_of_limit(row: Row, limits: Limits | None) -> str:
    """Return the share that a stage reaches of its tighter limit, and the limit's name."""
    if limits is None or not row.busy or not (row.bytes or row.multiply_adds):
        return ""
    share = limits.least_seconds(row.bytes, row.multiply_adds) / row.busy
    return f"{share:.0%} {limits.limited_by(row.bytes, row.multiply_adds)}"


def _console(*, stderr: bool) -> Console:
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    # Off a terminal, lines of a table are never wrapped.
    width = None if stream.isatty() else _UNBROKEN_COLUMNS
    return Console(file=stream, highlight=False, width=width)

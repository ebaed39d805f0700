"""Options and arguments that several commands share, and the checks that go with them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from quod.errors import OutputError

Device = Annotated[
    str, typer.Option("--device", metavar="NAME", help="Where to compute; see `quod devices`.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]
Quiet = Annotated[
    bool, typer.Option("--quiet", "-q", help="Print nothing but results, warnings and errors.")
]
Timings = Annotated[
    bool, typer.Option("--timings", help="Print the stage table on standard error.")
]
Trace = Annotated[
    Path | None,
    typer.Option("--trace", metavar="FILE", help="Write a Chrome trace (chrome://tracing)."),
]


def check_outputs(outputs: list[Path], inputs: list[Path]) -> None:
    """Refuse, before any work, outputs that cannot be written or would overwrite an input.

    Raises `OutputError`; for two outputs of one name, or an input's, `typer.BadParameter`.
    """
    seen: dict[str, Path] = {}
    for path in [*inputs, *outputs]:
        # Devices such as /dev/null and pipes may be named twice.
        if path.exists() and not path.is_file() and not path.is_dir():
            continue
        real = os.path.realpath(path)
        if path in outputs and real in seen:
            raise typer.BadParameter(f"{path} is named twice; give each file its own name")
        seen[real] = path
    for path in outputs:
        _check_writable(path)


def _check_writable(path: Path) -> None:
    # The write itself decides; this only spares the user a proof that could not be kept.
    if path.is_dir():
        raise OutputError(f"{path}: could not be written (is a directory); name a file")
    if path.exists() and not path.is_file():
        return
    directory = Path(os.path.realpath(path)).parent
    if not directory.is_dir():
        raise OutputError(
            f"{path}: could not be written (no directory {directory}); create its directory first"
        )
    if not os.access(directory, os.W_OK | os.X_OK):
        raise OutputError(
            f"{path}: could not be written (permission denied); "
            "choose a directory that you may write to"
        )

"""Checks of output files before any work."""

from __future__ import annotations

import os
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

from quod.cli.parameters import WrongUsage
from quod.errors import OutputError


def check_outputs(
    outputs: list[Path], inputs: list[Path], *, exclusive: Collection[Path] = ()
) -> None:
    """Refuse, before any work, outputs that cannot be written or would overwrite an input.

    Files in `exclusive` must not exist. Raises `OutputError`, and `WrongUsage` for two outputs with
    one name or an output with the name of an input.
    """
    from quod.formats.output import exists, followed, reported

    named_files: dict[str, Path] = {}
    for path in inputs:
        # The command reports the error when it reads the file.
        with suppress(OSError):
            named_files |= _by_real_path(path)
    for path in outputs:
        with reported(str(path)):
            real_path = _by_real_path(path)
            if real_path.keys() & named_files.keys():
                raise WrongUsage(f"{path} is given twice; give each file its own name")
            named_files |= real_path
    for path in outputs:
        with reported(str(path)):
            _check_writable(path)
            # A file behind a descriptor such as /dev/stdout is written to, not replaced.
            if path in exclusive and path.is_file() and isinstance(followed(str(path)), str):
                raise exists(str(path))


def is_standard_output(path: Path) -> bool:
    """Return whether a path, such as /dev/stdout, is the file behind standard output."""
    try:
        return os.path.samestat(path.stat(), os.fstat(1))
    except OSError:
        return False


def _by_real_path(path: Path) -> dict[str, Path]:
    """Return the file by its real path; empty for devices and pipes, which may be named twice."""
    if path.exists() and not path.is_file() and not path.is_dir():
        return {}
    return {os.path.realpath(path): path}


def _check_writable(path: Path) -> None:
    # The write itself decides; this check only avoids work whose result cannot be kept.
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

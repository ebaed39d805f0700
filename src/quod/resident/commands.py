"""Commands of requests, run in the helper as in a process of their own."""

from __future__ import annotations

import contextlib
import os
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from quod.cli import entry, quick
from quod.cli.display.terminal import warn_of
from quod.cli.groth16 import commands
from quod.cli.groth16.key_opening import opening_with
from quod.cli.parameters import WrongUsage
from quod.device.host import available_memory_bytes
from quod.environment import number_from_environment
from quod.errors import DeviceError
from quod.formats.target_path import follow
from quod.resident.frames import Request
from quod.resident.keys import HelperKeys
from quod.resident.output import Output

MEMORY_VARIABLE = "QUOD_RESIDENT_MEMORY"
_MEMORY_SHARE = 0.5
"""The default share of the free memory for keys; proofs and other programs need the rest."""

_COMMANDS: Mapping[tuple[str, ...], Callable[..., None]] = {
    ("groth16", "prove"): commands.prove,
    ("groth16", "verify"): commands.verify,
}
_FAILURES = (DeviceError.exit_code, entry.EXIT_INTERNAL)
"""Exit codes of failures that may be the helper's own: the client runs the command again."""


class Declined(Exception):
    """The client must run the command; the text is its warning, none if it is empty."""


class CommandRunner:
    """Runs commands one at a time, in the main thread."""

    def __init__(self) -> None:
        self.keys = HelperKeys(memory_bound())

    def run(self, request: Request, output: Output) -> int:
        """Run a command and return its exit code.

        Raises `Declined` if the client must run it.
        """
        command = _COMMANDS.get(tuple(request.words[:2]))
        if command is None:
            raise Declined("")
        with _in_place_of(request, output):
            values = quick.parse(command, request.words[2:])
            if values is None or not all(map(_is_shared, values.values())):
                raise Declined("")
            try:
                return self._run(command, values, output)
            finally:
                self.keys.end_command()

    def _run(self, command: Callable[..., None], values: dict[str, Any], output: Output) -> int:
        is_wrong_usage = False

        def call() -> int:
            nonlocal is_wrong_usage
            try:
                command(**values)
            except WrongUsage:
                is_wrong_usage = True
            return 0

        with opening_with(self.keys.open), warnings.catch_warnings():
            warnings.showwarning = warn_of
            code = entry.exit_code_of(call)
        if is_wrong_usage:
            raise Declined("")
        if code in _FAILURES:
            self.keys.close()
            raise Declined(f"could not run the command ({output.last_line()})")
        return code


def memory_bound() -> int:
    """Return the bound on the memory of keys in bytes: of QUOD_RESIDENT_MEMORY, or the default.

    Raises DeviceError for a malformed variable.
    """
    return int(number_from_environment(MEMORY_VARIABLE, available_memory_bytes() * _MEMORY_SHARE))


def _is_shared(value: object) -> bool:
    """Report whether an argument is not a path, or a path of a regular file or of no file.

    Descriptors belong to one process, and pipes can be read only once.
    """
    if not isinstance(value, Path):
        return True
    try:
        if isinstance(follow(str(value)), int):
            return False
        return not value.exists() or value.is_file()
    except (OSError, ValueError):
        # The command reports the error.
        return True


@contextlib.contextmanager
def _in_place_of(request: Request, output: Output) -> Iterator[None]:
    """Take the client's folder, umask and standard streams during the body."""
    try:
        os.chdir(request.folder)
    except OSError:
        raise Declined("") from None
    umask = os.umask(request.umask)
    streams = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = output.stdout, output.stderr
    try:
        yield
    finally:
        sys.stdout, sys.stderr = streams
        os.umask(umask)
        os.chdir("/")

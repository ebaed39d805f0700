"""Declarations of options, arguments and groups of commands, without typer.

    def prove(zkey: Annotated[Path, Argument("ZKEY", "Proving key.")], quiet: Quiet = False): ...

`quick` parses the words of fast commands; `options` converts the declarations for typer.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any


class WrongUsage(Exception):
    """A wrong command line: exit code 2. Raised before any work."""


class Argument:
    """A positional argument of a command.

    An unreadable file is a wrong usage; with `check_readable=False` the command itself reports it.
    """

    def __init__(self, metavar: str, help: str, *, check_readable: bool = True) -> None:
        self.metavar = metavar
        self.help = help
        self.check_readable = check_readable


class Option:
    """An option of a command.

    Without `names` the option has the name of its parameter, and a bool also has a --no- form.
    Typer rejects numbers below `least` or above `most`; in a command that `quick` parses, `least`
    is 0, as `quick` parses no negative numbers. `check` raises `WrongUsage` for a wrong value.
    """

    def __init__(
        self, *names: str, help: str | None = None, metavar: str | None = None,
        least: float | None = None, most: float | None = None,
        environment: str | None = None, check: Callable[[Any], None] | None = None,
    ) -> None:  # fmt: skip
        self.names = names
        self.metavar = metavar
        self.least = least
        self.most = most
        self.environment = environment
        self.check = check
        self.help = help


def finite_seconds(value: float) -> None:
    """Raise WrongUsage unless the value of an option is a finite number of seconds."""
    if not 0 <= value < math.inf:
        raise WrongUsage(f"the number of seconds must be 0 or more, not {value}")


class Group:
    """A group of commands and subgroups by name, in the order of the help."""

    def __init__(self, help: str, commands: Mapping[str, Callable[..., None] | Group]) -> None:
        self.help = help
        self.commands = commands


AsJson = Annotated[bool, Option("--json", help="Print JSON for programs.")]
Device = Annotated[
    str, Option("--device", metavar="NAME", help="Device to compute on; see `quod devices`.")
]
Force = Annotated[
    bool, Option("--force", help="Replace an existing output, even if it may be the only copy.")
]
InsecureTestKey = Annotated[
    bool,
    Option(
        "--insecure-test-key",
        help="Accept a key for which anyone can forge proofs. Only for tests.",
    ),
]
Quiet = Annotated[
    bool, Option("--quiet", "-q", help="Print nothing but results, warnings and errors.")
]
Resident = Annotated[
    bool,
    Option(
        help="Have a process run the command that keeps opened keys; start it if there is none. "
        "QUOD_RESIDENT=1 sets this for all commands.",
    ),
]
"""The option of commands that a resident helper runs; `quod.cli.main` obeys it."""
Resume = Annotated[bool, Option(help="Resume an interrupted run.")]
Seed = Annotated[
    int | None,
    Option(metavar="N", least=0, help="Make the same proof every time. Not zero-knowledge."),
]
SelfCheck = Annotated[bool, Option(help="Verify the proof before writing it.")]
Timings = Annotated[
    bool, Option("--timings", help="Print the time of each stage on standard error.")
]
Trace = Annotated[
    Path | None,
    Option("--trace", metavar="FILE", help="File for a Chrome trace (chrome://tracing)."),
]

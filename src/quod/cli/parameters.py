"""Options, arguments and groups of commands as they are declared, without typer.

    def prove(zkey: Annotated[Path, Argument("ZKEY", "Proving key.")], quiet: Quiet = False): ...

`quick` parses the words of fast commands; `options` makes typer's form for everything else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any


class WrongUsage(Exception):
    """The command line asks for what cannot be: exit code 2. Raised before any work."""


class Argument:
    """A word that a command takes by its place.

    A file that may not be read is a wrong usage, unless `readable` is False: then reading it says
    so.
    """

    def __init__(self, metavar: str, help: str, *, readable: bool = True) -> None:
        self.metavar = metavar
        self.help = help
        self.readable = readable


class Option:
    """An option of a command.

    Without `names` it is named after its parameter; one that is a bool also has a --no- form then.
    Numbers below `least` or above `most` are typer's to refuse; in a command that `quick` parses,
    `least` is 0, as `quick` takes no negative ones. `check` raises `WrongUsage` for a wrong value.
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


class Group:
    """Commands, and groups of them, by name in the order of the help."""

    def __init__(self, help: str, commands: Mapping[str, Callable[..., None] | Group]) -> None:
        self.help = help
        self.commands = commands


AsJson = Annotated[bool, Option("--json", help="Print JSON for programs.")]
Device = Annotated[
    str, Option("--device", metavar="NAME", help="Where to compute; see `quod devices`.")
]
Force = Annotated[
    bool, Option("--force", help="Replace an existing output, even if it may be the only copy.")
]
InsecureTestKey = Annotated[
    bool,
    Option(
        "--insecure-test-key",
        help="Take a key for which anyone can forge proofs. Only for tests.",
    ),
]
Quiet = Annotated[
    bool, Option("--quiet", "-q", help="Print nothing but results, warnings and errors.")
]
Resume = Annotated[bool, Option(help="Go on where an earlier run was interrupted.")]
Seed = Annotated[
    int | None,
    Option(metavar="N", least=0, help="Make the same proof every time. Not zero-knowledge."),
]
SelfCheck = Annotated[bool, Option(help="Verify the proof before writing it.")]
Timings = Annotated[bool, Option("--timings", help="Print the stage table on standard error.")]
Trace = Annotated[
    Path | None, Option("--trace", metavar="FILE", help="Write a Chrome trace (chrome://tracing).")
]

"""Options and arguments as commands declare them, without the library that shows their help.

    def prove(zkey: Annotated[Path, Argument("ZKEY", "Proving key.")], quiet: Quiet = False): ...

`quick` parses them where all is plain; `options` makes typer's form of them for everything else.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated


class WrongUsage(Exception):
    """The command line asks for what cannot be: exit code 2. Raised before any work."""


class Argument:
    """A word that a command takes by its place."""

    def __init__(self, metavar: str, help: str) -> None:
        self.metavar = metavar
        self.help = help


class Option:
    """An option of a command.

    Without `names` it is named after its parameter; one that is a bool also has a --no- form then.
    Numbers below `least` are typer's to refuse: it is 0, as `quick` takes no negative ones.
    """

    def __init__(
        self, *names: str, help: str, metavar: str | None = None, least: int | None = None
    ) -> None:
        self.names = names
        self.metavar = metavar
        self.least = least
        self.help = help


DEVICE = Option("--device", metavar="NAME", help="Where to compute; see `quod devices`.")
AS_JSON = Option("--json", help="Print JSON for programs.")
FORCE = Option("--force", help="Replace an existing output, even if it may be the only copy.")
INSECURE_TEST_KEY = Option(
    "--insecure-test-key", help="Take a key for which anyone can forge proofs. Only for tests."
)
QUIET = Option("--quiet", "-q", help="Print nothing but results, warnings and errors.")
RESUME = Option(help="Go on where an earlier run was interrupted.")
TIMINGS = Option("--timings", help="Print the stage table on standard error.")
TRACE = Option("--trace", metavar="FILE", help="Write a Chrome trace (chrome://tracing).")

Device = Annotated[str, DEVICE]
Force = Annotated[bool, FORCE]
InsecureTestKey = Annotated[bool, INSECURE_TEST_KEY]
Quiet = Annotated[bool, QUIET]
Resume = Annotated[bool, RESUME]
Timings = Annotated[bool, TIMINGS]
Trace = Annotated[Path | None, TRACE]

"""The commands `contribute` and `beacon` of both phases of a ceremony."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Protocol

from quod.cli.display.terminal import one_line, show
from quod.cli.outputs import check_outputs
from quod.cli.parameters import Argument, Device, Force, Option, Quiet

if TYPE_CHECKING:
    from quod.ceremony.details import Details
    from quod.device.runtime.timeline import Timeline

Source = Annotated[Path, Argument("FILE", "File to contribute to.")]
Target = Annotated[Path, Argument("OUT", "New file.")]
Name = Annotated[
    str, Option("--name", "-n", metavar="NAME", help="Public name of the contributor.")
]
Entropy = Annotated[
    str,
    Option(
        "--entropy", "-e", metavar="TEXT",
        help="Text to mix into the system's randomness, which suffices alone.",
    ),
]  # fmt: skip
Value = Annotated[str, Argument("HEX", "Public value, in hexadecimal.")]
Exponent = Annotated[int, Argument("EXPONENT", "Hash HEX 2**EXPONENT times; 10 to 63.")]


MaxHashes = Annotated[
    int,
    Option(
        "--max-hashes", metavar="EXPONENT", least=0, most=80,
        help="Compute at most 2**EXPONENT hashes for beacons and the first challenge.",
    ),
]  # fmt: skip


class Contribution(Protocol):
    """A contribution, as verifiers of both phases return it with its hash."""

    @property
    def details(self) -> Details: ...


def in_hex_groups(digest: bytes) -> str:
    """Format a hash as ceremonies show it, in groups of eight hexadecimal digits."""
    return " ".join(digest[start : start + 4].hex() for start in range(0, len(digest), 4))


def show_contributions(contributions: Sequence[tuple[Contribution, bytes]]) -> None:
    """Show each contributor and hash on a line, then that names are not authenticated."""
    for number, (contribution, digest) in enumerate(contributions, start=1):
        # A name is untrusted: it must not start a line that looks like Quod's.
        show(one_line(f"{number} {contribution.details.described}: {in_hex_groups(digest)}"))
    show("Names are not authenticated: no hash covers them, so anyone may have changed them.")


def contributions_json(
    contributions: Sequence[tuple[Contribution, bytes]], digest_name: str
) -> list[dict[str, object]]:
    """Build the JSON of contributors and hashes; `digest_name` is the key of the hash."""
    return [
        {
            "name": contribution.details.name,
            "name_authenticated": False,
            "beacon": contribution.details.beacon is not None,
            digest_name: digest.hex(),
        }
        for contribution, digest in contributions
    ]


def contributing_commands(
    steps: Callable[[], tuple[Callable[..., Any], Callable[..., Any]]],
    show_receipt: Callable[[Any, Path, bool], None],
) -> tuple[Callable[..., None], Callable[..., None]]:
    """Return both commands.

    steps: returns the function of each command; called when a command runs.
    show_receipt: prints the result, given the output and whether to be quiet.
    """

    def contribute(
        source: Source,
        out: Target,
        name: Name = "",
        entropy: Entropy = "",
        device: Device = "cpu",
        force: Force = False,
        quiet: Quiet = False,
    ) -> None:
        """Contribute secrets and destroy them; print the hash to publish.

        An interrupted contribution leaves no file. A new run draws new secrets.
        """
        with checked_timeline([source], out, force=force, quiet=quiet) as timeline:
            run = steps()[0]
            receipt = run(
                source, out, name=name, text=entropy, device=device, timeline=timeline,
                replace=force,
            )  # fmt: skip
        show_receipt(receipt, out, quiet)

    def beacon(
        source: Source,
        out: Target,
        value: Value,
        exponent: Exponent,
        name: Name = "",
        device: Device = "cpu",
        force: Force = False,
        quiet: Quiet = False,
    ) -> None:
        """Contribute secrets derived from a public value that nobody could predict."""
        from quod.ceremony.beacon import Beacon

        beacon_value = Beacon.from_hex(value, exponent)
        with checked_timeline([source], out, force=force, quiet=quiet) as timeline:
            run = steps()[1]
            receipt = run(
                source,
                out,
                beacon_value,
                name=name,
                device=device,
                timeline=timeline,
                replace=force,
            )
        show_receipt(receipt, out, quiet)

    return contribute, beacon


@contextmanager
def checked_timeline(
    sources: list[Path], out: Path, *, force: bool, quiet: bool
) -> Iterator[Timeline]:
    """Check that the output can be written, and yield a timeline with a progress display."""
    check_outputs([out], sources, exclusive=[] if force else [out])
    from quod.cli.display.progress import followed_timeline

    with followed_timeline(quiet=quiet) as timeline:
        yield timeline

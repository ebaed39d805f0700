"""Options and arguments that several commands of quod filecoin share."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from quod.cli.parameters import Option, WrongUsage
from quod.wording import alternatives

if TYPE_CHECKING:
    from quod.filecoin.parameters.identifiers import ParameterSet
    from quod.filecoin.sectors import SectorShape
    from quod.filecoin.statement_files import StatementFile

COMMANDS = {
    "porep": "prove",
    "window": "prove-window-post",
    "winning": "prove-winning-post",
    "update": "prove-update",
}
"""The command that proves a kind of proof."""

Output = Annotated[Path, Option("--output", "-o", metavar="PROOF", help="File for the proof.")]
Params = Annotated[
    Path | None,
    Option(
        "--params", metavar="PATH",
        help="Parameter file, or folder with the network's file names. Default: "
        "FIL_PROOFS_PARAMETER_CACHE, or else /var/tmp/filecoin-proof-parameters.",
    ),
]  # fmt: skip


def check_miner(text: str | None) -> None:
    """Raise WrongUsage unless the value of --miner is an actor id or an ID address, or None."""
    if text is None:
        return
    if not (match := _MINER.fullmatch(text)) or int(match[1]) >= 1 << 63:
        raise WrongUsage(
            f"--miner takes the actor id, such as 1000 or f01000, not {text!r}; `lotus state "
            "lookup` prints that of another address"
        )


def miner_number(text: str | None, default: int) -> int:
    """Return the actor id in the value of --miner; `default` for None."""
    if text is None:
        return default
    match = _MINER.fullmatch(text)
    assert match is not None
    return int(match[1])


_MINER = re.compile(r"(?:[ft]0)?([0-9]{1,19})", re.ASCII)

Miner = Annotated[
    str | None,
    Option(
        "--miner", metavar="N", check=check_miner,
        help="Actor id of the miner, such as f01000, to check the replica id.",
    ),
]  # fmt: skip
SectorNumber = Annotated[
    int | None,
    Option("--sector-number", metavar="N", least=0, help="The sector's number, with --miner."),
]


def parameter_sets(kind: str | None, sector: str | None) -> list[ParameterSet]:
    """Return the network's sets of a kind and a sector size, or all of them.

    Raises WrongUsage for other names.
    """
    from quod.filecoin.parameters.digests import NETWORK_SETS

    if kind is not None and kind not in COMMANDS:
        raise WrongUsage(f"unknown kind {kind!r}; use {alternatives(COMMANDS)}")
    shape = None if sector is None else sector_of(sector)
    sets = [
        parameters
        for parameters in NETWORK_SETS
        if kind in (None, parameters.kind.value) and shape in (None, parameters.sector)
    ]
    if not sets:
        sizes = dict.fromkeys(parameters.sector.name for parameters in NETWORK_SETS)
        raise WrongUsage(
            f"the network has no parameters for sectors of {sector}; use {alternatives(sizes)}"
        )
    return sets


def sector_of(name: str) -> SectorShape:
    """Return the sector size of a name such as 32GiB; raises WrongUsage for an unknown size."""
    from quod.errors import InputError
    from quod.filecoin.sectors import sector_named

    try:
        return sector_named(name)
    except InputError as error:
        raise WrongUsage(str(error)) from None


def number_of_sector(file: StatementFile, option: int | None, path: Path | str) -> int:
    """Return the sector's number: that of --sector-number, or else of an output of C1.

    Raises InputError with the path if there is neither.
    """
    from quod.errors import InputError

    number = file.sector_number if option is None else option
    if number is None:
        raise InputError("has no sector number; add --sector-number", path=path)
    return number

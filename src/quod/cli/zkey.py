"""quod zkey: what can be taken out of a proving key."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from quod.cli import groth16
from quod.cli.options import InsecureTestKey, Quiet, check_outputs, typer_command
from quod.cli.terminal import note

app = typer.Typer(help="Proving keys.", no_args_is_help=True)
export = typer.Typer(help="Take a part out of a proving key.", no_args_is_help=True)
app.add_typer(export, name="export")
app.command("new")(typer_command(groth16.setup))


@app.callback()
def _group() -> None:
    """Proving keys."""


@export.callback()
def _export() -> None:
    """Take a part out of a proving key."""


@export.command()
def verificationkey(
    zkey: Annotated[Path, typer.Argument(metavar="ZKEY", help="Proving key.")],
    out: Annotated[Path, typer.Argument(metavar="OUT", help="Where the key goes (JSON).")],
    insecure_test_key: InsecureTestKey = False,
    quiet: Quiet = False,
) -> None:
    """Write the verifying key of a proving key, as snarkjs writes it."""
    check_outputs([out], [zkey])
    from quod.formats import write_atomically
    from quod.groth16 import VerifyingKey

    key = VerifyingKey.from_zkey(zkey, allow_insecure=insecure_test_key)
    write_atomically(out, key.to_json().encode())
    note(f"Wrote {out}.", quiet=quiet)

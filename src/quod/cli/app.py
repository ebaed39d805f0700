"""The tree of commands. Each group lives in a file of its own and loads its work when it runs."""

from __future__ import annotations

from typing import Annotated

import typer

from quod import __version__, bench
from quod.cli import devices, export_web, gkr, inspect, jobs, keys, r1cs, sapling, serve, wtns
from quod.cli.ceremony import powersoftau, zkey
from quod.cli.ceremony import solidity as zkey_solidity
from quod.cli.command_tree import RootGroup
from quod.cli.groth16 import commands as groth16
from quod.cli.groth16 import fullprove
from quod.cli.kernel import commands as kernel
from quod.cli.options import typer_command

app = typer.Typer(
    name="quod",
    cls=RootGroup,
    help="Prove and verify on whatever processor is there.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
_groth16 = typer.Typer(
    help="Groth16 proofs with the keys and witnesses of circom and snarkjs.", no_args_is_help=True
)
for _command in (groth16.prove, groth16.verify, groth16.setup):
    _groth16.command()(typer_command(_command))
_groth16.command("test-key")(typer_command(groth16.make_test_key))
_groth16.command()(fullprove.fullprove)
app.add_typer(_groth16, name="groth16")
_gkr = typer.Typer(
    help="Proofs of layered circuits, Quod's and Expander's. Not zero knowledge.",
    no_args_is_help=True,
)
for _of_gkr in (gkr.info, gkr.compile_key, gkr.prove, gkr.verify):
    _gkr.command(_of_gkr.__name__.removesuffix("_key"))(typer_command(_of_gkr))
_gkr.command("inspect")(inspect.inspect)
app.add_typer(_gkr, name="gkr")
app.add_typer(powersoftau.app, name="powersoftau")
for _of_zkey in (zkey_solidity.solidityverifier, zkey_solidity.soliditycalldata):
    zkey.export.command()(_of_zkey)
app.add_typer(zkey.app, name="zkey")
app.add_typer(r1cs.app, name="r1cs")
app.add_typer(wtns.app, name="wtns")
_sapling = typer.Typer(help="Outputs of Zcash's Sapling: notes to proofs.", no_args_is_help=True)
for _of_sapling in (sapling.prove_output, sapling.verify_output):
    _sapling.command(_of_sapling.__name__.replace("_", "-"))(typer_command(_of_sapling))
_sapling.command("circuit")(typer_command(sapling.write_circuit))
app.add_typer(_sapling, name="sapling")
app.add_typer(keys.app, name="keys")
app.command("serve")(serve.serve)
for _of_jobs in (jobs.submit, jobs.wait, jobs.status, jobs.cancel):
    app.command(_of_jobs.__name__)(_of_jobs)
app.command("export-web")(export_web.export_web)
app.command("inspect")(inspect.inspect)
app.command("devices")(devices.devices)
app.add_typer(kernel.app, name="kernel")
app.add_typer(bench.app, name="bench")


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"quod {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    """Prove and verify on whatever processor is there."""

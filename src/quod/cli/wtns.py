"""quod wtns: witnesses."""

from __future__ import annotations

import os
from pathlib import Path
from time import perf_counter
from typing import Annotated

import typer

from quod.cli.options import Quiet, check_outputs
from quod.cli.terminal import note

app = typer.Typer(help="Witnesses.", no_args_is_help=True)


@app.callback()
def _group() -> None:
    """Witnesses."""


@app.command()
def calculate(
    wasm: Annotated[
        Path, typer.Argument(metavar="WASM", help="Witness calculator of circom.", readable=False)
    ],
    inputs: Annotated[
        Path, typer.Argument(metavar="INPUT", help="Inputs of the circuit (JSON).", readable=False)
    ],
    out: Annotated[Path, typer.Argument(metavar="WTNS", help="Where the witness goes.")],
    seconds: Annotated[
        float, typer.Option(metavar="S", help="The most that the calculator may run.")
    ] = 3600.0,
    memory: Annotated[
        int, typer.Option(metavar="MIB", min=1, max=4096, help="The most that it may hold.")
    ] = 4096,
    quiet: Quiet = False,
) -> None:
    """Compute the witness of a circuit from its inputs, as `snarkjs wtns calculate` does.

    The calculator runs in a sandbox: it sees no file, no clock and no network.
    """
    check_outputs([out], [wasm, inputs])
    from quod.formats import Witness, write_atomically
    from quod.formats.iden3 import Iden3File
    from quod.formats.strict_json import CIRCUIT_INPUT, read_json
    from quod.formats.wtns import KIND, VERSION
    from quod.witness import WitnessCalculator, WitnessLimits

    begin = perf_counter()
    limits = WitnessLimits(seconds=seconds, memory_bytes=memory << 20)
    given = read_json(inputs, CIRCUIT_INPUT)
    calculator = WitnessCalculator.open(wasm, limits=limits)
    found = calculator.calculate(given, where=os.fspath(inputs))
    # What no prover would take is not written.
    Witness.of(Iden3File.parse(memoryview(found), os.fspath(wasm), KIND, VERSION))
    write_atomically(out, found)
    note(
        f"Computed {calculator.variables:,} values in {perf_counter() - begin:.2f} s: {out}",
        quiet=quiet,
    )

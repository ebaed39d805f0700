"""quod wtns: witnesses."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated

from quod.cli.display.terminal import note, show, show_json, show_valid
from quod.cli.outputs import check_outputs
from quod.cli.parameters import Argument, AsJson, Device, Option, Quiet
from quod.wording import counted

if TYPE_CHECKING:
    from quod.witness import WitnessLimits


SecondsLimit = Annotated[float, Option(metavar="S", help="Time limit of the calculator.")]
MemoryLimit = Annotated[
    int, Option(metavar="MIB", least=1, most=4096, help="Memory limit of the calculator.")
]


def limits_of(seconds: float, memory: int) -> WitnessLimits:
    """Build the limits of a calculator; `memory` is in MiB."""
    from quod.witness import WitnessLimits

    return WitnessLimits(seconds=seconds, memory_bytes=memory << 20)


def calculate(
    wasm: Annotated[Path, Argument("WASM", "Witness calculator of circom.", check_readable=False)],
    inputs: Annotated[
        Path, Argument("INPUT", "Inputs of the circuit (JSON).", check_readable=False)
    ],
    out: Annotated[Path, Argument("WTNS", "File for the witness.")],
    seconds: SecondsLimit = 3600.0,
    memory: MemoryLimit = 4096,
    quiet: Quiet = False,
) -> None:
    """Compute the witness of a circuit from its inputs, as `snarkjs wtns calculate` does.

    The calculator runs in a sandbox: it sees no file, no clock and no network.
    """
    check_outputs([out], [wasm, inputs])
    from quod.formats import write_atomically
    from quod.formats.strict_json import CIRCUIT_INPUT, read_json
    from quod.witness import WitnessCalculator

    begin = perf_counter()
    limits = limits_of(seconds, memory)
    circuit_inputs = read_json(inputs, CIRCUIT_INPUT)
    calculator = WitnessCalculator.open(wasm, limits=limits)
    wtns = calculator.calculate(circuit_inputs, where=os.fspath(inputs))
    # A witness that no prover would accept is not written.
    calculator.parse(wtns)
    write_atomically(out, wtns, private=True)
    note(
        f"Computed {counted(calculator.variables, 'value')} in "
        f"{perf_counter() - begin:.2f} s: {out}",
        quiet=quiet,
    )


def check(
    r1cs: Annotated[Path, Argument("R1CS", "Constraint system.")],
    witness: Annotated[Path, Argument("WTNS", "Witness.")],
    symbols: Annotated[
        Path | None, Argument("[SYM]", "Names of signals, from circom's --sym.")
    ] = None,
    most: Annotated[
        int, Option(metavar="N", least=0, help="Number of failed constraints to print; 0 for all.")
    ] = 20,
    as_json: AsJson = False,
    device: Device = "cpu",
    quiet: Quiet = False,
) -> None:
    """Print the constraints that a witness fails. The exit code is 0 if there are none, else 6.

    Each constraint is printed with the values of its signals, which may be secret, and with their
    names if SYM is given.
    """
    from quod.errors import VerificationError
    from quod.witness import check_witness

    result = check_witness(r1cs, witness, symbols=symbols, device=device)
    failures = [] if quiet and not as_json else result.failures(most or None)
    rows = []
    for failure in failures:
        if as_json:
            rows.append(failure.to_json())
        else:
            show(str(failure))
    if as_json:
        show_json(
            {"constraints": result.r1cs.constraints, "failed": len(result.failed), "first": rows}
        )
    constraints = counted(result.r1cs.constraints, "constraint")
    if not result.satisfied:
        count = len(result.failed)
        raise VerificationError(
            f"{witness}: fails {count:,} of {constraints} of {r1cs}, "
            f"{'the first of them' if count > 1 else 'namely'} constraint {result.failed[0]}"
        )
    if not as_json:
        all_text = "" if result.r1cs.constraints == 1 else "all "
        what = f"the witness satisfies {all_text}{constraints}"
        show_valid(quiet=quiet, what=what)


def json(
    witness: Annotated[Path, Argument("WTNS", "Witness.")],
    out: Annotated[Path, Argument("OUT", "File for the values (JSON).")],
    quiet: Quiet = False,
) -> None:
    """Write the values of a witness as JSON, as `snarkjs wtns export json` does."""
    check_outputs([out], [witness])
    from quod.formats import Witness, write_atomically
    from quod.formats.r1cs_text import witness_to_json

    write_atomically(out, partial(witness_to_json, Witness.open(witness)), private=True)
    note(f"Wrote {out}.", quiet=quiet)

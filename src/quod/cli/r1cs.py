"""quod r1cs: constraint systems."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

from quod.cli.display.terminal import note, show, show_json
from quod.cli.inspect import show_description
from quod.cli.outputs import check_outputs
from quod.cli.parameters import Argument, AsJson, Quiet

_R1cs = Annotated[Path, Argument("R1CS", "Constraint system.")]
_CHUNK_CONSTRAINTS = 4096


def info(r1cs: _R1cs, as_json: AsJson = False) -> None:
    """Describe a constraint system: curve, constraints, wires, inputs."""
    from quod.formats import R1cs, describe

    description = describe(R1cs.open(r1cs).path)
    if as_json:
        show_json(description)
    else:
        show_description(description)


def print_constraints(
    r1cs: _R1cs,
    symbols: Annotated[
        Path | None, Argument("[SYM]", "Names of signals, from circom's --sym.")
    ] = None,
) -> None:
    """Print the constraints, one a line, with the names of signals."""
    from quod.formats import R1cs
    from quod.formats.r1cs_text import constraint, constraint_text
    from quod.formats.sym import wire_names

    system = R1cs.open(r1cs)
    names = {} if symbols is None else wire_names(symbols, system)
    for start in range(0, system.constraints, _CHUNK_CONSTRAINTS):
        numbers = range(start, min(start + _CHUNK_CONSTRAINTS, system.constraints))
        texts = (constraint_text(system, constraint(system, number), names) for number in numbers)
        show("".join(f"{number}: {text}\n" for number, text in zip(numbers, texts, strict=True)))


def json(
    r1cs: _R1cs,
    out: Annotated[Path, Argument("OUT", "File for the constraint system (JSON).")],
    quiet: Quiet = False,
) -> None:
    """Write a constraint system as JSON, as `snarkjs r1cs export json` does."""
    check_outputs([out], [r1cs])
    from quod.formats import R1cs, write_atomically
    from quod.formats.r1cs_text import r1cs_to_json

    write_atomically(out, partial(r1cs_to_json, R1cs.open(r1cs)))
    note(f"Wrote {out}.", quiet=quiet)

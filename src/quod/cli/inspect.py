"""quod inspect: what a file is."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from quod.cli.options import AsJson
from quod.cli.terminal import show, show_json

_LONGEST_LINE = 76


def inspect(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Any file Quod can read.")],
    as_json: AsJson = False,
) -> None:
    """Say what a file is: its kind, curve, constraints, domain, public inputs and sizes.

    Reads zkey, wtns, r1cs and ptau files and snarkjs's proofs, public inputs and verifying keys,
    and checks them as the other commands would.
    """
    from quod.formats import describe

    found = describe(file)
    found |= _weakness(file, str(found["kind"]))
    if as_json:
        show_json(found)
        return
    width = max(map(len, found)) + 2
    for key, value in found.items():
        label = key.replace("_", " ").ljust(width)
        if isinstance(value, dict):
            show(f"{label.rstrip()} (bytes)" if key == "sections" else label.rstrip())
            inner = max((len(str(name)) for name in value), default=0) + 2
            for name, part in value.items():
                show(f"  {str(name).ljust(inner)}{_shown(part)}")
        else:
            show(label + _shown(value))


def _weakness(file: Path, kind: str) -> dict[str, object]:
    """Whether anyone can forge proofs for a key of Groth16, as far as it shows that."""
    from quod.formats import Zkey, read_verification_key
    from quod.groth16.soundness import weakness_of

    if kind.startswith("groth16 proving key"):
        found = weakness_of(Zkey.open(file))
    elif kind.startswith("verifying key"):
        found = weakness_of(read_verification_key(file))
    else:
        return {}
    return {"insecure": False if found is None else found.reason}


def _shown(value: object) -> str:
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int) and abs(value) < 1 << 64:
        return f"{value:,}"
    if isinstance(value, list | tuple):
        return ", ".join(map(_shown, value))
    text = str(value)
    return text if len(text) <= _LONGEST_LINE else f"{text[:32]}…{text[-32:]}"

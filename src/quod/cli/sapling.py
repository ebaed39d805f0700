"""quod sapling: Zcash's Sapling Outputs, proven and verified with the ceremony's parameters.

As in `quod.cli.groth16`, `quick` calls these functions without typer.
"""

from __future__ import annotations

import os
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated

from quod.cli.outputs import check_outputs
from quod.cli.parameters import Argument, Device, InsecureTestKey, Option, Quiet
from quod.cli.terminal import note as say
from quod.cli.terminal import show_valid, warn

if TYPE_CHECKING:
    from quod.formats.output import Content
    from quod.groth16 import VerifyingKey

_PARAMETERS = Argument("PARAMS", "The ceremony's sapling-output.params.")


def prove_output(
    parameters: Annotated[Path, _PARAMETERS],
    note: Annotated[Path, Argument("NOTE", "Address, value, rseed (JSON).")],
    output: Annotated[Path, Argument("OUTPUT", "Where the Output goes (JSON).")],
    secrets: Annotated[
        Path | None,
        Option(metavar="FILE", help="Where esk and rcv go that NOTE does not say (JSON)."),
    ] = None,
    device: Device = "cpu",
    quiet: Quiet = False,
) -> None:
    """Prove the Output of a note: cv, cmu, epk, and the proof, which is verified.

    rcv, and esk for a note without rseed, come from the system unless NOTE says them; whoever
    spends needs them, so that they must go somewhere.
    """
    check_outputs([output, *([] if secrets is None else [secrets])], [parameters, note])
    from quod.errors import InputError
    from quod.formats import write_all_atomically
    from quod.sapling.files import output_to_json, read_note, secrets_to_json
    from quod.sapling.output import OutputProver
    from quod.sapling.scalars import random_scalar

    begin = perf_counter()
    found, *given = read_note(note)
    if secrets is None and None in given:
        raise InputError(
            "leaves esk or rcv to the system; say with --secrets where they go", path=str(note)
        )
    esk, rcv = (random_scalar() if one is None else one for one in given)
    prover = OutputProver(parameters, device)
    try:
        made = prover.prove(found, esk=esk, rcv=rcv)
    finally:
        prover.close()
    files: dict[str | os.PathLike[str], Content] = {output: output_to_json(made).encode()}
    if secrets is not None:
        files[secrets] = secrets_to_json({"esk": esk, "rcv": rcv}).encode()
    write_all_atomically(files, private=[] if secrets is None else [secrets])
    say(f"Proved in {perf_counter() - begin:.2f} s on {device} (checked): {output}", quiet=quiet)


def verify_output(
    parameters: Annotated[Path, _PARAMETERS],
    output: Annotated[Path, Argument("OUTPUT", "cv, cmu, epk, proof (JSON).")],
    batch: Annotated[bool, Option("--batch", help="OUTPUT is a list, verified together.")] = False,
    device: Device = "cpu",
    insecure_test_key: InsecureTestKey = False,
    quiet: Quiet = False,
) -> None:
    """Verify an Output as consensus does. The exit code is 0 only if it is valid, and 6 if not.

    cv and epk must be encoded as the protocol says and not be of small order, cmu be canonical.
    """
    from quod.errors import VerificationError
    from quod.groth16.bellman import read_verifying_key
    from quod.sapling.files import read_output
    from quod.sapling.output import verify_output as is_valid

    key = read_verifying_key(parameters, device=device, allow_insecure=insecure_test_key)
    if batch:
        _verify_list(key, output, quiet=quiet)
        return
    if not is_valid(key, read_output(output)):
        raise VerificationError(f"{output}: not valid for this key; do not accept it")
    show_valid(quiet=quiet)


def _verify_list(key: VerifyingKey, path: Path, *, quiet: bool) -> None:
    from quod.errors import InputError, VerificationError
    from quod.sapling.files import read_outputs
    from quod.sapling.output import verify_outputs

    found = read_outputs(path)
    good = [(place, one) for place, one in enumerate(found) if not isinstance(one, InputError)]
    verdicts = verify_outputs(key, [one for _, one in good])
    errors = {place: one for place, one in enumerate(found) if isinstance(one, InputError)}
    bad = set(errors)
    for (place, _), verdict in zip(good, verdicts, strict=True):
        if not verdict:
            bad.add(place)
            if verdict.error is not None:
                errors[place] = verdict.error
    for place in sorted(errors):
        warn(f"Output {place} is malformed: {errors[place]}")
    if bad:
        named = ", ".join(map(str, sorted(bad)))
        raise VerificationError(
            f"{path}: {len(bad)} of {len(found)} Outputs are not valid (counted from 0: {named}); "
            "do not accept them"
        )
    show_valid(quiet=quiet, what=f"all {len(found)} Outputs are valid")

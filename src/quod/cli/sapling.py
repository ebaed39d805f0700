"""quod sapling: Zcash's Sapling Outputs, proven and verified with the ceremony's parameters.

The fast path `quod.cli.quick` calls these functions without typer.
"""

from __future__ import annotations

import os
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated

from quod.cli.display.terminal import note as say
from quod.cli.display.terminal import show_valid, warn
from quod.cli.one_shot import quick_kernels
from quod.cli.outputs import check_outputs
from quod.cli.parameters import Argument, Device, Force, InsecureTestKey, Option, Quiet, WrongUsage
from quod.wording import alternatives, counted

if TYPE_CHECKING:
    from quod.formats.output import Content
    from quod.groth16 import VerifyingKey
    from quod.r1cs.inputs import Inputs

_PARAMETERS = Argument("PARAMS", "Parameters of the ceremony, sapling-output.params.")


def prove_output(
    parameters: Annotated[Path, _PARAMETERS],
    note: Annotated[Path, Argument("NOTE", "Address, value, rseed (JSON).")],
    output: Annotated[Path, Argument("OUTPUT", "File for the Output (JSON).")],
    secrets: Annotated[
        Path | None,
        Option(metavar="FILE", help="New file for generated secrets that NOTE lacks (JSON)."),
    ] = None,
    device: Device = "cpu",
    force: Force = False,
    quiet: Quiet = False,
) -> None:
    """Prove the Output of a note, verify the proof, and write cv, cmu, epk and proof.

    The command draws rcv, and esk for a note without rseed, unless NOTE contains them. Spending
    the note needs them, so --secrets must name a file for them.
    """
    secret_files = [] if secrets is None else [secrets]
    exclusive = [] if force else secret_files
    check_outputs([output, *secret_files], [parameters, note], exclusive=exclusive)
    from quod.errors import InputError
    from quod.formats import write_all_atomically
    from quod.zcash.files import output_to_json, read_note, secrets_to_json
    from quod.zcash.output import OutputProver
    from quod.zcash.scalars import random_scalar

    begin = perf_counter()
    plain_note, *scalars = read_note(note)
    if secrets is None and None in scalars:
        raise InputError(
            "has no esk or rcv, which the command would generate; name a file for them "
            "with --secrets",
            path=str(note),
        )
    esk, rcv = (random_scalar() if scalar is None else scalar for scalar in scalars)
    with quick_kernels(parameters):
        prover = OutputProver(parameters, device)
        try:
            proved_output = prover.prove(plain_note, esk=esk, rcv=rcv)
        finally:
            prover.close()
    files: dict[str | os.PathLike[str], Content] = {output: output_to_json(proved_output).encode()}
    if secrets is not None:
        files[secrets] = secrets_to_json({"esk": esk, "rcv": rcv}).encode()
    write_all_atomically(files, private=secret_files, exclusive=exclusive)
    say(f"Proved in {perf_counter() - begin:.2f} s on {device} (checked): {output}", quiet=quiet)


def verify_output(
    parameters: Annotated[Path, _PARAMETERS],
    output: Annotated[Path, Argument("OUTPUT", "cv, cmu, epk, proof (JSON).")],
    batch: Annotated[bool, Option("--batch", help="Batch-verify a list of Outputs.")] = False,
    device: Device = "cpu",
    insecure_test_key: InsecureTestKey = False,
    quiet: Quiet = False,
) -> None:
    """Verify an Output as consensus does. The exit code is 0 only if it is valid, and 6 if not.

    cv and epk must be encoded as the protocol says and not be of small order, cmu be canonical.
    """
    from quod.errors import VerificationError
    from quod.groth16.encodings.bellman import read_verifying_key
    from quod.zcash.files import read_output
    from quod.zcash.output import verify_output as is_valid

    if batch:
        key = read_verifying_key(parameters, device=device, allow_insecure=insecure_test_key)
        _verify_list(key, output, quiet=quiet)
        return
    with quick_kernels(parameters):
        key = read_verifying_key(parameters, device=device, allow_insecure=insecure_test_key)
        output_is_valid = is_valid(key, read_output(output))
    if not output_is_valid:
        raise VerificationError(f"{output}: not valid for this key; do not accept it")
    show_valid(quiet=quiet)


CIRCUITS = ("sapling-output", "masp-output", "sapling-spend", "masp-spend", "masp-convert")
_OUTPUT_CIRCUITS = CIRCUITS[:2]


def write_circuit(
    name: Annotated[str, Argument("NAME", f"{alternatives(CIRCUITS)}.")],
    r1cs: Annotated[Path, Argument("R1CS", "File for the constraints.")],
    note: Annotated[
        Path | None,
        Option("--note", metavar="FILE", help="Note with rcv and esk, or rseed (JSON)."),
    ] = None,
    witness: Annotated[
        Path | None, Option("--witness", metavar="FILE", help="File for the note's witness.")
    ] = None,
    asset: Annotated[
        str | None, Option("--asset", metavar="NAME", help="Name of the asset, for masp-output.")
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Write the constraints of a circuit and the witness of a note in circom's formats.

    With `quod groth16 test-key` they make a key. Witnesses are those of the circuits for Outputs;
    they hold the secrets.
    """
    if name not in CIRCUITS:
        raise WrongUsage(f"unknown circuit {name!r}; use {alternatives(CIRCUITS)}")
    if (note is None) != (witness is None):
        raise WrongUsage("--note and --witness require each other; give both or neither")
    if note is not None and name not in _OUTPUT_CIRCUITS:
        raise WrongUsage(f"--note requires {alternatives(_OUTPUT_CIRCUITS)}, not {name}")
    if (asset is None) != (name != "masp-output" or note is None):
        raise WrongUsage("--asset is required for a note of masp-output, and only there")
    check_outputs([r1cs, *([] if witness is None else [witness])], [] if note is None else [note])
    from quod.zcash import named_circuits

    circuit = named_circuits.CIRCUITS[name]()
    inputs = None if note is None else _inputs(note, asset)
    circuit_witness = None if inputs is None else circuit.witness(inputs)
    circuit.write_r1cs(r1cs)
    if witness is not None and circuit_witness is not None:
        from quod.formats.wtns import write_wtns

        write_wtns(witness, circuit.curve, circuit_witness.values)
    constraints, wires = counted(circuit.constraints, "constraint"), counted(circuit.wires, "wire")
    say(f"{constraints}, {wires}: {r1cs}", quiet=quiet)


def _inputs(path: Path, asset: str | None) -> Inputs:
    """Read a note as inputs of the Sapling circuit, or with an asset of the MASP circuit."""
    from quod.errors import InputError
    from quod.zcash.files import read_note
    from quod.zcash.masp import asset_identifier, masp_output_inputs
    from quod.zcash.output import output_inputs

    note, esk, rcv = read_note(path, None if asset is None else asset_identifier(asset.encode()))
    if esk is None or rcv is None:
        raise InputError("lacks rcv, or both rseed and esk; add them", path=str(path))
    return (output_inputs if asset is None else masp_output_inputs)(note, esk, rcv)


def _verify_list(key: VerifyingKey, path: Path, *, quiet: bool) -> None:
    from quod.errors import InputError, VerificationError
    from quod.zcash.files import read_outputs
    from quod.zcash.output import verify_outputs

    outputs = read_outputs(path)
    well_formed = [
        (index, output_or_error)
        for index, output_or_error in enumerate(outputs)
        if not isinstance(output_or_error, InputError)
    ]
    verdicts = verify_outputs(key, [output_or_error for _, output_or_error in well_formed])
    errors = {
        index: output_or_error
        for index, output_or_error in enumerate(outputs)
        if isinstance(output_or_error, InputError)
    }
    invalid = set(errors)
    for (index, _), verdict in zip(well_formed, verdicts, strict=True):
        if not verdict:
            invalid.add(index)
            if verdict.error is not None:
                errors[index] = verdict.error
    for index in sorted(errors):
        warn(f"Output {index} is malformed: {errors[index]}")
    if invalid:
        indices_text = ", ".join(map(str, sorted(invalid)))
        raise VerificationError(
            f"{path}: {len(invalid)} of {len(outputs)} Outputs are not valid "
            f"(counted from 0: {indices_text}); do not accept them"
        )
    show_valid(quiet=quiet, what=f"all {len(outputs)} Outputs are valid")

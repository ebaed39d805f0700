"""quod zcash: proofs of Sapling's and MASP's Spends, Outputs and Converts.

The fast path `quod.cli.quick` calls these functions without typer.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import ExitStack, nullcontext
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated

from quod.cli.display.terminal import note as say
from quod.cli.display.terminal import show_timings, show_valid, warn
from quod.cli.one_shot import quick_kernels
from quod.cli.outputs import check_outputs
from quod.cli.parameters import (
    Argument,
    Device,
    Force,
    InsecureTestKey,
    Option,
    Quiet,
    Timings,
    WrongUsage,
)
from quod.wording import alternatives, counted

if TYPE_CHECKING:
    from quod.formats.output import Content
    from quod.zcash.files.infos import InfoFile
    from quod.zcash.proofs.kinds import Statement
    from quod.zcash.proofs.verification import VerifyingKeys

    InfoReader = Callable[[Path], InfoFile]

Parameters = Annotated[
    Path, Argument("PARAMS", "The ceremony's parameters, such as sapling-spend.params.")
]
Output = Annotated[Path, Argument("OUTPUT", "File for the description (JSON).")]
Secrets = Annotated[
    Path | None,
    Option(metavar="FILE", help="New file for generated secrets that the input lacks (JSON)."),
]

SpendParameters = Annotated[
    Path | None, Option("--spend", metavar="PARAMS", help="Parameters of Spends.")
]
OutputParameters = Annotated[
    Path | None, Option("--output", metavar="PARAMS", help="Parameters of Outputs.")
]
ConvertParameters = Annotated[
    Path | None, Option("--convert", metavar="PARAMS", help="Parameters of Converts.")
]

# The maximum number of descriptions that a message names.
_MAX_NAMED = 20


def prove_spend(
    parameters: Parameters,
    spend: Annotated[Path, Argument("SPEND", "ak, nsk, note, position, path (JSON).")],
    output: Output,
    secrets: Secrets = None,
    device: Device = "cpu",
    insecure_test_key: InsecureTestKey = False,
    timings: Timings = False,
    force: Force = False,
    quiet: Quiet = False,
) -> None:
    """Prove the Spend of a note; write cv, anchor, nullifier, rk and proof.

    The command draws alpha and rcv unless SPEND contains them. Signatures need them, so --secrets
    must name a file for them. Signing, for which ask is needed, is a separate step.
    """
    _prove(
        "read_spend_info", parameters, spend, output, secrets, device,
        allow_insecure=insecure_test_key, timings=timings, force=force, quiet=quiet,
    )  # fmt: skip


def prove_output(
    parameters: Parameters,
    note: Annotated[Path, Argument("NOTE", "Address, value, rseed (JSON).")],
    output: Output,
    secrets: Secrets = None,
    device: Device = "cpu",
    insecure_test_key: InsecureTestKey = False,
    timings: Timings = False,
    force: Force = False,
    quiet: Quiet = False,
) -> None:
    """Prove the Output of a note; write cv, epk, cmu and proof.

    The command draws rcv, and esk for a note without rseed, unless NOTE contains them. The
    recipient and the binding signature need them, so --secrets must name a file for them.
    """
    _prove(
        "read_output_info", parameters, note, output, secrets, device,
        allow_insecure=insecure_test_key, timings=timings, force=force, quiet=quiet,
    )  # fmt: skip


def prove_convert(
    parameters: Parameters,
    convert: Annotated[Path, Argument("CONVERT", "Weights, value, position, path (JSON).")],
    output: Output,
    secrets: Secrets = None,
    device: Device = "cpu",
    insecure_test_key: InsecureTestKey = False,
    timings: Timings = False,
    force: Force = False,
    quiet: Quiet = False,
) -> None:
    """Prove a Convert of MASP; write cv, anchor and proof.

    The command draws rcv unless CONVERT contains it. The binding signature needs it, so --secrets
    must name a file for it.
    """
    _prove(
        "read_convert_info", parameters, convert, output, secrets, device,
        allow_insecure=insecure_test_key, timings=timings, force=force, quiet=quiet,
    )  # fmt: skip


def _prove(
    reader: str, parameters: Path, source: Path, output: Path, secrets: Path | None, device: str, *,
    allow_insecure: bool, timings: bool, force: bool, quiet: bool,
) -> None:  # fmt: skip
    """Read private information with a function of `quod.zcash.files.infos`, and prove it."""
    secret_files = [] if secrets is None else [secrets]
    exclusive = [] if force else secret_files
    check_outputs([output, *secret_files], [parameters, source], exclusive=exclusive)
    from quod.device.runtime.timeline import Timeline
    from quod.errors import InputError, naming_file
    from quod.formats import write_all_atomically
    from quod.zcash.files import descriptions as description_files
    from quod.zcash.files import infos as files
    from quod.zcash.proofs.prover import Prover

    begin, timeline = perf_counter(), Timeline()
    with timeline.stage("read"):
        file: InfoFile = getattr(files, reader)(source)
    if secrets is None and file.drawn:
        names = " and ".join(file.drawn)
        raise InputError(
            f"has no {names}, which the command would generate; name a file for them with "
            "--secrets",
            path=str(source),
        )
    with quick_kernels(parameters):
        with timeline.stage("open parameters"):
            prover = Prover(
                file.info.kind, parameters, device, timeline, allow_insecure=allow_insecure
            )
        with prover:
            if prover.key.insecure:
                warn(f"{parameters} is a test key: anyone can forge proofs for it")
            with timeline.stage("prove"), naming_file(source):
                description = prover.prove(file.info, timeline=timeline)
    contents: dict[str | os.PathLike[str], Content] = {
        output: description_files.description_to_json(description).encode()
    }
    if secrets is not None:
        contents[secrets] = files.secrets_to_json(file.secrets).encode()
    write_all_atomically(contents, private=secret_files, exclusive=exclusive)
    if timings:
        show_timings(timeline)
    say(f"Proved in {perf_counter() - begin:.2f} s on {device} (checked): {output}", quiet=quiet)


def prove_bundle(
    bundle: Annotated[
        Path, Argument("BUNDLE", "Spends, outputs, converts and valueBalance (JSON).")
    ],
    out: Annotated[
        Path, Option("--out", "-o", metavar="FILE", help="File for the proved bundle (JSON).")
    ],
    spend: SpendParameters = None,
    output: OutputParameters = None,
    convert: ConvertParameters = None,
    secrets: Secrets = None,
    device: Device = "cpu",
    insecure_test_key: InsecureTestKey = False,
    timings: Timings = False,
    force: Force = False,
    quiet: Quiet = False,
) -> None:
    """Prove all Spends, Outputs and Converts of one transaction; write their descriptions.

    If BUNDLE contains the sighash, and ask of each Spend, the command also writes the signatures.
    The command draws the scalars that BUNDLE lacks. Signatures need them, so --secrets must name a
    file for them.
    """
    secret_files = [] if secrets is None else [secrets]
    exclusive = [] if force else secret_files
    parameters = {"spends": spend, "outputs": output, "converts": convert}
    inputs = [bundle, *(path for path in parameters.values() if path is not None)]
    check_outputs([out, *secret_files], inputs, exclusive=exclusive)
    _check_parameters({"spend": spend, "output": output, "convert": convert})
    from quod.device.runtime.timeline import Timeline
    from quod.errors import InputError, naming_file
    from quod.formats import write_all_atomically
    from quod.zcash.bundle import prove_bundle as prove
    from quod.zcash.files.transaction import read_transaction
    from quod.zcash.proofs.prover import Prover

    begin, timeline = perf_counter(), Timeline()
    with timeline.stage("read"):
        file = read_transaction(bundle)
    if secrets is None and file.drawn:
        others = len(file.drawn) - 1
        others_text = f" and {counted(others, 'other scalar')}" if others else ""
        raise InputError(
            f"has no {file.drawn[0]}{others_text}, which the command would generate; name a file "
            "for them with --secrets",
            path=str(bundle),
        )
    with ExitStack() as stack:
        provers: list[Prover] = []
        for name, infos in file.infos.items():
            path = parameters[name]
            if path is None:
                raise WrongUsage(f"--{name[:-1]} must name the parameters of {name}")
            with timeline.stage("open parameters"):
                prover = Prover(
                    infos[0].kind, path, device, timeline, allow_insecure=insecure_test_key
                )
            provers.append(stack.enter_context(prover))
            if prover.key.insecure:
                warn(f"{path} is a test key: anyone can forge proofs for it")
        with timeline.stage("prove"):
            proved = prove(file.content, provers)
    with timeline.stage("sign"), naming_file(bundle):
        signed = file.sign(proved)
    contents: dict[str | os.PathLike[str], Content] = {
        out: file.bundle_to_json(proved, signed).encode()
    }
    if secrets is not None:
        contents[secrets] = file.secrets_to_json().encode()
    write_all_atomically(contents, private=secret_files, exclusive=exclusive)
    if timings:
        show_timings(timeline)
    done = "Proved" if signed is None else "Proved and signed"
    counts = ", ".join(counted(len(infos), name[:-1]) for name, infos in file.infos.items())
    say(
        f"{done} in {perf_counter() - begin:.2f} s on {device} (checked): {counts}: {out}",
        quiet=quiet,
    )


def verify(
    descriptions: Annotated[Path, Argument("DESCRIPTIONS", "One description or several (JSON).")],
    spend: SpendParameters = None,
    output: OutputParameters = None,
    convert: ConvertParameters = None,
    masp: Annotated[
        bool, Option("--masp", help="The parameters are those of MASP, not of Sapling.")
    ] = False,
    device: Device = "cpu",
    insecure_test_key: InsecureTestKey = False,
    quiet: Quiet = False,
) -> None:
    """Verify Spends, Outputs and Converts as one batch. The exit code is 6 if one is not valid.

    Encodings must be canonical and points not of small order. A Spend with sighash and spendAuthSig
    is verified with its signature. A bundle, which has a valueBalance, is verified with its
    signatures and its balance.
    """
    paths = {"spend": spend, "output": output, "convert": convert}
    _check_parameters(paths)
    from quod.errors import InputError, VerificationError, naming_file
    from quod.zcash.bundle.signed import check_signatures
    from quod.zcash.files.descriptions import read_descriptions
    from quod.zcash.proofs.verification import verify_descriptions
    from quod.zcash.protocol import MASP, SAPLING

    file = read_descriptions(descriptions, device)
    entries, signatures = file.descriptions, file.signatures
    if signatures is not None and not signatures.balance.protocol.has_assets and masp:
        raise WrongUsage("--masp needs a valueBalance of assets, which is an object")
    is_masp = masp or (signatures is not None and signatures.balance.protocol.has_assets)
    statements = {
        type(entry.statement) for entry in entries.values() if not isinstance(entry, InputError)
    }
    if len(entries) == 1:
        (entry,) = entries.values()
        if isinstance(entry, InputError):
            raise InputError(entry.message, path=str(descriptions), section=entry.section)
    # Quickly compiled kernels are slow for a batch.
    kernels = quick_kernels(descriptions) if len(entries) == 1 else nullcontext()
    with kernels:
        keys = _read_keys(paths, statements, is_masp, device, allow_insecure=insecure_test_key)
        verdicts = verify_descriptions(keys, list(entries.values()))
    invalid = []
    for name, verdict in zip(entries, verdicts, strict=True):
        if not verdict:
            invalid.append(name)
        if verdict.error is not None:
            warn(f"{name} is malformed: {verdict.error}")
    if invalid:
        if len(entries) == 1:
            raise VerificationError(f"{descriptions}: not valid for this key; do not accept it")
        raise VerificationError(
            f"{descriptions}: {len(invalid)} of {len(entries)} descriptions are not valid "
            f"({_listed(invalid)}); do not accept them"
        )
    if len(entries) == 1:
        valid = "the proof is valid"
    else:
        valid = f"all {len(entries)} proofs are valid"
    with naming_file(descriptions):
        if signatures is not None:
            sound = [entry for entry in entries.values() if not isinstance(entry, InputError)]
            claims = signatures.bundle(sound).signature_claims(signatures.sighash)
            valid += ", all signatures too, and the values balance"
        else:
            claims = file.signature_claims(MASP if is_masp else SAPLING)
            if claims:
                valid += f", {counted(len(claims), 'signature')} too"
        try:
            check_signatures(claims, device)
        except VerificationError as error:
            raise VerificationError(f"{descriptions}: {error}; do not accept it") from None
    if file.unverifiable:
        warn(
            f"not verified: {_listed(file.unverifiable)}; add sighash to the Spend, or verify its "
            "bundle, which has valueBalance, sighash and bindingSig"
        )
    show_valid(quiet=quiet, what=valid)


def _listed(names: list[str]) -> str:
    """List names for a message, at most `_MAX_NAMED`."""
    return ", ".join(names[:_MAX_NAMED]) + (", ..." if len(names) > _MAX_NAMED else "")


def _check_parameters(paths: dict[str, Path | None]) -> None:
    """Refuse an option's file that cannot be read, even if no statement needs its key.

    paths: by the name of the option. Raises InputError with the option.
    """
    from quod.errors import InputError
    from quod.formats.source import opened_file

    for name, path in paths.items():
        if path is not None:
            try:
                with opened_file(path):
                    pass
            except InputError as error:
                raise InputError(f"--{name}: {error}") from None


def _read_keys(
    paths: dict[str, Path | None], statements: set[type[Statement]], is_masp: bool, device: str, *,
    allow_insecure: bool,
) -> VerifyingKeys:  # fmt: skip
    """Read the keys of some statements; raise WrongUsage for a missing option.

    Those of Sapling are by default its ceremony's, which need no file.
    """
    from quod.zcash.proofs.kinds import kind_of
    from quod.zcash.proofs.parameters import read_verifying_key
    from quod.zcash.proofs.sapling_keys import sapling_verifying_key
    from quod.zcash.proofs.verification import VerifyingKeys
    from quod.zcash.protocol import MASP, SAPLING
    from quod.zcash.spend_statement import ConvertStatement, SpendStatement

    protocol, keys = MASP if is_masp else SAPLING, {}
    for statement in statements:
        name = {SpendStatement: "spend", ConvertStatement: "convert"}.get(statement, "output")
        path, kind = paths[name], kind_of(protocol, statement)
        if kind is None:
            raise WrongUsage("Sapling has no Converts; add --masp")
        if path is not None:
            keys[name] = read_verifying_key(kind, path, device, allow_insecure=allow_insecure)
        elif is_masp:
            raise WrongUsage(f"--{name} must name the parameters of {statement.what}")
        else:
            keys[name] = sapling_verifying_key(kind, device)
    return VerifyingKeys(**keys)


CIRCUITS = ("sapling-output", "masp-output", "sapling-spend", "masp-spend", "masp-convert")


def write_circuit(
    name: Annotated[str, Argument("NAME", f"{alternatives(CIRCUITS)}.")],
    r1cs: Annotated[Path, Argument("R1CS", "File for the constraints.")],
    inputs: Annotated[
        Path | None,
        Option("--inputs", metavar="FILE", help="Input of prove-spend, -output or -convert."),
    ] = None,
    witness: Annotated[
        Path | None, Option("--witness", metavar="FILE", help="File for the witness.")
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Write the constraints of a circuit and a witness in circom's formats.

    With `quod groth16 test-key` they make a key. The witness holds the secrets of the inputs, which
    must contain all of them.
    """
    if name not in CIRCUITS:
        raise WrongUsage(f"unknown circuit {name!r}; use {alternatives(CIRCUITS)}")
    if (inputs is None) != (witness is None):
        raise WrongUsage("--inputs and --witness require each other; give both or neither")
    check_outputs(
        [r1cs, *([] if witness is None else [witness])], [] if inputs is None else [inputs]
    )
    from quod.zcash.proofs.kinds import KINDS

    circuit = KINDS[name].circuit()
    file = None if inputs is None else _info_of(name, inputs)
    circuit.write_files(r1cs, wtns=witness, inputs=None if file is None else file.info.inputs)
    constraints, wires = counted(circuit.constraints, "constraint"), counted(circuit.wires, "wire")
    say(f"{constraints}, {wires}: {r1cs}", quiet=quiet)


def _info_of(name: str, path: Path) -> InfoFile:
    """Read the private information of a kind of proof, which must be complete."""
    from quod.errors import InputError, MismatchError
    from quod.zcash.files import infos as files

    reader: InfoReader = getattr(files, f"read_{name.partition('-')[2]}_info")
    file = reader(path)
    if file.info.kind.name != name:
        raise MismatchError(f"is one of {file.info.kind.name}, not of {name}", path=str(path))
    if file.drawn:
        raise InputError(f"lacks {' and '.join(file.drawn)}; add them", path=str(path))
    return file

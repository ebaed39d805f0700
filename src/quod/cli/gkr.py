"""quod gkr: proofs of layered circuits."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated

from quod.cli.display.terminal import note, show, show_json, show_timings, show_valid, warn
from quod.cli.outputs import check_outputs
from quod.cli.parameters import (
    Argument,
    AsJson,
    Device,
    Option,
    Quiet,
    SelfCheck,
    Timings,
    Trace,
    WrongUsage,
)
from quod.errors import InputError, MismatchError, VerificationError, naming_file
from quod.wording import counted

if TYPE_CHECKING:
    from quod.commitment import Scheme
    from quod.field.spec import FieldSpec
    from quod.formats.output import Content
    from quod.gkr.key import VerifyingKey
    from quod.layered import LayeredCircuit

NOT_ZERO_KNOWLEDGE = (
    "proofs of layered circuits are not zero knowledge: their openings contain inputs, "
    "and their messages reveal information about all values"
)

CIRCUIT = Option("--circuit", metavar="FILE", help="Circuit of Quod (qcir) or Expander (CIRCUIT6).")
KEY = Option("--key", metavar="FILE", help="Verifying key (JSON), from `quod gkr compile`.")
FIELD = Option("--field", metavar="NAME", help="Field of challenges, such as m31.4.")
COMMITMENT = Option(
    "--commitment", metavar="NAME", help="Commitment to the inputs: raw, ligero, hyrax, hyperkzg."
)
PTAU = Option("--ptau", metavar="FILE", help="Powers of tau, for hyperkzg.")
INSECURE_SRS = Option(
    "--insecure-srs", help="Accept powers of tau without a contribution. Only for tests."
)
_HASH = Option("--hash", metavar="NAME", help="Hash that makes challenges: sha3-256 or sha-256.")
_COLUMNS = Option(
    "--columns", help="Use the data-parallel reduction: long proofs, fast for many instances."
)
RECURSIVE = Option("--recursive", help="Make challenges with Poseidon2, for recursive verifiers.")
ALLOW_BITS = Option(
    "--allow-bits", metavar="N", least=0, help="Accept proofs of N bits, fewer than 100."
)
ALGEBRAIC = (
    "its challenges come from Poseidon2, which is cheap in circuits, so the sequential "
    "hash delay is a weaker defence against circuits that predict challenges; do not "
    "accept circuits from others"
)
_CIRCUIT_ARGUMENT = Argument("CIRCUIT", "Circuit of Quod (qcir) or Expander (CIRCUIT6).")


def info(
    circuit: Annotated[Path, _CIRCUIT_ARGUMENT],
    field: Annotated[str | None, FIELD] = None,
    commitment: Annotated[str, COMMITMENT] = "raw",
    ptau: Annotated[Path | None, PTAU] = None,
    insecure_srs: Annotated[bool, INSECURE_SRS] = False,
    instances: Annotated[
        int, Option(metavar="N", least=1, help="Number of instances in a proof.")
    ] = 1,
    columns: Annotated[bool, _COLUMNS] = False,
    recursive: Annotated[bool, RECURSIVE] = False,
    layers: Annotated[bool, Option("--layers", help="Print a row for each layer.")] = False,
    as_json: AsJson = False,
) -> None:
    """Describe a layered circuit and the soundness of its proofs: error terms and bits."""
    from quod.cli.inspect import show_description
    from quod.gkr.files.describe import circuit_summary, layer_rows, soundness_summary, value_bytes

    layered, challenges, scheme = _circuit_and_scheme(
        circuit, field, commitment, ptau, insecure=insecure_srs, recursive=recursive
    )
    from quod.gkr.key import VerifyingKey
    from quod.gkr.reduction import Reduction
    from quod.security import MIN_BITS

    summary = circuit_summary(layered)
    reduction = Reduction.DATA_PARALLEL if columns else Reduction.TWO_PHASE
    key = VerifyingKey.of(
        layered, challenges, commitment=scheme, allow_bits=0, recursive=recursive,
        reduction=reduction,
    )  # fmt: skip
    summary |= soundness_summary(layered, challenges, scheme, instances, key.hash, reduction)
    summary["least_bits"] = MIN_BITS
    summary["chain"] = key.chain
    summary["bytes_of_values"] = value_bytes(layered, challenges, instances)
    rows = layer_rows(layered) if layers else []
    if as_json:
        show_json(summary | ({"each_layer": rows} if layers else {}))
        return
    show_description(summary)
    if layers:
        from quod.cli.display.terminal import show_table

        header = ("layer", *rows[0])
        table = [[f"{index}", *(f"{n:,}" for n in row.values())] for index, row in enumerate(rows)]
        show_table(header, table, right=header)
    show(f"Note: {NOT_ZERO_KNOWLEDGE}.")
    if key.recursive:
        show(f"Note: a key of this circuit: {ALGEBRAIC}.")


def compile_key(
    circuit: Annotated[Path, _CIRCUIT_ARGUMENT],
    output: Annotated[
        Path, Option("--output", "-o", metavar="FILE", help="File for the verifying key (JSON).")
    ],
    field: Annotated[str | None, FIELD] = None,
    commitment: Annotated[str, COMMITMENT] = "raw",
    ptau: Annotated[Path | None, PTAU] = None,
    insecure_srs: Annotated[bool, INSECURE_SRS] = False,
    hash: Annotated[str | None, _HASH] = None,
    recursive: Annotated[bool, RECURSIVE] = False,
    columns: Annotated[bool, _COLUMNS] = False,
    allow_bits: Annotated[int | None, ALLOW_BITS] = None,
    circuit_output: Annotated[
        Path | None, Option(metavar="FILE", help="File for the circuit in Quod's format.")
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Make the verifying key of a circuit, which fixes everything a proof may not choose.

    The verifier must trust the circuit's source: the key binds proofs to this circuit.
    """
    outputs = [output] if circuit_output is None else [output, circuit_output]
    check_outputs(outputs, [circuit])
    layered, challenges, scheme = _circuit_and_scheme(
        circuit, field, commitment, ptau, insecure=insecure_srs, recursive=recursive
    )
    from quod.formats import write_all_atomically
    from quod.gkr.files.key import verifying_key_to_json
    from quod.gkr.key import VerifyingKey
    from quod.gkr.reduction import Reduction
    from quod.hash.table import hash_named
    from quod.layered.file import circuit_writer
    from quod.security import MIN_BITS

    hash_choice = None if hash is None else hash_named(hash)
    reduction = Reduction.DATA_PARALLEL if columns else Reduction.TWO_PHASE
    min_bits = MIN_BITS if allow_bits is None else allow_bits
    with _with_option_names():
        key = VerifyingKey.of(
            layered, challenges, commitment=scheme, allow_bits=min_bits, hash=hash_choice,
            recursive=recursive, reduction=reduction,
        )  # fmt: skip
    if min_bits < MIN_BITS:
        warn(f"{output}: proofs for this key may have as few as {min_bits} bits")
    if key.recursive:
        warn(f"{output}: {ALGEBRAIC}")
    contents: dict[str | os.PathLike[str], Content] = {output: verifying_key_to_json(key, layered)}
    if circuit_output is not None:
        contents[circuit_output] = circuit_writer(layered)
    write_all_atomically(contents)
    note(f"Wrote {', '.join(map(str, outputs))}.", quiet=quiet)


def prove(
    circuit: Annotated[Path, CIRCUIT],
    key: Annotated[Path, KEY],
    inputs: Annotated[
        Path, Option("--inputs", metavar="FILE", help="Inputs (JSON) or a witness of Expander.")
    ],
    output: Annotated[Path, Option("--output", "-o", metavar="FILE", help="File for the proof.")],
    public: Annotated[
        Path | None, Option(metavar="FILE", help="File for the public inputs (JSON).")
    ] = None,
    instances: Annotated[
        int | None, Option(metavar="N", least=1, help="Prove the first N instances of the inputs.")
    ] = None,
    ptau: Annotated[Path | None, PTAU] = None,
    insecure_srs: Annotated[bool, INSECURE_SRS] = False,
    allow_bits: Annotated[int | None, ALLOW_BITS] = None,
    device: Device = "cpu",
    self_check: SelfCheck = True,
    timings: Timings = False,
    trace: Trace = None,
    quiet: Quiet = False,
) -> None:
    """Prove that inputs satisfy a circuit. The proof is NOT zero knowledge."""
    outputs = [path for path in (output, public, trace) if path is not None]
    check_outputs(outputs, [circuit, key, inputs])
    from quod.cli.display.progress import followed_timeline
    from quod.commitment.scheme_names import scheme_with_powers
    from quod.formats import write_all_atomically
    from quod.frozen import replace
    from quod.gkr import Prover, read_inputs, read_verifying_key
    from quod.gkr.files.inputs import public_inputs_to_json
    from quod.gkr.files.proof import proof_writer
    from quod.gkr.security import log_instances
    from quod.layered import read_circuit
    from quod.security import MIN_BITS

    min_bits = MIN_BITS if allow_bits is None else allow_bits
    begin = perf_counter()
    with followed_timeline(quiet=quiet) as timeline:
        with timeline.stage("read circuit"):
            layered = read_circuit(circuit)
            verifying_key = read_verifying_key(key, layered, insecure=insecure_srs)
        _check_ptau(verifying_key.commitment.name, ptau)
        with timeline.stage("read inputs"):
            batch = read_inputs(inputs, layered)
            if instances is not None:
                batch = batch.first(instances)
        with timeline.stage("prepare"):
            if ptau is not None:
                size = layered.log_inputs + log_instances(len(batch))
                scheme = scheme_with_powers(
                    ptau, size, device=device, insecure=insecure_srs, like=verifying_key.commitment
                )
                verifying_key = replace(verifying_key, commitment=scheme)
            with _with_option_names():
                prover = Prover(
                    device, verifying_key, layered, instances=len(batch), allow_bits=min_bits
                )
            table = batch.for_prover(prover.device)
        with timeline.stage("prove"), naming_file(inputs):
            proof = prover.prove(table, batch.public, check=self_check, timeline=timeline)
        with timeline.stage("write"):
            contents: dict[str | os.PathLike[str], Content] = {
                output: proof_writer(verifying_key, len(batch), proof)
            }
            if public is not None:
                contents[public] = public_inputs_to_json(batch.public)
            write_all_atomically(contents)
    if trace is not None:
        write_all_atomically({trace: json.dumps(timeline.to_chrome_trace()).encode()})
    if timings:
        show_timings(timeline, prover.device.throughput_limits())
    checked = "checked" if self_check else "not checked"
    output_names = ", ".join(map(str, contents))
    note(
        f"Proved {counted(len(batch), 'instance')} in {perf_counter() - begin:.2f} s on {device} "
        f"({checked}, {counted(len(proof), 'byte')}): {output_names}",
        quiet=quiet,
    )
    note(f"Note: {NOT_ZERO_KNOWLEDGE}.", quiet=quiet)


# The number of gates (all instances) above which verification in Python takes longer than compiling
# kernels.
_MAX_GATES_IN_PYTHON = 1 << 15


def verify(
    circuit: Annotated[Path, CIRCUIT],
    key: Annotated[Path, KEY],
    proof: Annotated[Path, Option("--proof", metavar="FILE", help="Proof.")],
    public: Annotated[
        Path | None, Option("--public", metavar="FILE", help="Public inputs (JSON).")
    ] = None,
    instances: Annotated[
        int | None,
        Option(
            metavar="N", least=1, help="Number of instances, for circuits without public inputs."
        ),
    ] = None,
    device: Annotated[
        str | None,
        Option(
            metavar="NAME",
            help="Device to verify on. Default: plain Python, or the CPU for large circuits.",
        ),
    ] = None,
    insecure_srs: Annotated[bool, INSECURE_SRS] = False,
    allow_bits: Annotated[int | None, ALLOW_BITS] = None,
    quiet: Quiet = False,
) -> None:
    """Verify a proof. The exit code is 0 only if it is valid, and 6 if it is not."""
    from quod.gkr import Verifier, read_proof, read_public_inputs, read_verifying_key
    from quod.gkr import verify as verify_in_python
    from quod.layered import read_circuit
    from quod.security import MIN_BITS

    min_bits = MIN_BITS if allow_bits is None else allow_bits
    layered = read_circuit(circuit)
    verifying_key = read_verifying_key(key, layered, insecure=insecure_srs)
    if public is not None:
        rows = read_public_inputs(public, layered)
    elif layered.public:
        inputs = counted(layered.public, "public input")
        raise WrongUsage(f"the circuit has {inputs}; pass --public FILE")
    else:
        rows = [[] for _ in range(instances or 1)]
    if instances is not None and instances != len(rows):
        raise MismatchError(
            f"has public inputs for {counted(len(rows), 'instance')}, not for {instances}",
            path=public,
        )
    proof_file = read_proof(proof)
    proof_file.check(verifying_key, len(rows))
    if verifying_key.bits < MIN_BITS:
        warn(f"{key}: the key accepts proofs with as few as {verifying_key.bits} bits")
    if verifying_key.recursive:
        warn(f"{key}: {ALGEBRAIC}")
    try:
        with _with_option_names():
            if device is None and layered.gate_count * len(rows) < _MAX_GATES_IN_PYTHON:
                verify_in_python(
                    verifying_key,
                    layered,
                    rows,
                    proof_file.proof,
                    instances=len(rows),
                    allow_bits=min_bits,
                )
            else:
                checker = Verifier(
                    device or "cpu",
                    verifying_key,
                    layered,
                    instances=len(rows),
                    allow_bits=min_bits,
                )
                checker.verify(rows, proof_file.proof)
    except VerificationError as error:
        raise VerificationError(
            f"{proof}: not valid for these public inputs and this key ({error}); do not accept "
            f"it; {_other_key_text(verifying_key)}"
        ) from None
    except InputError as error:
        if error.path is None:
            raise type(error)(f"{error}; {_other_key_text(verifying_key)}", path=proof) from None
        raise
    show_valid(quiet=quiet)
    note(f"Note: {NOT_ZERO_KNOWLEDGE}.", quiet=quiet)


_OPTION_NAMES = {
    "make the key with allow_bits=": "compile with --allow-bits ",
    "pass allow_bits=": "pass --allow-bits ",
    "pass recursive=True": "compile with --recursive",
    "omit recursive": "omit --recursive",
}


@contextmanager
def _with_option_names() -> Iterator[None]:
    """Replace parameter names in errors by option names."""
    try:
        yield
    except InputError as error:
        text = str(error)
        for parameter, option in _OPTION_NAMES.items():
            text = text.replace(parameter, option)
        if text == str(error):
            raise
        raise InputError(text) from None


def _other_key_text(key: VerifyingKey) -> str:
    """Describe a key for errors: a proof does not identify the key that it was made with."""
    return (
        f"or the proof was made with a different key (this key: {key.field.name}, "
        f"{key.reduction.value}, {key.commitment.name}, {key.hash.value})"
    )


def _check_ptau(commitment: str, ptau: Path | None) -> None:
    from quod.commitment.scheme_names import WITH_POWERS

    if (commitment == WITH_POWERS) != (ptau is not None):
        need = "needs powers of tau: pass" if ptau is None else "takes no powers of tau: omit"
        raise WrongUsage(f"the commitment {commitment} {need} --ptau FILE")


def _circuit_and_scheme(
    path: Path, field: str | None, commitment: str, ptau: Path | None, *, insecure: bool,
    recursive: bool,
) -> tuple[LayeredCircuit, FieldSpec, Scheme]:  # fmt: skip
    """Read the circuit, the challenge field and the commitment scheme that the options name.

    With `recursive`, trees use the hash for verifiers in circuits.
    """
    from quod.commitment.scheme_names import parameters_of, scheme_named, scheme_with_powers
    from quod.gkr.files.key import field_named
    from quod.gkr.security import usual_challenges
    from quod.hash.table import recursive_hash
    from quod.layered import read_circuit

    _check_ptau(commitment, ptau)
    challenge_field = None if field is None else field_named(field)
    layered = read_circuit(path)
    challenges = usual_challenges(layered) if challenge_field is None else challenge_field
    if ptau is not None:
        return layered, challenges, scheme_with_powers(ptau, insecure=insecure)
    parameters = {"hash": recursive_hash(challenges).value} if recursive else {}
    scheme = scheme_named(commitment)
    if "hash" in parameters_of(scheme):
        scheme = scheme_named(commitment, parameters)
    return layered, challenges, scheme

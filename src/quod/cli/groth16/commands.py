"""quod groth16: prove, verify, and keys.

Proofs take a fraction of a second, so the imports of these functions are limited to a list
(tests/test_import_time.py), and the fast path `quod.cli.quick` calls `prove` and `verify` without
typer.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated

from quod.cli.display.terminal import note, show_or_note, show_timings, show_valid, warn
from quod.cli.groth16.key_opening import open_zkey
from quod.cli.one_shot import quick_kernels
from quod.cli.outputs import check_outputs
from quod.cli.parameters import (
    Argument,
    Device,
    Force,
    InsecureTestKey,
    Option,
    Quiet,
    Resident,
    Resume,
    Seed,
    SelfCheck,
    Timings,
    Trace,
    WrongUsage,
)
from quod.errors import VerificationError, naming_file

if TYPE_CHECKING:
    from quod.device.runtime.timeline import Timeline
    from quod.formats import Witness
    from quod.groth16 import Proof, ProvingKey, VerifyingKey


def prove(
    zkey: Annotated[Path, Argument("ZKEY", "Proving key.")],
    witness: Annotated[Path, Argument("WTNS", "Witness.")],
    proof: Annotated[Path, Argument("PROOF", "File for the proof (JSON).")],
    public: Annotated[Path, Argument("PUBLIC", "File for the public inputs (JSON).")],
    device: Device = "cpu",
    bellman: Annotated[
        Path | None,
        Option(
            "--bellman",
            metavar="R1CS",
            help="Constraint system, needed if ZKEY is a bellman parameter file; PROOF is then "
            "bellman's 192 bytes.",
        ),
    ] = None,
    seed: Seed = None,
    self_check: SelfCheck = True,
    timings: Timings = False,
    trace: Trace = None,
    resident: Resident = False,
    quiet: Quiet = False,
) -> None:
    """Prove that the witness satisfies the circuit of the key.

    Writes PROOF and PUBLIC in snarkjs's format unless --bellman is given, both or neither.
    """
    check_outputs(
        [proof, public, *([] if trace is None else [trace])],
        [zkey, witness, *([] if bellman is None else [bellman])],
    )

    def open_key(timeline: Timeline) -> ProvingKey:
        from quod.groth16 import ProvingKey

        if bellman is None:
            return open_zkey(zkey, device, timeline)
        return ProvingKey.from_bellman(zkey, bellman, device=device, timeline=timeline)

    def encode_proof(zk_proof: Proof) -> bytes:
        if bellman is None:
            return zk_proof.to_json().encode()
        from quod.groth16.encodings.bellman import proof_to_bytes

        return proof_to_bytes(zk_proof)

    with quick_kernels(zkey):
        prove_to(
            proof, public, open_key, lambda key, timeline: witness, encode_proof, device=device,
            seed=seed, self_check=self_check, timings=timings, trace=trace, quiet=quiet,
        )  # fmt: skip


def prove_to(
    proof: Path,
    public: Path,
    open_key: Callable[[Timeline], ProvingKey],
    witness_for: Callable[[ProvingKey, Timeline], Path | Witness],
    encode_proof: Callable[[Proof], bytes],
    *,
    device: str,
    seed: int | None,
    self_check: bool,
    timings: bool,
    trace: Path | None,
    quiet: bool,
) -> None:
    """Open a key, prove a witness, and write the proof and its public inputs."""
    if seed is not None:
        warn(
            "--seed fixes the proof's blinding: anyone who knows the seed can learn "
            "secrets from the proof"
        )

    from quod.cli.display.progress import followed_timeline
    from quod.formats import public_to_json, write_all_atomically

    begin = perf_counter()
    with followed_timeline(quiet=quiet) as timeline:
        with timeline.stage("read key"):
            key = open_key(timeline)
        if key.weakness is not None:
            warn(f"{key.zkey.path}: anyone can forge proofs for this key: {key.weakness.reason}")
        witness = witness_for(key, timeline)
        with timeline.stage("prove"):
            zk_proof, inputs = key.prove(
                witness, seed=seed, self_check=self_check, timeline=timeline
            )
        with timeline.stage("write"):
            write_all_atomically(
                {proof: encode_proof(zk_proof), public: public_to_json(inputs)}, durable=False
            )
    if trace is not None:
        write_all_atomically({trace: json.dumps(timeline.to_chrome_trace()).encode()})
    if timings:
        from quod.device.discovery import resolve_device

        show_timings(timeline, resolve_device(device).throughput_limits())
    checked = "checked" if self_check else "not checked"
    note(
        f"Proved in {perf_counter() - begin:.2f} s on {device} ({checked}): {proof}, {public}",
        quiet=quiet,
    )


def verify(
    vkey: Annotated[Path, Argument("VKEY", "Verifying key (JSON).")],
    public: Annotated[Path, Argument("PUBLIC", "Public inputs (JSON).")],
    proof: Annotated[Path, Argument("PROOF", "Proof (JSON).")],
    device: Device = "cpu",
    batch: Annotated[
        bool,
        Option(
            "--batch",
            help="PUBLIC and PROOF are lists of equal length: verify all in one batch; the error "
            "names the invalid proofs.",
        ),
    ] = False,
    arkworks_curve: Annotated[
        str | None,
        Option(
            "--arkworks",
            metavar="CURVE",
            help="VKEY and PROOF are in arkworks' format, over CURVE.",
        ),
    ] = None,
    insecure_test_key: InsecureTestKey = False,
    resident: Resident = False,
    quiet: Quiet = False,
) -> None:
    """Verify a proof. The exit code is 0 only if it is valid, and 6 if it is not.

    VKEY may also be a verifying key or parameters of bellman, and PROOF a proof of bellman.
    """
    if batch and arkworks_curve is not None:
        raise WrongUsage("--batch accepts proofs of snarkjs and bellman; omit --arkworks")
    if batch:
        from quod.cli.groth16.verify_batch import verify_lists

        key = verifying_key_in(vkey, device, allow_insecure=insecure_test_key)
        verify_lists(key, public, proof, quiet=quiet)
        return
    from quod.formats import read_public

    with quick_kernels(vkey):
        key = verifying_key_in(vkey, device, arkworks_curve, allow_insecure=insecure_test_key)
        inputs = read_public(public, curve=key.curve)
        points = _proof_in(proof, key.curve, arkworks_curve)
        # Reading the inputs has checked them, so other errors are of the proof.
        with naming_file(proof):
            is_valid = key.verify(list(inputs), points)
    if not is_valid:
        raise VerificationError(
            f"{proof}: not valid for these public inputs and this key; do not accept it"
        )
    show_valid(quiet=quiet)


def verifying_key_in(
    path: Path, device: str, arkworks_curve: str | None = None, *, allow_insecure: bool
) -> VerifyingKey:
    """Read a verifying key of snarkjs or bellman, or of arkworks if its curve is given."""
    from quod.formats.source import begins_as_text
    from quod.groth16 import VerifyingKey

    if arkworks_curve is not None:
        from quod.groth16.encodings import arkworks as ark

        return ark.read_verifying_key(
            path, arkworks_curve, device=device, allow_insecure=allow_insecure
        )
    if begins_as_text(path):
        return VerifyingKey.from_json(path, device=device, allow_insecure=allow_insecure)
    from quod.groth16.encodings.bellman import read_verifying_key

    return read_verifying_key(path, device=device, allow_insecure=allow_insecure)


def _proof_in(path: Path, curve: str, arkworks_curve: str | None) -> Proof:
    from quod.formats.source import is_text
    from quod.formats.strict_json import PROOF, read_json
    from quod.groth16 import Proof

    if arkworks_curve is not None:
        from quod.groth16.encodings import arkworks as ark

        return ark.read_proof(path, curve, check_subgroup=False)
    # JSON, or bytes of bellman. Read once, as a pipe cannot be read again.
    content, name = read_json(path, PROOF), str(path)
    if is_text(content):
        return Proof.from_json_text(content, curve=curve, name=name)
    from quod.groth16.encodings.bellman import proof_from_bytes

    # Verification checks subgroups.
    return proof_from_bytes(content, check_subgroup=False, name=name)


def setup(
    r1cs: Annotated[Path, Argument("R1CS", "Constraint system.")],
    ptau: Annotated[Path, Argument("PTAU", "Powers of tau, prepared for the second phase.")],
    zkey: Annotated[Path, Argument("ZKEY", "File for the key, to be contributed to.")],
    device: Device = "cpu",
    resume: Resume = True,
    timings: Timings = False,
    force: Force = False,
    quiet: Quiet = False,
) -> None:
    """Make a circuit's key from powers of tau, for others to contribute to.

    The key equals the file that snarkjs makes. Prints the circuit hash.
    """
    check_outputs([zkey], [r1cs, ptau], exclusive=[] if force else [zkey])
    from quod.formats.resumable import expect

    # Before the slow imports, so that an interruption of them can say that the work is resumable.
    expect(zkey)
    from quod.cli.ceremony.contributing import in_hex_groups
    from quod.cli.display.progress import followed_timeline
    from quod.groth16.phase2 import new_key

    begin = perf_counter()
    with followed_timeline(quiet=quiet) as timeline:
        circuit_hash = new_key(
            r1cs, ptau, zkey, device=device, timeline=timeline, resume=resume,
            report=partial(note, quiet=quiet), replace=force,
        )  # fmt: skip
    if timings:
        show_timings(timeline)
    show_or_note(zkey, f"Circuit hash: {in_hex_groups(circuit_hash)}")
    note(
        f"Made {zkey} in {perf_counter() - begin:.2f} s. Anyone can forge proofs for it until "
        "somebody contributes: quod zkey contribute",
        quiet=quiet,
    )


def make_test_key(
    r1cs: Annotated[Path, Argument("R1CS", "Constraint system.")],
    zkey: Annotated[Path, Argument("ZKEY", "File for the proving key.")],
    seed: Annotated[
        int, Option(metavar="N", least=0, help="Secret of the key: equal seeds make equal keys.")
    ],
    insecure_test_key: Annotated[
        bool,
        Option(
            "--insecure-test-key",
            help="Required: confirm that anyone with the seed can forge proofs.",
        ),
    ] = False,
    device: Device = "cpu",
    quiet: Quiet = False,
) -> None:
    """Make a key for tests and benchmarks. INSECURE: the seed is the secret of the key."""
    if not insecure_test_key:
        raise WrongUsage(
            "anyone who knows the seed can forge proofs for this key; pass "
            "--insecure-test-key if it is only for tests, otherwise make a key from "
            "powers of tau (quod groth16 setup) and contribute to it"
        )
    check_outputs([zkey], [r1cs])
    from quod.groth16 import generate_key

    begin = perf_counter()
    generate_key(r1cs, zkey, seed, device=device)
    warn(
        f"{zkey} is INSECURE: anyone who knows the seed can forge proofs for it; use "
        "it only for tests"
    )
    note(f"Made the key in {perf_counter() - begin:.2f} s.", quiet=quiet)

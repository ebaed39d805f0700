"""quod zkey export solidityverifier and soliditycalldata: proofs verified by contracts."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

from quod.cli.display.terminal import note, show, warn
from quod.cli.outputs import check_outputs
from quod.cli.parameters import Argument, InsecureTestKey, Option, Quiet

_ASSUMED_CURVE = "bn254"


def solidityverifier(
    key: Annotated[Path, Argument("KEY", "Proving key, or verifying key (JSON).")],
    out: Annotated[Path, Argument("OUT", "File for the contract.")],
    name: Annotated[str, Option(metavar="NAME", help="Name of the contract.")] = "Groth16Verifier",
    insecure_test_key: InsecureTestKey = False,
    quiet: Quiet = False,
) -> None:
    """Write a contract in Solidity that verifies proofs for a key, over BN254 or BLS12-381."""
    check_outputs([out], [key])
    from quod.cli.groth16.commands import verifying_key_in
    from quod.formats import write_atomically
    from quod.formats.source import begins_with
    from quod.groth16 import VerifyingKey, solidity_verifier

    verifying_key = (
        VerifyingKey.from_zkey(key, allow_insecure=insecure_test_key)
        if begins_with(key, b"zkey")
        else verifying_key_in(key, "cpu", allow_insecure=insecure_test_key)
    )
    text = solidity_verifier(verifying_key, name=name, allow_insecure=insecure_test_key)
    if insecure_test_key:
        warn(f"{out}: --insecure-test-key takes keys for which anyone can forge proofs")
    write_atomically(out, text.encode())
    note(f"Wrote {out}.", quiet=quiet)


def soliditycalldata(
    public: Annotated[Path, Argument("PUBLIC", "Public inputs (JSON).")],
    proof: Annotated[Path, Argument("PROOF", "Proof (JSON).")],
) -> None:
    """Print the call data for such a contract, as `snarkjs` does."""
    from quod.formats.snarkjs_json import parse_proof, read_public
    from quod.formats.strict_json import PROOF, parse_json, read_json
    from quod.groth16 import Proof, solidity_calldata

    text, proof_path = read_json(proof, PROOF), os.fspath(proof)
    document = parse_json(text, proof_path, PROOF)
    lacks_curve = isinstance(document, dict) and "curve" not in document
    parsed_proof = parse_proof(text, curve=_ASSUMED_CURVE if lacks_curve else None, name=proof_path)
    inputs = read_public(public, curve=parsed_proof.curve)
    show(
        solidity_calldata(
            Proof(parsed_proof.curve, parsed_proof.a, parsed_proof.b, parsed_proof.c), inputs
        )
    )

"""Benchmarks of batch verification with the key resident, against one by one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from quod.bench.measure.harness import Case, Parameter
from quod.bench.peers.provers import IN_PROCESS
from quod.errors import InputError
from quod.formats.source import begins_as_text, read_small

ONE_BY_ONE = "one-by-one"
_MAX_BYTES = 256 << 20


def cases(device: str, vkey: Path, public: Path, proof: Path) -> Iterator[Case]:
    """Yield batches of proofs in memory and, for bellman, of encoded proofs.

    Raises InputError if a proof is invalid.
    """
    from quod.cli.groth16.commands import verifying_key_in
    from quod.cli.groth16.verify_batch import read_lists
    from quod.groth16 import Proof, verify_batch

    key = verifying_key_in(vkey, device, allow_insecure=True)
    claims = []
    for inputs, proof_or_error in zip(*read_lists(key, public, proof), strict=True):
        if isinstance(inputs, InputError) or isinstance(proof_or_error, InputError):
            raise inputs if isinstance(inputs, InputError) else _error(proof_or_error)
        claims.append((key, inputs, proof_or_error))
    if not all(verify_batch(claims)):
        raise InputError("not all proofs are valid; measure with valid proofs", path=str(proof))
    parameters: dict[str, Parameter] = {
        "what": "verify a batch, key resident",
        "circuit": vkey.resolve().stem,
        "curve": key.curve,
        "proofs": len(claims),
    }
    yield Case(
        parameters | {"proofs_from": "memory"},
        lambda: verify_batch(claims),
        unit="ms",
        peers={
            ONE_BY_ONE: lambda: [
                key.verify(inputs, proof_or_error) for _, inputs, proof_or_error in claims
            ]
        },
        peer_note=IN_PROCESS,
    )
    if begins_as_text(proof):
        return
    from quod.groth16.encodings.bellman import (
        PROOF_BYTES,
        proof_from_bytes,
        proofs_from_bytes,
    )

    data = read_small(proof, limit=_MAX_BYTES, what="a list of proofs")
    encoded_proofs = [
        data[start : start + PROOF_BYTES] for start in range(0, len(data), PROOF_BYTES)
    ]
    input_lists = [inputs for _, inputs, _ in claims]

    def batched() -> object:
        parsed_proofs = [
            result for result in proofs_from_bytes(data, device=device) if isinstance(result, Proof)
        ]
        return verify_batch(
            [(key, *claim) for claim in zip(input_lists, parsed_proofs, strict=True)]
        )

    def one_by_one() -> object:
        parsed_proofs = (
            proof_from_bytes(encoded, check_subgroup=False) for encoded in encoded_proofs
        )
        return [key.verify(*claim) for claim in zip(input_lists, parsed_proofs, strict=True)]

    yield Case(
        parameters | {"proofs_from": "bytes"}, batched, unit="ms",
        peers={ONE_BY_ONE: one_by_one}, peer_note=IN_PROCESS,
    )  # fmt: skip


def _error(error: object) -> InputError:
    assert isinstance(error, InputError)
    return error

"""Benchmarks of batch verification with the key resident, against one by one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from quod.bench.measure.harness import Case, Parameter
from quod.bench.peers.provers import IN_PROCESS
from quod.errors import InputError
from quod.formats.source import begins_as_text, read_small

ONE_BY_ONE = "one-by-one"
_MOST_BYTES = 256 << 20


def cases(device: str, vkey: Path, public: Path, proof: Path) -> Iterator[Case]:
    """Yield batches of proofs in memory and, for bellman, of encoded proofs.

    Raises InputError if a proof is invalid.
    """
    from quod.cli.groth16.commands import verifying_key_in
    from quod.cli.groth16.verify_batch import read_lists
    from quod.groth16 import Proof, verify_batch

    key = verifying_key_in(vkey, device, allow_insecure=True)
    claims = []
    for inputs, made in zip(*read_lists(key, public, proof), strict=True):
        if isinstance(inputs, InputError) or isinstance(made, InputError):
            raise inputs if isinstance(inputs, InputError) else _error(made)
        claims.append((key, inputs, made))
    if not all(verify_batch(claims)):
        raise InputError("not all proofs are valid; measure with proofs that are", path=str(proof))
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
        peers={ONE_BY_ONE: lambda: [key.verify(inputs, made) for _, inputs, made in claims]},
        way=IN_PROCESS,
    )
    if begins_as_text(proof):
        return
    from quod.groth16.encodings.bellman import (
        PROOF_BYTES,
        proof_from_bytes,
        proofs_from_bytes,
    )

    data = read_small(proof, limit=_MOST_BYTES, what="a list of proofs")
    single = [data[at : at + PROOF_BYTES] for at in range(0, len(data), PROOF_BYTES)]
    inputs_of = [inputs for _, inputs, _ in claims]

    def together() -> object:
        read = [one for one in proofs_from_bytes(data, device=device) if isinstance(one, Proof)]
        return verify_batch([(key, *own) for own in zip(inputs_of, read, strict=True)])

    def one_by_one() -> object:
        read = (proof_from_bytes(one, check_subgroup=False) for one in single)
        return [key.verify(*own) for own in zip(inputs_of, read, strict=True)]

    yield Case(
        parameters | {"proofs_from": "bytes"}, together, unit="ms",
        peers={ONE_BY_ONE: one_by_one}, way=IN_PROCESS,
    )  # fmt: skip


def _error(found: object) -> InputError:
    assert isinstance(found, InputError)
    return found

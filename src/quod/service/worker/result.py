"""The result format of a partition: the proof and public inputs in snarkjs format.

    {"proof": PROOF, "publicSignals": PUBLIC}

UTF-8, where PROOF is the content of a proof.json and PUBLIC that of a public.json, as
``snarkjs.groth16.fullProve`` returns and ``snarkjs.groth16.verify`` accepts them.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from quod import shallow_json
from quod.errors import InputError
from quod.formats import public_to_json
from quod.groth16 import Proof, public_from_json_text
from quod.validation import exact_bytes


def result_bytes(proof: Proof, public: Sequence[int]) -> bytes:
    """Encode a proof and its public inputs."""
    parts = proof.to_json().encode().rstrip(), public_to_json(public).rstrip()
    return b'{"proof": %b, "publicSignals": %b}\n' % parts


def read_result(data: bytes) -> tuple[Proof, tuple[int, ...]]:
    """Decode and validate a result as strictly as the files."""
    try:
        document = shallow_json.load(exact_bytes("a result", data))
    except ValueError:
        document = None
    if not isinstance(document, dict) or set(document) != {"proof", "publicSignals"}:
        raise InputError('a result is a JSON object of "proof" and "publicSignals"')
    proof = Proof.from_dict(document["proof"])
    return proof, public_from_json_text(json.dumps(document["publicSignals"]), curve=proof.curve)

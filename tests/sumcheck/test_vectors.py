"""The bytes of proofs are those of tests/data/sumcheck, so that the protocol changes knowingly."""

from __future__ import annotations

import json
from typing import Any

import pytest

from quod.device.protocol import AnyDevice
from quod.errors import VerificationError
from quod.sumcheck import SumOfProducts, prove, verify
from quod.transcript import Hash
from tests.data.sumcheck.make import FIELDS, FILES, text
from tests.sumcheck.test_prover import words
from tests.support.bound_transcripts import bound
from tests.support.thorough import one_and_others

CASES = [
    (hash, vector)
    for hash, file in FILES.items()
    for vector in json.loads(file.read_text(encoding="utf-8"))
]


@pytest.mark.parametrize("hash", FILES)
def test_vector_files_match_their_script(hash: Hash) -> None:
    assert FILES[hash].read_text(encoding="utf-8") == text(hash)


# With a point the first hash and the one of recursive proofs over m31.4; the others thoroughly.
ALWAYS = [
    number for number, (hash, vector) in enumerate(CASES)
    if vector["point"] is not None
    and vector["field"] == "m31.4"
    and hash in (Hash.SHA3_256, Hash.POSEIDON2_M31)
]  # fmt: skip


@pytest.mark.crossed("device", "number")
@pytest.mark.parametrize("number", one_and_others(range(len(CASES)), always=ALWAYS))
def test_proofs_match_the_vectors(device: AnyDevice, number: int) -> None:
    hash: Hash = CASES[number][0]
    vector: dict[str, Any] = CASES[number][1]
    field, vector_point = FIELDS[vector["field"]], vector["point"]
    polynomial = SumOfProducts(tuple((c, tuple(tables)) for c, tables in vector["terms"]))
    tables = [words(field, [tuple(entry) for entry in table]) for table in vector["tables"]]
    point = None if vector_point is None else [tuple(w) for w in vector_point]
    transcript = bound(bytes.fromhex(vector["commitment"]), hash)
    proof = prove(device, field, polynomial, tables, point=point, transcript=transcript)
    assert proof.statement.claim == tuple(vector["claim"])
    assert proof.data.hex() == vector["proof"]
    other = Hash.SHA_256 if hash is Hash.SHA3_256 else Hash.SHA3_256
    with pytest.raises(VerificationError):
        verify(proof.statement, proof.data, transcript=bound(hash=other))

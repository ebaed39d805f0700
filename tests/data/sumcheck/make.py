"""Makes the files of vectors, from the model on plain integers: python -m tests.data.sumcheck.make

Tables, point, claim and proof of small sumchecks, whose transcripts have absorbed a message with
the label COMMITMENT. Whoever changes the protocol makes them anew and gives it another name in its
first message (`quod.sumcheck.verifier.PROTOCOL`).
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from quod.field import EXTENSIONS, NAMED, FieldSpec
from quod.sumcheck import Statement, SumOfProducts
from quod.transcript import Hash
from tests.reference import sumcheck as reference
from tests.sumcheck.test_prover import expected
from tests.support.bound_transcripts import TABLES

FILES = {
    Hash.SHA3_256: Path(__file__).with_name("vectors.json"),
    Hash.SHA_256: Path(__file__).with_name("vectors.sha-256.json"),
    Hash.POSEIDON2_M31: Path(__file__).with_name("vectors.poseidon2-m31.json"),
    Hash.POSEIDON2_GOLDILOCKS: Path(__file__).with_name("vectors.poseidon2-goldilocks.json"),
}
"""By the hash of the transcript."""
FIELDS: dict[str, FieldSpec] = {
    "m31.4": EXTENSIONS["m31.4"],
    "bn254.fr": NAMED["bn254.fr"],
    "goldilocks.2": EXTENSIONS["goldilocks.2"],
}
VARIABLES = 3
TERMS = ((1, (0, 1)), (-3, (2, 2, 0)), (5, (1,)))


def drawn(field: FieldSpec, seed: str) -> list[int]:
    """The coefficients of an element, made of a text."""
    digests = (hashlib.sha512(f"{seed} {c}".encode()).digest() for c in range(field.degree))
    return [int.from_bytes(digest, "little") % field.modulus.value for digest in digests]


def vector(name: str, hash: Hash, *, weighted: bool) -> dict[str, Any]:
    """One sumcheck."""
    field = FIELDS[name]
    tables = [
        [drawn(field, f"{name} table {table} entry {entry}") for entry in range(1 << VARIABLES)]
        for table in range(3)
    ]
    point = [drawn(field, f"{name} coordinate {i}") for i in range(VARIABLES)] if weighted else None
    plain = [[tuple(entry) for entry in table] for table in tables]
    place = None if point is None else tuple(tuple(w) for w in point)
    claim = reference.whole_sum(field, TERMS, plain, place)
    statement = Statement(field, SumOfProducts(TERMS), VARIABLES, claim, place)
    proof, _, _ = expected(statement, plain, hash)
    return {
        "field": name, "terms": TERMS, "tables": tables, "point": point, "claim": claim,
        "commitment": TABLES.hex(), "proof": proof.hex(),
    }  # fmt: skip


def text(hash: Hash) -> str:
    """The file."""
    cases = [
        vector(name, hash, weighted=weighted)
        for name, field in FIELDS.items()
        for weighted in (False, True)
        if hash.field in (None, field.modulus)
    ]
    return "[\n" + ",\n".join(json.dumps(each) for each in cases) + "\n]\n"


if __name__ == "__main__":
    for hash, file in FILES.items():
        file.write_text(text(hash), encoding="utf-8")

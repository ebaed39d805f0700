"""The bytes of proofs are those of tests/data/sumcheck, so that the protocol changes knowingly."""

from __future__ import annotations

import json
from typing import Any

import pytest

from quod.device.protocol import AnyDevice
from quod.sumcheck import SumOfProducts, prove
from tests.data.sumcheck.make import FIELDS, FILE, text
from tests.sumcheck.test_prover import words

VECTORS = json.loads(FILE.read_text(encoding="utf-8"))


def test_the_file_is_what_its_script_makes() -> None:
    assert FILE.read_text(encoding="utf-8") == text()


@pytest.mark.parametrize("number", range(len(VECTORS)))
def test_proofs_are_these_bytes(device: AnyDevice, number: int) -> None:
    vector: dict[str, Any] = VECTORS[number]
    field, given = FIELDS[vector["field"]], vector["point"]
    polynomial = SumOfProducts(tuple((c, tuple(tables)) for c, tables in vector["terms"]))
    tables = [words(field, [tuple(entry) for entry in table]) for table in vector["tables"]]
    point = None if given is None else [tuple(w) for w in given]
    proof = prove(device, field, polynomial, tables, point=point)
    assert proof.statement.claim == tuple(vector["claim"])
    assert proof.data.hex() == vector["proof"]

"""The model of sumchecks gives the messages of gnark's prover, and the verifier takes them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from quod.field.element_bytes import encode
from quod.field.plain_element import PlainElement
from quod.sumcheck.verifier import read_rounds
from quod.transcript import ProofReader
from tests.reference.gnark import FIELD, MINUS_ONE, Constant, elements, partial_sums
from tests.reference.sumcheck import multilinear

pytestmark = pytest.mark.fixtures


@pytest.mark.parametrize("name", ["linear_univariate_single_claim", "trilinear_single_claim"])
def test_proofs_match_gnark(shared_fixtures: Path, name: str) -> None:
    file = shared_fixtures / "gkr" / "sumcheck" / "vectors.json"
    vector = json.loads(file.read_text(encoding="utf-8"))[name]
    table, sent = elements(vector["values"]), vector["proof"]["partialSumPolys"]
    assert vector["hash"] == {"type": "const", "val": -1}
    variables = len(sent)
    claim, rounds, values = partial_sums([(1, (0,))], [table], None)
    assert [claim] == elements([vector["claimedSum"]])
    assert rounds == [elements(values) for values in sent]
    end = multilinear(FIELD, table, [MINUS_ONE] * variables)
    assert values == [end]

    # A polynomial of one factor has one coefficient beside that of 1: t(1) - t(0).
    slopes, round_claim = [], vector["claimedSum"]
    for (at_one,) in sent:
        slopes.append(2 * at_one - round_claim)
        round_claim = (round_claim - at_one) - (2 * at_one - round_claim)
    reader = ProofReader(encode(FIELD, elements(slopes)), Constant())
    final_claim, point = read_rounds(
        reader, FIELD, degree=1, variables=variables, claim=PlainElement(FIELD, claim)
    )
    assert final_claim.coefficients == end
    assert point == [MINUS_ONE] * variables

"""The model of sumchecks gives the messages of gnark's provers, and the verifier takes them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from quod.field import NAMED, FieldSpec
from quod.field.plain_extension import product
from quod.sumcheck import SumOfProducts
from quod.sumcheck.verifier import evaluate, read_rounds
from quod.transcript import ProofReader, Transcript
from quod.transcript.elements import encode
from tests.reference import sumcheck as reference

pytestmark = pytest.mark.fixtures
FIELD = NAMED["bn254.fr"]
"""The vectors are small integers, for any field."""

Element = reference.Plain


class Constant(Transcript):
    """Every challenge is the same, as gnark's "hash" of these vectors has it."""

    def challenge(self, field: FieldSpec) -> Element:
        return reference.embed(field, -1)


def elements(integers: list[int]) -> list[Element]:
    return [reference.embed(FIELD, integer) for integer in integers]


def read(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def agrees(
    terms: reference.Terms, tables: list[list[int]], sent: list[list[int]], values: list[int],
    point: list[Element] | None,
) -> Element:  # fmt: skip
    """The claim, where gnark sent these rounds and values.

    A round of gnark's is its polynomial at 1, 2 ... up to its degree; variable 0 is bound first.
    """
    minus_one = reference.embed(FIELD, -1)
    plain = [elements(table) for table in tables]
    messages, _, found = reference.prove(FIELD, terms, plain, point, lambda _: minus_one)
    claim = whole = reference.whole_sum(FIELD, terms, plain, point)
    for number, (message, expected) in enumerate(zip(messages, sent, strict=True)):
        first = _constant(claim, message, None if point is None else point[number])
        assert len(message) == len(expected)
        at = [_horner([first, *message], x) for x in elements([-1, *range(1, len(sent[0]) + 1)])]
        claim, given = at[0], at[1:]
        assert given == elements(expected)
    assert found == elements(values)
    return whole


def _constant(claim: Element, others: list[Element], weight: Element | None) -> Element:
    """The coefficient of 1: the claim is t(0) + t(1), or (1 - w)*t(0) + w*t(1)."""
    total = reference.add(FIELD, *others)
    if weight is not None:
        return reference.add(FIELD, claim, reference.negate(FIELD, product(FIELD, weight, total)))
    half = reference.embed(FIELD, pow(2, -1, FIELD.modulus.value))
    return product(
        FIELD, half, reference.add(FIELD, claim, reference.negate(FIELD, total))
    )  # fmt: skip


def _horner(coefficients: list[Element], place: Element) -> Element:
    total = reference.embed(FIELD, 0)
    for coefficient in reversed(coefficients):
        total = reference.add(FIELD, product(FIELD, total, place), coefficient)
    return total


@pytest.mark.parametrize("name", ["linear_univariate_single_claim", "trilinear_single_claim"])
def test_sumchecks_of_gnark(shared_fixtures: Path, name: str) -> None:
    vector = read(shared_fixtures / "gkr" / "sumcheck" / "vectors.json")[name]
    table, sent = vector["values"], vector["proof"]["partialSumPolys"]
    assert vector["hash"] == {"type": "const", "val": -1}
    variables = len(table).bit_length() - 1
    end = reference.multilinear(FIELD, elements(table), elements([-1] * variables))
    (value,) = end
    claim = agrees([(1, (0,))], [table], sent, [value], None)
    assert claim == reference.embed(FIELD, vector["claimedSum"])

    # A polynomial of one factor has one coefficient beside that of 1: t(1) - t(0).
    slopes, rest = [], vector["claimedSum"]
    for (at_one,) in sent:
        slopes.append(reference.embed(FIELD, 2 * at_one - rest))
        rest = (rest - at_one) - (2 * at_one - rest)
    reader = ProofReader(encode(FIELD, slopes), Constant())
    left, point = read_rounds(reader, FIELD, degree=1, variables=variables, claim=claim)
    assert left == end
    assert point == elements([-1] * variables)


def test_layers_of_gnark(shared_fixtures: Path) -> None:
    """A layer of products: sums over the instances, weighted by eq of challenges, which are -1."""
    folder = shared_fixtures / "gkr"
    vector = read(folder / "single_mul_gate_two_instances.json")
    layer = vector["proof"][2]
    minus_one = reference.embed(FIELD, -1)
    values = layer["finalEvalProof"]
    claim = agrees(
        [(1, (0, 1))], vector["input"], layer["partialSumPolys"], values, [minus_one]
    )  # fmt: skip
    assert claim == reference.multilinear(FIELD, elements(vector["output"][0]), [minus_one])
    assert evaluate(FIELD, SumOfProducts.product(2), elements(values)) == elements([5])[0]

    # Its gate is the seventh power of a sum.
    vector = read(folder / "single_mimc_gate_four_instances.json")
    layer, inputs = vector["proof"][2], vector["input"]
    sums = [a + b for a, b in zip(*inputs, strict=True)]
    assert sum(layer["finalEvalProof"]) == -4
    agrees([(1, (0,) * 7)], [sums], layer["partialSumPolys"], [-4], [minus_one] * 2)

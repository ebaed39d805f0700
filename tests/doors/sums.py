"""Sumchecks and lookups in the table of public calls."""

from __future__ import annotations

from collections.abc import Iterator

from quod import commitment, lookup, sumcheck, transcript
from tests.doors.row import DEVICE, MODULUS, OPTIONAL, VECTOR, Row
from tests.support.bound import bound


def rows_of_lookup() -> Iterator[tuple[str, Row]]:
    """Columns in a table, and in a range."""
    made = lookup.Statement(MODULUS, 1, 1, lookup.Range(2))
    yield "Range", Row(lookup.Range, {"bits": 2})
    yield "Table", Row(lookup.Table, {"log2_size": 2, "width": 1})
    own = {"field": MODULUS, "columns": 1, "log2_size": 1, "table": lookup.Range(2)}
    yield "lookup.Statement", Row(lookup.Statement, own)
    given = {"device": DEVICE, "field": MODULUS, "columns": [VECTOR], "table": VECTOR}
    counted = lookup.multiplicities(**given)
    yield "multiplicities", Row(lookup.multiplicities, given)
    yield "lookup.prove", Row(
        lookup.prove,
        {**given, "multiplicities": counted, "transcript": bound(), "allow_bits": 0,
         "timeline": None},
        {"timeline": OPTIONAL},
    )  # fmt: skip
    yield "lookup.verify", Row(
        lookup.verify,
        {"statement": made, "proof": b"", "transcript": bound(), "allow_bits": 0},
    )  # fmt: skip
    scheme = commitment.Raw()
    by = transcript.Hash.SHA_256
    yield "prove_committed", Row(
        lookup.prove_committed,
        {**given, "scheme": scheme, "hash": by, "recursive": False, "allow_bits": 0,
         "timeline": None},
        {"timeline": OPTIONAL, "recursive": ("true",)},
    )  # fmt: skip
    yield "verify_committed", Row(
        lookup.verify_committed,
        {"statement": made, "proof": b"", "table": None, "scheme": scheme, "hash": by,
         "recursive": False, "allow_bits": 0},
        {"table": OPTIONAL, "recursive": ("true",)},
    )  # fmt: skip
    yield "lookup.error_terms", Row(
        lookup.error_terms, {"statement": made, "hash": by, "scheme": scheme}, {"scheme": OPTIONAL}
    )  # fmt: skip


def rows() -> Iterator[tuple[str, Row]]:
    """Of sumchecks and of lookups."""
    product, claim = sumcheck.SumOfProducts.product(1), (3,)
    yield "SumOfProducts", Row(sumcheck.SumOfProducts, {"terms": ((1, (0,)),)})
    yield "SumOfProducts.product", Row(sumcheck.SumOfProducts.product, {"count": 2})
    statement = {"field": MODULUS, "polynomial": product, "variables": 1, "claim": claim}
    yield "Statement", Row(
        sumcheck.Statement, {**statement, "point": None}, {"point": OPTIONAL}
    )  # fmt: skip
    yield "sumcheck.prove", Row(
        sumcheck.prove,
        {"device": DEVICE, "field": MODULUS, "polynomial": product, "tables": [VECTOR],
         "point": None, "transcript": bound(), "allow_bits": 0, "timeline": None},
        {"point": OPTIONAL, "timeline": OPTIONAL},
    )  # fmt: skip
    yield "sumcheck.verify", Row(
        sumcheck.verify,
        {"statement": sumcheck.Statement(**statement), "proof": b"", "transcript": bound(),
         "allow_bits": 0},
    )  # fmt: skip
    yield "sumcheck.error_terms", Row(
        sumcheck.error_terms,
        {"statement": sumcheck.Statement(**statement), "hash": transcript.Hash.SHA_256},
    )  # fmt: skip
    plan = {"device": DEVICE, "shape": sumcheck.Shape(MODULUS, product, 0, False), "log2_size": 3}
    yield "SumcheckPlan", Row(
        sumcheck.SumcheckPlan,
        {**plan, "batch": 1, "log_capacity": None, "depth": None, "in_place": None},
        {"log_capacity": OPTIONAL, "depth": OPTIONAL, "in_place": ("None", "true")},
    )  # fmt: skip
    yield "Shape", Row(
        sumcheck.Shape,
        {"field": MODULUS, "polynomial": product, "in_base": 0, "has_point": False, "scales": (),
         "hash": transcript.Hash.SHA_256},
        {"has_point": ("true",), "scales": ("a list",)},
    )  # fmt: skip
    yield from rows_of_lookup()

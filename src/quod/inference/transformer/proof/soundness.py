"""The probability that a false statement is accepted, by cause."""

from __future__ import annotations

from fractions import Fraction

from quod.hash.table import Hash
from quod.inference.transformer.proof.key import SCHEME, Key
from quod.inference.transformer.proof.lookups import Columns
from quod.inference.transformer.proof.statement import Statement
from quod.inference.transformer.proof.vectors import FIELD
from quod.lookup.statement import error_terms as lookup_error_terms
from quod.security import check_bits
from quod.sumcheck.polynomial import MAX_DEGREE
from quod.sumcheck.verifier import MAX_VARIABLES
from quod.transcript.elements import most_likely

MAX_SUMCHECKS = 24
"""No proof has more sumchecks outside of its lookup arguments."""

MAX_CLAIMS = 96
"""No proof has more linear claims about a commitment."""


def error_terms(key: Key, statement: Statement) -> dict[str, Fraction]:
    """Return the probability of each step to accept a false statement, for random challenges."""
    columns, unit = Columns(key, statement), most_likely(FIELD)
    terms: dict[str, Fraction] = {}

    def add(cause: str, term: Fraction) -> None:
        terms[cause] = terms.get(cause, Fraction(0)) + term

    for run in columns.runs.values():
        for cause, term in lookup_error_terms(run.statement).items():
            if cause != "the hash":
                add(f"lookups: {cause}", term)
    add("rounds of sumchecks", MAX_SUMCHECKS * MAX_VARIABLES * (MAX_DEGREE + 1) * unit)
    add("points of rows of one-hot bits and maxima", 5 * MAX_VARIABLES * unit)
    add("claims combined", 2 * MAX_CLAIMS * unit)
    for what, layout in (("columns", columns.layout), *key.weights.items()):
        for cause, term in SCHEME.error_terms(FIELD, layout.log2_size).items():
            add(f"opening of the {what}: {cause}", term)
    add("the hash", Fraction(1, 1 << Hash.SHA3_256.collision_bits))
    return terms


def check_soundness(key: Key, statement: Statement, allow_bits: int) -> None:
    """Raise InputError if `error_terms` leave fewer bits than `allow_bits`."""
    what = f"a proof of {len(statement.tokens)} tokens"
    check_bits(what, error_terms(key, statement), allow_bits)

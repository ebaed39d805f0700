"""The verifier of a sumcheck, which reduces a claim to values of the tables at one point.

Lund, Fortnow, Karloff and Nisan, "Algebraic methods for interactive proof systems", 1992. The
protocol is written out in docs/sumcheck.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from quod.errors import InputError, VerificationError
from quod.field.element_bytes import Plain, check_elements
from quod.field.plain_element import PlainElement
from quod.field.spec import FieldSpec
from quod.frozen import frozen
from quod.hash.table import Hash
from quod.security import LEAST_BITS, check_bits
from quod.sumcheck.polynomial import SumOfProducts
from quod.transcript.elements import describe, most_likely
from quod.transcript.labels import Label
from quod.transcript.messages import ProofReader
from quod.transcript.transcript import Transcript
from quod.validation import whole_number

PROTOCOL = "quod sumcheck 1"

MOST_VARIABLES = 30


@frozen
class Statement:
    """`claim` is the sum over the cube of `variables` dimensions of eq(point, x) * polynomial(x).

    Without a point the sum is of the polynomial alone. Elements are tuples of coefficients over the
    prime field, of a prime field itself tuples of one; the polynomial is of multilinear polynomials
    of which the verifier knows none.
    """

    field: FieldSpec
    polynomial: SumOfProducts
    variables: int
    claim: Plain
    point: tuple[Plain, ...] | None = None

    def __post_init__(self) -> None:
        variables = whole_number("the variables", self.variables, 1, MOST_VARIABLES)
        self.__dict__.update(variables=variables)
        (claim,) = check_elements(self.field, "the claim", [self.claim])
        self.__dict__.update(claim=claim)
        if self.point is not None:
            self.__dict__.update(point=check_elements(self.field, "the point", self.point))
            if len(self.point) != self.variables:
                raise InputError(
                    f"a point of {self.variables} variables has as many coordinates, not "
                    f"{len(self.point)}"
                )

    def absorb(self, transcript: Transcript) -> None:
        """Absorb the statement, so that all challenges depend on it."""
        transcript.begin(PROTOCOL)
        transcript.absorb(Label.FIELD, describe(self.field))
        form = "eq" if self.point is not None else "plain"
        parameters = f"{self.variables} {form} {self.polynomial}"
        transcript.absorb(Label.PARAMETERS, parameters.encode())
        if self.point is not None:
            transcript.absorb_elements(Label.POINT, self.field, self.point)
        transcript.absorb_elements(Label.CLAIM, self.field, [self.claim])


@frozen
class Reduced:
    """The reduced claim of a sumcheck: the tables have `values` at `point`."""

    point: tuple[Plain, ...]
    values: tuple[Plain, ...]


def error_terms(statement: Statement, *, hash: Hash = Hash.SHA3_256) -> dict[str, Fraction]:
    """The probabilities that a false claim is accepted, by cause, with random challenges.

    `hash` is that of the transcript. The error of the commitments to the tables is not included.
    """
    rounds = statement.variables * statement.polynomial.degree
    return {
        "rounds": rounds * most_likely(statement.field),
        "the hash": Fraction(1, 1 << hash.collision_bits),
    }


def check_sumcheck(statement: Statement, transcript: Transcript, allow_bits: int) -> None:
    """Raise InputError if the transcript binds no table, or for fewer bits than `allow_bits`."""
    transcript.check_bound()
    terms = error_terms(statement, hash=transcript.hash)
    check_bits(f"a sumcheck over {statement.field.name}", terms, allow_bits)


def verify(
    statement: Statement, proof: bytes, *, transcript: Transcript, allow_bits: int = LEAST_BITS
) -> Reduced:
    """Reduces a claim to the tables' values at one point, which the caller checks.

    The verifier makes `statement` itself. `transcript` must have absorbed a commitment to each
    table, or its digest (`Transcript.check_bound`); it absorbs the statement and the proof.
    VerificationError for a proof that does not show the claim, InputError for malformed bytes, and
    if `error_terms` leave fewer bits than `allow_bits`.
    """
    check_sumcheck(statement, transcript, allow_bits)
    reader = ProofReader(proof, transcript)
    statement.absorb(transcript)
    field, polynomial = statement.field, statement.polynomial
    claim, point = read_rounds(
        reader, field, degree=polynomial.degree, variables=statement.variables,
        claim=PlainElement(field, statement.claim), point=statement.point,
    )  # fmt: skip
    values = reader.elements(Label.VALUES, field, polynomial.tables)
    reader.end()
    if evaluate(field, polynomial, PlainElement.each(field, values)) != claim:
        raise VerificationError(
            "the sum is not what the proof claims: the values of its tables do not agree with its "
            "rounds"
        )
    return Reduced(tuple(point), tuple(values))


def read_rounds(
    reader: ProofReader, field: FieldSpec, *, degree: int, variables: int,
    claim: PlainElement, point: Sequence[Plain] | None = None,
) -> tuple[PlainElement, list[Plain]]:  # fmt: skip
    """Read all rounds; return the final claim and the point of their challenges."""
    challenges = []
    half = (field.modulus.value + 1) // 2
    for number in range(variables):
        coefficients = PlainElement.each(field, reader.elements(Label.ROUND, field, degree))
        others = sum(coefficients, PlainElement.zero(field))
        # The values at 0 and 1, weighted, are the claim; that gives the coefficient left out.
        if point is None:
            first = (claim - others) * half
        else:
            first = claim - PlainElement(field, point[number]) * others
        challenge = reader.transcript.challenge(field)
        claim = horner([first, *coefficients], PlainElement(field, challenge))
        challenges.append(challenge)
    return claim, challenges


def horner(coefficients: Sequence[PlainElement], x: PlainElement) -> PlainElement:
    """A polynomial's value at x."""
    *lower, total = coefficients
    for coefficient in reversed(lower):
        total = total * x + coefficient
    return total


def evaluate(
    field: FieldSpec, polynomial: SumOfProducts, values: Sequence[PlainElement]
) -> PlainElement:
    """The polynomial of values of its tables."""
    total = PlainElement.zero(field)
    for coefficient, tables in polynomial.terms:
        part = PlainElement.of(field, coefficient)
        for table in tables:
            part *= values[table]
        total += part
    return total

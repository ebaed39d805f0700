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
from quod.security import MIN_BITS, check_bits
from quod.sumcheck.polynomial import SumOfProducts
from quod.transcript.elements import describe, most_likely
from quod.transcript.labels import Label
from quod.transcript.messages import ProofReader
from quod.transcript.transcript import Transcript
from quod.validation import whole_number

PROTOCOL = "quod sumcheck 1"

MAX_VARIABLES = 30


@frozen
class Statement:
    """The statement that `claim` is the sum of eq(point, x) * polynomial(x) over the hypercube.

    field: the field of challenges, of the claim and of the point.
    polynomial: the verifier does not know the multilinear polynomials in it.
    variables: the dimension of the hypercube, from 1 to 30.
    claim: an element: a tuple of coefficients over the prime field, one for a prime field.
    point: one element per variable; without a point the sum is of the polynomial alone.
    Raises InputError for values out of range.
    """

    field: FieldSpec
    polynomial: SumOfProducts
    variables: int
    claim: Plain
    point: tuple[Plain, ...] | None = None

    def __post_init__(self) -> None:
        variables = whole_number("the variables", self.variables, 1, MAX_VARIABLES)
        self.__dict__.update(variables=variables)
        (claim,) = check_elements(self.field, "the claim", [self.claim])
        self.__dict__.update(claim=claim)
        if self.point is not None:
            self.__dict__.update(point=check_elements(self.field, "the point", self.point))
            if len(self.point) != self.variables:
                raise InputError(
                    f"the point must have a coordinate for each of {self.variables} variables, not "
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
    """The claim that remains after a sumcheck: the tables have `values` at `point`."""

    point: tuple[Plain, ...]
    values: tuple[Plain, ...]


def error_terms(statement: Statement, *, hash: Hash = Hash.SHA3_256) -> dict[str, Fraction]:
    """Return the probability that a false claim is accepted, by cause, for random challenges.

    hash: the hash of the transcript.
    The error of the commitments to the tables is not included.
    """
    rounds = statement.variables * statement.polynomial.degree
    return {
        "rounds": rounds * most_likely(statement.field),
        "the hash": Fraction(1, 1 << hash.collision_bits),
    }


def check_sumcheck(statement: Statement, transcript: Transcript, allow_bits: int) -> None:
    """Raise InputError if the transcript binds no table or soundness is below `allow_bits`."""
    transcript.check_bound()
    terms = error_terms(statement, hash=transcript.hash)
    check_bits(f"a sumcheck over {statement.field.name}", terms, allow_bits)


def verify(
    statement: Statement, proof: bytes, *, transcript: Transcript, allow_bits: int = MIN_BITS
) -> Reduced:
    """Reduce a claim to the tables' values at one point, which the caller checks.

    statement: constructed by the verifier, not taken from the prover.
    transcript: it must have absorbed a commitment to each table, or its digest
        (`Transcript.check_bound`); it absorbs the statement and the proof.
    Raises VerificationError if the proof does not show the claim, InputError for malformed bytes
    and if `error_terms` leave fewer bits than `allow_bits`.
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
    if evaluate(field, polynomial, PlainElement.from_coefficients(field, values)) != claim:
        raise VerificationError(
            "the claimed sum is wrong: the values of the tables do not agree with the rounds"
        )
    return Reduced(tuple(point), tuple(values))


def read_rounds(
    reader: ProofReader, field: FieldSpec, *, degree: int, variables: int,
    claim: PlainElement, point: Sequence[Plain] | None = None,
) -> tuple[PlainElement, list[Plain]]:  # fmt: skip
    """Read all rounds; return the final claim, without eq's factor, and the challenge point."""
    challenges = []
    half = (field.modulus.value + 1) // 2
    for round_number in range(variables):
        coefficients = PlainElement.from_coefficients(
            field, reader.elements(Label.ROUND, field, degree)
        )
        higher_sum = sum(coefficients, PlainElement.zero(field))
        # The weighted sum of the values at 0 and 1 is the claim. That determines the constant
        # coefficient, which the message omits.
        if point is None:
            constant = (claim - higher_sum) * half
        else:
            constant = claim - PlainElement(field, point[round_number]) * higher_sum
        challenge = reader.transcript.challenge(field)
        claim = horner([constant, *coefficients], PlainElement(field, challenge))
        challenges.append(challenge)
    return claim, challenges


def horner(coefficients: Sequence[PlainElement], x: PlainElement) -> PlainElement:
    """Evaluate a polynomial at x; the constant coefficient comes first."""
    *lower, total = coefficients
    for coefficient in reversed(lower):
        total = total * x + coefficient
    return total


def evaluate(
    field: FieldSpec, polynomial: SumOfProducts, values: Sequence[PlainElement]
) -> PlainElement:
    """Evaluate the polynomial at one value per table."""
    total = PlainElement.zero(field)
    for coefficient, tables in polynomial.terms:
        product = PlainElement.of(field, coefficient)
        for table in tables:
            product *= values[table]
        total += product
    return total

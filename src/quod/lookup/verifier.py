"""The verifier of a lookup argument, which leaves claims about columns and table to check.

Haboeck, "Multivariate lookups based on logarithmic derivatives", eprint 2022/1530. Let m be the
number of lookups of table entry t. If all lookups w are in the table, the sum of 1/(alpha - w) over
w equals the sum of m/(alpha - t) over t for every alpha; otherwise the sums are equal only for few
alpha.
"""

from __future__ import annotations

from collections.abc import Sequence

from quod.errors import VerificationError
from quod.field.element_bytes import Plain
from quod.field.plain_element import PlainElement
from quod.field.spec import FieldSpec
from quod.frozen import frozen
from quod.lookup.fractions import FractionSum, LeafClaim, read_sums
from quod.lookup.statement import Range, Statement, check_lookup
from quod.security import MIN_BITS
from quod.sumcheck.eq_reference import equalities
from quod.transcript.labels import Label
from quod.transcript.messages import ProofReader
from quod.transcript.transcript import Transcript


@frozen
class Reduced:
    """The evaluation claims that a lookup argument leaves to check.

    point: the point of the columns.
    columns: for each column the values at `point` of its arrays: one for each element of a row, or
        those of the element's affine form.
    table_point: the point of the multiplicities and the table.
    multiplicity: the value of the multiplicities at `table_point`.
    entry: the values of the table at `table_point`; empty for a range, which the verifier
        evaluates.
    """

    point: tuple[Plain, ...]
    columns: tuple[tuple[Plain, ...], ...]
    table_point: tuple[Plain, ...]
    multiplicity: Plain
    entry: tuple[Plain, ...]


@frozen
class Sums:
    """The sums of the lookups and of the table, and their challenges.

    The challenges are alpha, and the powers of beta that weight the elements of an entry.
    """

    alpha: PlainElement
    powers: tuple[PlainElement, ...]
    lookups: FractionSum
    table: FractionSum


def verify(
    statement: Statement, proof: bytes, *, transcript: Transcript, allow_bits: int = MIN_BITS
) -> Reduced:
    """Reduce a statement to claims about columns, multiplicities and table for the caller to check.

    statement: the verifier's statement, never one from the prover.
    transcript: must have absorbed commitments to, or digests of, each column, the multiplicities
        and a table that is not a range (`Transcript.check_bound`).
    VerificationError for a proof that does not hold. InputError for malformed bytes, and if
    `error_terms` leave fewer bits than `allow_bits`.
    """
    transcript.check_bound()
    check_lookup(statement, transcript.hash, allow_bits)
    reader = ProofReader(proof, transcript)
    reduced = read(statement, reader)
    reader.end()
    return reduced


def read(statement: Statement, reader: ProofReader) -> Reduced:
    """Verify the argument at the reader's position, from a proof that may continue after it."""
    alpha, powers = challenges(statement, reader.transcript)
    sums = read_both(statement, reader, alpha, powers)
    values = reader.elements(Label.VALUES, statement.field, values_of(statement))
    return check_values(statement, sums, values)


def challenges(
    statement: Statement, transcript: Transcript
) -> tuple[PlainElement, tuple[PlainElement, ...]]:
    """Absorb the statement and draw alpha, and beta if entries have several elements.

    Returns alpha and the powers of beta.
    """
    statement.absorb(transcript)
    field, width = statement.field, statement.table.width
    alpha = PlainElement(field, transcript.challenge(field))
    powers = [PlainElement.one(field)]
    if width > 1:
        beta = PlainElement(field, transcript.challenge(field))
        while len(powers) < width:
            powers.append(powers[-1] * beta)
    return alpha, tuple(powers)


def read_both(
    statement: Statement, reader: ProofReader, alpha: PlainElement,
    powers: tuple[PlainElement, ...],
) -> Sums:  # fmt: skip
    """Read both sums; raise VerificationError unless they are equal.

    Cross-multiplied numerators and denominators are compared, without division. A denominator may
    be 0 if alpha is in the prime field. The comparison is sound even then, because both sides are
    values of polynomials in alpha.
    """
    lookups, table = read_sums(reader, statement.field, statement.trees)
    numerator = lookups.numerator - lookups.denominator * statement.padding
    if numerator * table.denominator != table.numerator * lookups.denominator:
        raise VerificationError(
            "a lookup is not in the table: the sums over lookups and over the table differ"
        )
    return Sums(alpha, powers, lookups, table)


def values_of(statement: Statement) -> int:
    """The number of elements of the last message."""
    columns = sum(map(statement.arrays, range(statement.columns)))
    return columns + statement.table.width * (not isinstance(statement.table, Range))


def check_values(statement: Statement, sums: Sums, values: Sequence[Plain]) -> Reduced:
    """Check the values of columns and table against the sums, and return the remaining claims.

    Raises VerificationError if the values do not give the denominators that the sums claim.
    """
    field = statement.field
    lookups, entries = (LeafClaim(tree.point, tree.at_point) for tree in (sums.lookups, sums.table))
    reduced = reduced_to(statement, lookups, entries, values)
    weights = equalities(field, sums.lookups.point[: statement.log_columns])
    # Columns are padded to a power of two by denominators of 1.
    denominators = [
        _denominator(sums, _row(statement, column, arrays))
        for column, arrays in enumerate(reduced.columns)
    ]
    denominators += [PlainElement.one(field)] * (len(weights) - statement.columns)
    total = PlainElement.zero(field)
    for weight, denominator in zip(weights, denominators, strict=True):
        total += weight * denominator
    if total != sums.lookups.at_point[1]:
        raise VerificationError("the values of the columns do not agree with the sums")
    entry = (
        [range_at(field, sums.table.point)]
        if isinstance(statement.table, Range)
        else PlainElement.from_coefficients(field, reduced.entry)
    )
    if _denominator(sums, entry) != sums.table.at_point[1]:
        raise VerificationError("the values of the table do not agree with the sums")
    return reduced


def reduced_to(
    statement: Statement, lookups: LeafClaim, table: LeafClaim, values: Sequence[Plain]
) -> Reduced:
    """Return the claims that the values of columns and table are, without a check."""
    remaining = iter(values)
    columns = tuple(
        tuple(next(remaining) for _ in range(statement.arrays(column)))
        for column in range(statement.columns)
    )
    return Reduced(
        lookups.point[statement.log_columns :], columns, table.point,
        table.at_point[0].coefficients, tuple(remaining),
    )  # fmt: skip


def _row(statement: Statement, column: int, arrays: Sequence[Plain]) -> list[PlainElement]:
    """Return the elements of a row from the values of the arrays of their forms."""
    remaining = iter(PlainElement.from_coefficients(statement.field, arrays))
    row = []
    for element in range(statement.table.width):
        form = statement.form(column, element)
        total = PlainElement.of(statement.field, form.constant)
        for coefficient in form.coefficients:
            total += next(remaining) * coefficient
        row.append(total)
    return row


def range_at(field: FieldSpec, point: Sequence[Plain]) -> PlainElement:
    """Evaluate the multilinear polynomial of the table 0, 1, 2, ... at a point."""
    total = PlainElement.zero(field)
    for coordinate in PlainElement.from_coefficients(field, point):
        total = total * 2 + coordinate
    return total


def _denominator(sums: Sums, row: Sequence[PlainElement]) -> PlainElement:
    """Return alpha - the sum of a row's elements times powers of beta."""
    total = sums.alpha
    for power, element in zip(sums.powers, row, strict=True):
        total -= power * element
    return total

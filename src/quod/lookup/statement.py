"""The statement of a lookup argument: each row of some columns is in a table."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from quod.commitment.scheme import Scheme
from quod.errors import InputError
from quod.field.spec import FieldSpec
from quod.frozen import frozen
from quod.hash.table import Hash
from quod.lookup.fractions import DEGREE, FractionTree, layers_of
from quod.security import check_bits
from quod.sumcheck.verifier import MAX_VARIABLES
from quod.transcript.elements import challenge_bits, describe, most_likely
from quod.transcript.labels import Label
from quod.transcript.transcript import Transcript
from quod.validation import whole_number

PROTOCOL = "quod lookup 1"

MAX_COLUMNS = 1 << 10
MAX_WIDTH = 64

_MAX_NUMBER = 1 << 64


@frozen
class Range:
    """The table of all integers in 0 to 2**bits - 1, which the verifier evaluates by itself."""

    bits: int

    def __post_init__(self) -> None:
        bits = whole_number("the bits of a range", self.bits, 1, MAX_VARIABLES)
        self.__dict__.update(bits=bits)

    @property
    def log2_size(self) -> int:
        """The base-2 logarithm of the number of entries."""
        return self.bits

    @property
    def width(self) -> int:
        """The number of elements of an entry."""
        return 1

    def __str__(self) -> str:
        return f"range {self.bits}"


@frozen
class Table:
    """A table of 2**log2_size entries of `width` elements, which the caller commits to."""

    log2_size: int
    width: int = 1

    def __post_init__(self) -> None:
        log2_size = whole_number("the logarithm of a table", self.log2_size, 1, MAX_VARIABLES)
        width = whole_number("the width of a table", self.width, 1, MAX_WIDTH)
        self.__dict__.update(log2_size=log2_size, width=width)

    def __str__(self) -> str:
        return f"table {self.log2_size} {self.width}"


@frozen
class AffineForm:
    """A virtual element of rows: constant + the sum of coefficients times columns, modulo p."""

    constant: int
    coefficients: tuple[int, ...]

    def __post_init__(self) -> None:
        coefficients: object = self.coefficients
        if not isinstance(coefficients, tuple) or not coefficients:
            raise InputError("an affine form needs a tuple of at least one coefficient")
        for number in (self.constant, *self.coefficients):
            if type(number) is not int or not -_MAX_NUMBER < number < _MAX_NUMBER:
                raise InputError(
                    f"the numbers of an affine form are integers below 2^64 in size, not {number!r}"
                )

    def __str__(self) -> str:
        return ",".join(map(str, (self.constant, *self.coefficients)))


IDENTITY = AffineForm(0, (1,))
"""The form of an element that is a column itself."""


@frozen
class Statement:
    """The statement that each row of `columns` columns of 2**log2_size rows is in `table`.

    field: the field of challenges; all values are in its prime field.
    forms: for each column the affine form of each element of its rows; empty if all elements are
        columns themselves.
    Raises InputError if there are as many lookups as the prime field has elements, as counts would
    wrap.
    """

    field: FieldSpec
    columns: int
    log2_size: int
    table: Range | Table
    forms: tuple[tuple[AffineForm, ...], ...] = ()

    def __post_init__(self) -> None:
        challenge_bits(self.field)
        columns = whole_number("the columns", self.columns, 1, MAX_COLUMNS)
        log2_size = whole_number("the logarithm of the rows", self.log2_size, 1, MAX_VARIABLES)
        self.__dict__.update(columns=columns, log2_size=log2_size)
        if self.log_columns + log2_size > MAX_VARIABLES:
            raise InputError(f"{columns} columns of 2^{log2_size} rows are more than 2^30 lookups")
        shape = (len(self.forms), {len(forms) for forms in self.forms})
        if self.forms and shape != (columns, {self.table.width}):
            raise InputError(
                f"the affine forms must be {self.table.width} for each of {columns} columns"
            )
        modulus = self.field.modulus
        if self.lookups >= modulus.value:
            raise InputError(
                f"{self.lookups} lookups need a prime field of more elements than {modulus.name} "
                "has; use a larger field, or fewer lookups per proof"
            )
        if isinstance(self.table, Range) and modulus.value < 1 << self.table.bits:
            raise InputError(
                f"a range of {self.table.bits} bits exceeds the prime of {modulus.name}"
            )

    @property
    def log_columns(self) -> int:
        """The base-2 logarithm of the number of columns, rounded up to a power of two."""
        return (self.columns - 1).bit_length()

    @property
    def lookups(self) -> int:
        """The number of lookups."""
        return self.columns << self.log2_size

    @property
    def padding(self) -> int:
        """The number of fractions 1/1 that pad the columns to a power of two."""
        return ((1 << self.log_columns) - self.columns) << self.log2_size

    @property
    def trees(self) -> tuple[FractionTree, FractionTree]:
        """The sums of fractions: over the lookups, and over the table."""
        return (
            FractionTree(self.log_columns + self.log2_size, False),
            FractionTree(self.table.log2_size, True),
        )

    def absorb(self, transcript: Transcript) -> None:
        """Absorb the statement, so that all challenges depend on it."""
        transcript.begin(PROTOCOL)
        transcript.absorb(Label.FIELD, describe(self.field))
        parameters = f"{self.columns} {self.log2_size} {self.table}"
        for forms in self.forms:
            parameters += " " + ";".join(map(str, forms))
        transcript.absorb(Label.PARAMETERS, parameters.encode())

    def form(self, column: int, element: int) -> AffineForm:
        """Return the form of an element of a column's rows."""
        return self.forms[column][element] if self.forms else IDENTITY

    def arrays(self, column: int) -> int:
        """The number of arrays whose values the proof states for a column."""
        return sum(
            len(self.form(column, element).coefficients) for element in range(self.table.width)
        )


def error_terms(
    statement: Statement | Sequence[Statement], *, hash: Hash = Hash.SHA3_256,
    scheme: Scheme | None = None,
) -> dict[str, Fraction]:  # fmt: skip
    """Return the probability that a false statement is accepted, by cause, for random challenges.

    statement: several statements are runs with challenges of their own, in one proof. A false
        proof has a false run, and needs that run to pass. So the terms are those of the run with
        the largest sum, and not the sum over runs.
    scheme: includes the openings of `prove_committed`, those of all runs. Without it, the error of
        the commitments to columns and multiplicities is not included.
    """
    runs = [statement] if isinstance(statement, Statement) else list(statement)
    if not runs:
        raise InputError("the error terms need at least one statement")
    terms = max(map(_run_terms, runs), key=lambda terms: sum(terms.values()))
    terms["the hash"] = Fraction(1, 1 << hash.collision_bits)
    if scheme is not None:
        for run in runs:
            arrays = sum(map(run.arrays, range(run.columns)))
            for count, size in ((arrays, run.log2_size), (1, run.table.log2_size)):
                for cause, term in scheme.error_terms(run.field, size).items():
                    name = f"openings: {cause}"
                    terms[name] = terms.get(name, Fraction(0)) + count * term
    return terms


def _run_terms(statement: Statement) -> dict[str, Fraction]:
    """Return the error terms of the challenges of one run."""
    challenge_error = most_likely(statement.field)
    trees, entries = statement.trees, 1 << statement.table.log2_size
    layers = layers_of(trees)
    rounds = combined_claims = 0
    for layer in range(1, layers):
        tree_count = sum(1 for tree in trees if tree.tables(layer))
        rounds += DEGREE * layer
        combined_claims += 2 * tree_count - 1
    degree = (statement.lookups + entries - 1) * max(1, statement.table.width - 1)
    return {
        "the sums of fractions": degree * challenge_error,
        "claims combined": combined_claims * challenge_error,
        "rounds of sumchecks": rounds * challenge_error,
        "points between halves": layers * challenge_error,
    }


def check_lookup(
    statement: Statement, hash: Hash, allow_bits: int, scheme: Scheme | None = None
) -> None:
    """Raise InputError if `error_terms` leave fewer bits than `allow_bits`."""
    terms = error_terms(statement, hash=hash, scheme=scheme)
    what = f"a proof of {statement.lookups} lookups over {statement.field.name}"
    check_bits(what, terms, allow_bits)

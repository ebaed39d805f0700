"""The static parameters of the kernels of a sumcheck."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from quod.errors import InputError
from quod.field.spec import FieldSpec
from quod.frozen import frozen
from quod.hash.table import Hash
from quod.sumcheck.polynomial import SumOfProducts
from quod.validation import whole_number, whole_number_or_none

if TYPE_CHECKING:
    from quod.kernel.ir.value import Value
    from quod.sumcheck.mixed import MixedField
    from quod.sumcheck.structs import InputTables


class Source(Protocol):
    """Tables that kernels compute from other data wherever they read an entry.

    An implementation is a frozen record, because it is a static argument of kernels.
    """

    @property
    def tables(self) -> int:
        """The number of tables, which are the first ones of the shape."""

    def reader(self, mixed: MixedField, inputs: InputTables, log_size: Value) -> Reader:
        """Return the reader of tables of 2**log_size entries, in a kernel.

        `inputs` has `base` and `parameters` for the source's own use.
        """


class Reader(Protocol):
    """The tables of a source in a kernel."""

    def load(self, table: int, index: Value) -> Any:
        """Compute an entry, in the prime field if the table is one of `Shape.in_base`."""


@frozen
class Shape:
    """The shape of a sumcheck.

    field: the field of challenges.
    in_base: the first `in_base` tables have elements of the prime field before their first fold,
        in a separate buffer.
    has_point: the sum is weighted by eq of a point.
    scales: for each term None, or the index in `equality` of its scale, a coefficient that is known
        only at run time; empty if no term has one.
    hash: the hash of the transcript.
    source: computes the first tables, which are not in memory before their first fold. Tables of a
        source need a batch of 1.
    Raises InputError for values out of range.
    """

    field: FieldSpec
    polynomial: SumOfProducts
    in_base: int
    has_point: bool
    scales: tuple[int | None, ...] = ()
    hash: Hash = Hash.SHA3_256
    source: Source | None = None

    def __post_init__(self) -> None:
        in_base = whole_number("the tables in the prime field", self.in_base, 0, self.tables)
        self.hash.check_challenges(self.field)
        if self.source is not None and not in_base <= self.source.tables <= self.tables:
            raise InputError(
                f"a source of {self.source.tables} tables does not fit {self.tables} tables, "
                f"{in_base} of which are in the prime field"
            )
        terms = len(self.polynomial.terms)
        if len(self.scales) not in (0, terms):
            raise InputError(
                f"the polynomial has {terms} terms, but there are {len(self.scales)} scales"
            )
        scales = tuple(
            whole_number_or_none("the number of a scale", scale, 0, terms - 1)
            for scale in self.scales
        )
        self.__dict__.update(in_base=in_base, scales=scales)

    @property
    def tables(self) -> int:
        return self.polynomial.tables

    @property
    def scale_count(self) -> int:
        """The number of scales of terms per sumcheck."""
        return 1 + max((scale for scale in self.scales if scale is not None), default=-1)

    @property
    def degree(self) -> int:
        """The degree of a round's polynomial, without the factor of eq."""
        return self.polynomial.degree

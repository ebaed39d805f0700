"""What is fixed in the compiled kernels of a sumcheck."""

from __future__ import annotations

from quod.errors import InputError
from quod.field.spec import FieldSpec
from quod.frozen import frozen
from quod.hash.table import Hash
from quod.sumcheck.polynomial import SumOfProducts
from quod.validation import whole_number, whole_number_or_none


@frozen
class Shape:
    """The first `in_base` tables hold elements of the prime field, until their first fold, and lie
    in a buffer of their own.

    `has_point` says that the sum is weighted by eq of a point. `scales` has for each term the
    number of the element of device memory that multiplies it, or None; empty for none at all.
    `hash` is that of the transcript.
    """

    field: FieldSpec
    polynomial: SumOfProducts
    in_base: int
    has_point: bool
    scales: tuple[int | None, ...] = ()
    hash: Hash = Hash.SHA3_256

    def __post_init__(self) -> None:
        in_base = whole_number("the tables in the prime field", self.in_base, 0, self.tables)
        self.hash.check_challenges(self.field)
        terms = len(self.polynomial.terms)
        if len(self.scales) not in (0, terms):
            raise InputError(f"there are scales for {len(self.scales)} terms, and {terms} terms")
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
        """Elements that multiply terms."""
        return 1 + max((scale for scale in self.scales if scale is not None), default=-1)

    @property
    def degree(self) -> int:
        """The degree of a round's polynomial, without the factor of eq."""
        return self.polynomial.degree

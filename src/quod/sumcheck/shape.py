"""What is fixed in the compiled kernels of a sumcheck."""

from __future__ import annotations

from quod.field.array import check_field
from quod.field.moduli import Modulus
from quod.field.spec import FieldSpec
from quod.frozen import frozen
from quod.sumcheck.polynomial import MAKE_ONE, SumOfProducts
from quod.validation import flag, instance, whole_number


@frozen
class Shape:
    """The first `in_base` tables hold elements of the prime field, until their first fold.

    `has_point` says that the sum is weighted by eq of a point.
    """

    field: FieldSpec
    polynomial: SumOfProducts
    in_base: int
    has_point: bool

    def __post_init__(self) -> None:
        check_field(self.field)
        instance("the polynomial", self.polynomial, SumOfProducts, MAKE_ONE)
        most = 0 if isinstance(self.field, Modulus) else self.tables
        whole_number("the tables in the prime field", self.in_base, 0, most)
        flag("has_point", self.has_point)

    @property
    def tables(self) -> int:
        return self.polynomial.tables

    @property
    def degree(self) -> int:
        """The degree of a round's polynomial, without the factor of eq."""
        return self.polynomial.degree

"""Field elements with operators on Python integers, for the formulas of verifiers."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from typing import Self

from quod.errors import MismatchError
from quod.field.plain_extension import Plain, power, product
from quod.field.spec import FieldSpec


class PlainElement:
    """An element of a prime field or an extension.

    coefficients: coefficients over the prime field, each below p; see `quod.field.plain_extension`.

    Operators raise MismatchError for operands of different fields. A factor may be an int, which is
    reduced modulo p.
    """

    __slots__ = ("coefficients", "field")

    def __init__(self, field: FieldSpec, coefficients: Plain) -> None:
        self.field, self.coefficients = field, coefficients

    @classmethod
    def zero(cls, field: FieldSpec) -> Self:
        """The neutral element of addition."""
        return cls.of(field, 0)

    @classmethod
    def one(cls, field: FieldSpec) -> Self:
        """The neutral element of multiplication."""
        return cls.of(field, 1)

    @classmethod
    def of(cls, field: FieldSpec, number: int) -> Self:
        """Return the residue of an integer, embedded from the prime field."""
        return cls(field, (number % field.modulus.value, *([0] * (field.degree - 1))))

    @classmethod
    def from_coefficients(cls, field: FieldSpec, values: Iterable[Plain]) -> list[Self]:
        """Return an element for each tuple of coefficients."""
        return [cls(field, value) for value in values]

    def __add__(self, other: PlainElement) -> PlainElement:
        if other.field is not self.field or len(other.coefficients) != len(self.coefficients):
            self._check_operand(other)
        p = self.field.modulus.value
        sums = map(operator.add, self.coefficients, other.coefficients)
        return PlainElement(self.field, tuple([c % p for c in sums]))

    def __sub__(self, other: PlainElement) -> PlainElement:
        if other.field is not self.field or len(other.coefficients) != len(self.coefficients):
            self._check_operand(other)
        p = self.field.modulus.value
        differences = map(operator.sub, self.coefficients, other.coefficients)
        return PlainElement(self.field, tuple([c % p for c in differences]))

    def __mul__(self, other: PlainElement | int) -> PlainElement:
        if isinstance(other, int):
            p = self.field.modulus.value
            return PlainElement(self.field, tuple([c * other % p for c in self.coefficients]))
        if other.field is not self.field or len(other.coefficients) != len(self.coefficients):
            self._check_operand(other)
        return PlainElement(self.field, product(self.field, self.coefficients, other.coefficients))

    def __pow__(self, exponent: int) -> PlainElement:
        return PlainElement(self.field, power(self.field, self.coefficients, exponent))

    def _check_operand(self, other: PlainElement) -> None:
        """Raise MismatchError for another field, or a wrong number of coefficients."""
        if other.field != self.field:
            raise MismatchError(
                f"an element of {self.field.name} cannot be combined with one of "
                f"{other.field.name}; take both from one field"
            )
        for element in (self, other):
            if len(element.coefficients) != self.field.degree:
                raise MismatchError(
                    f"an element of {self.field.name} has {self.field.degree} coefficients, not "
                    f"{len(element.coefficients)}"
                )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, PlainElement):
            return NotImplemented
        return self.field == other.field and self.coefficients == other.coefficients

    def __hash__(self) -> int:
        return hash((self.field, self.coefficients))

    def __repr__(self) -> str:
        return f"PlainElement({self.field.name}, {self.coefficients})"


def coefficients_of(elements: Sequence[PlainElement]) -> tuple[Plain, ...]:
    """Return the coefficients of elements, as proofs and claims represent them."""
    return tuple(element.coefficients for element in elements)

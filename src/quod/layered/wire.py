"""Wires: sums of products of a program's values, with the operators of a field.

A wire is a sum of products of two values, and of powers of one value up to the fifth. The gates of
one layer compute such sums, so a sum costs no layer. A product costs one only if its expansion has
too many terms, or terms that no gate computes. `as_value` turns a sum into a value.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from quod.errors import InputError
from quod.field.moduli import Modulus
from quod.layered.circuit import POWERS
from quod.validation import shown_kind, whole_number

Product = tuple[int, ...]
"""The indices of the multiplied values, in ascending order; empty for 1."""

Terms = dict[Product, int]
"""A sum of products, each with its coefficient from 1 to p - 1."""

MAX_POWER = max(POWERS.values())
MAX_EXPONENT = 1 << 16
# A product of sums is expanded if it has at most this many terms: this takes as many gates as
# separate values for the sums, and saves a layer.
MAX_EXPANDED = 4


class Owner(Protocol):
    """The attributes of a program that its wires use."""

    field: Modulus

    def value_of(self, terms: Terms) -> int:
        """Return the index of the value that equals a sum; adds the value if it is new."""
        ...


class Wire:
    """A sum of products of values, with the operators +, - and * by wires and int.

    The exponent of ** is an int of at least 0.
    InputError for operands that are neither int nor a wire of the same program.
    """

    __slots__ = ("owner", "terms")
    # NumPy integers on the left must defer to the reflected operators.
    __array_ufunc__ = None

    def __init__(self, owner: Owner, terms: Terms) -> None:
        self.owner, self.terms = owner, terms

    def __add__(self, other: Wire | int) -> Wire:
        return weighted_sum(self.owner, (self, other))

    __radd__ = __add__

    def __neg__(self) -> Wire:
        return self._scaled(-1)

    def __sub__(self, other: Wire | int) -> Wire:
        return weighted_sum(self.owner, (self, other), (1, -1))

    def __rsub__(self, other: Wire | int) -> Wire:
        return weighted_sum(self.owner, (self, other), (-1, 1))

    def __mul__(self, other: Wire | int) -> Wire:
        factor = wire_of(self.owner, other)
        if not len(self.terms) == len(factor.terms) == 1:
            if (constant := factor.constant) is not None:
                return self._scaled(constant)
            if (constant := self.constant) is not None:
                return factor._scaled(constant)
        terms = self._expanded(factor)
        if terms is None:
            # The factor with the higher degree, or with more terms, becomes a value; both do if
            # the product still cannot be expanded.
            ordered = self._weight <= factor._weight
            first, second = (self, factor) if ordered else (factor, self)
            second = second._factor()
            terms = first._expanded(second)
            if terms is None:
                terms = first._factor()._expanded(second)
        assert terms is not None
        return Wire(self.owner, terms)

    __rmul__ = __mul__

    def __pow__(self, exponent: int) -> Wire:
        exponent = whole_number("the exponent of a wire", exponent, 0, MAX_EXPONENT)
        if exponent == 0:
            return wire_of(self.owner, 1)
        if exponent <= 2:
            return self if exponent == 1 else self * self
        if (constant := self.constant) is not None:
            return wire_of(self.owner, pow(constant, exponent, self._p))
        if exponent > MAX_POWER:
            half = exponent // 2
            return (self**half).as_value() * (self ** (exponent - half)).as_value()
        ((product, coefficient),) = self._factor().terms.items()
        return Wire(self.owner, {product * exponent: pow(coefficient, exponent, self._p)})

    def as_value(self) -> Wire:
        """Return the wire as one value: costs a layer, but each use takes one gate."""
        if self.constant is not None:
            return self
        return Wire(self.owner, {(self.owner.value_of(self.terms),): 1})

    def __bool__(self) -> bool:
        raise InputError("a wire has no truth value: it is known only when inputs are given")

    def __repr__(self) -> str:
        return f"Wire({len(self.terms)} terms)"

    @property
    def constant(self) -> int | None:
        """The value of a constant wire, else None."""
        if not self.terms:
            return 0
        return self.terms.get(()) if len(self.terms) == 1 else None

    @property
    def _p(self) -> int:
        return self.owner.field.value

    @property
    def _weight(self) -> tuple[int, int]:
        return max(map(len, self.terms)), len(self.terms)

    def _factor(self) -> Wire:
        """Return the wire if it is a single value times a constant, else `as_value`."""
        if len(self.terms) == 1:
            (product,) = self.terms
            if len(product) == 1:
                return self
        return self.as_value()

    def _scaled(self, factor: int) -> Wire:
        factor %= self._p
        if not factor:
            return Wire(self.owner, {})
        p = self._p
        return Wire(self.owner, {key: value * factor % p for key, value in self.terms.items()})

    def _expanded(self, other: Wire) -> Terms | None:
        """Return the expanded product; None if it has too many terms, or terms that gates lack."""
        p = self._p
        if len(self.terms) == len(other.terms) == 1:
            # The usual case, without a dictionary; no coefficient is 0 modulo p.
            ((left, coefficient),), ((right, factor),) = self.terms.items(), other.terms.items()
            single = _product(left, right)
            return None if single is None else {single: coefficient * factor % p}
        if len(self.terms) * len(other.terms) > MAX_EXPANDED:
            return None
        terms = dict[Product, int]()
        for left, coefficient in self.terms.items():
            for right, factor in other.terms.items():
                product = _product(left, right)
                if product is None:
                    return None
                terms[product] = (terms.get(product, 0) + coefficient * factor) % p
        return {key: value for key, value in terms.items() if value}


def _product(left: Product, right: Product) -> Product | None:
    """Return the product of two products; None if gates cannot compute it."""
    product = left + right
    if len(product) == 2 and product[0] > product[1]:
        return product[::-1]
    if len(product) > 2 and (len(product) > MAX_POWER or product.count(product[0]) != len(product)):
        return None
    return product


def wire_of(owner: Owner, value: object) -> Wire:
    """Return a wire or an int as a wire of the program; InputError for anything else."""
    if isinstance(value, Wire):
        if value.owner is not owner:
            raise InputError("the wires belong to two programs; use wires of one Program")
        return value
    if type(value) is not int:
        try:
            value = whole_number("a value", value)
        except InputError:
            raise InputError(f"a value must be a Wire or an int, not {shown_kind(value)}") from None
    constant = value % owner.field.value
    return Wire(owner, {(): constant} if constant else {})


def weighted_sum(
    owner: Owner, values: Iterable[Wire | int], weights: Sequence[int] | None = None
) -> Wire:
    """Return the sum of values times weights, by default 1."""
    p, terms = owner.field.value, dict[Product, int]()
    for index, value in enumerate(values):
        weight = 1 if weights is None else weights[index]
        for product, coefficient in wire_of(owner, value).terms.items():
            terms[product] = (terms.get(product, 0) + weight * coefficient) % p
    return Wire(owner, {key: value for key, value in terms.items() if value})

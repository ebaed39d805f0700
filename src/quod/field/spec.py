"""Extensions of prime fields, and the common type of both kinds of fields.

An extension is K[x]/(f) for a monic irreducible polynomial f over K, a prime field or an extension.
An element is the list of its coefficients of 1, x, x^2, ..., each an element of K, flattened to
coefficients over the prime field. In memory the coefficients are in this order, each as in
`quod.field.moduli`; on the host an element is a tuple of int.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, Self, TypeAlias

from quod.errors import InputError
from quod.field.moduli import Modulus
from quod.frozen import frozen

Coefficient: TypeAlias = "int | tuple[int, ...]"
"""An element of K: an int, or a tuple of int if K is an extension, where an int is embedded."""

MAX_DEGREE = 16
"""The highest degree over the prime field; a product takes degree**2 products of coefficients."""


@frozen
class Extension:
    """An extension K[x]/(f): ``Extension("m31.3", M31, (-5, 0, 0, 1))`` is M31[x]/(x^3 - 5).

    name: used in messages.
    base: K.
    polynomial: the coefficients of f, constant term first: int, or tuples of int if K is an
        extension, where an int is an element of the prime field.

    Raises InputError unless f is monic and irreducible, of degree 2 or more, and the degree over
    the prime field is at most 16.
    """

    name: str
    base: FieldSpec
    polynomial: tuple[Coefficient, ...]

    def __post_init__(self) -> None:
        # Any lets the type checker accept tests of the types at run time.
        arguments: tuple[Any, Any] = (self.name, self.base)
        if type(arguments[0]) is not str or not isinstance(arguments[1], Modulus | Extension):
            kinds = " and ".join(type(part).__name__ for part in arguments)
            raise InputError(
                f"an extension needs a name (str), a field (Modulus or Extension) and a "
                f"polynomial; its first arguments are {kinds}"
            )
        coefficients = self._checked(self.polynomial)
        self.__dict__.update(polynomial=coefficients)
        degree, max_degree = len(coefficients) - 1, MAX_DEGREE // self.base.degree
        if degree < 2:
            raise InputError(
                f"the polynomial of {self.name} has degree {degree}; an extension needs degree 2 "
                "or more, with the coefficients in ascending order of powers"
            )
        if degree > max_degree:
            raise InputError(
                f"the polynomial of {self.name} has degree {degree}, but extensions of "
                f"{self.base.name} have a degree of at most {max_degree}"
            )
        if coefficients[-1] != self._embedded_integer(1):
            raise InputError(
                f"the polynomial of {self.name} is not monic; divide it by its last coefficient"
            )
        # Imported here, as Quod's own extensions skip this test.
        from quod.field.plain_extension import is_irreducible

        if not is_irreducible(self):
            raise InputError(
                f"the polynomial of {self.name} is reducible over {self.base.name}, so some "
                "elements other than 0 have no inverse; take an irreducible polynomial"
            )

    @classmethod
    def binomial(cls, name: str, base: FieldSpec, degree: int, radicand: Coefficient) -> Self:
        """Return K[x]/(x^degree - radicand); raise InputError if that is not a field."""
        integer: object = degree  # for the test of its type at run time
        parts = radicand if isinstance(radicand, tuple) else (radicand,)
        if (
            type(integer) is not int
            or not 2 <= integer <= MAX_DEGREE
            or any(type(part) is not int for part in parts)
        ):
            raise InputError(
                f"the binomial of {name} needs a degree from 2 to {MAX_DEGREE} and a radicand that "
                f"is an int, or over an extension a tuple of int, not {degree!r} and {radicand!r}"
            )
        return cls(name, base, _binomial(base, degree, radicand))

    @classmethod
    def unchecked_binomial(
        cls, name: str, base: FieldSpec, degree: int, radicand: Coefficient
    ) -> Self:
        """Return K[x]/(x^degree - radicand) without a test, which saves time at import.

        Quod's own extensions are checked in the tests. `radicand` must be centred between -p/2 and
        p/2.
        """
        return cls.unchecked_polynomial(name, base, _binomial(base, degree, radicand))

    @classmethod
    def unchecked_polynomial(
        cls, name: str, base: FieldSpec, polynomial: tuple[Coefficient, ...]
    ) -> Self:
        """Return K[x]/(polynomial) without a test; the coefficients must be centred."""
        extension = object.__new__(cls)
        extension.__dict__.update(name=name, base=base, polynomial=polynomial)
        return extension

    def _checked(self, polynomial: object) -> tuple[Coefficient, ...]:
        """Return the coefficients centred between -p/2 and p/2; raise InputError if invalid."""
        size = self.base.degree
        kind = "int" if size == 1 else f"int or tuples of {size} int"
        if not isinstance(polynomial, Sequence) or isinstance(polynomial, str | bytes):
            raise InputError(
                f"the polynomial of {self.name} must be a tuple of coefficients ({kind}), not "
                f"{type(polynomial).__name__}"
            )
        coefficients: list[Coefficient] = []
        for index, coefficient in enumerate(polynomial):
            flat = (coefficient,) if type(coefficient) is int else coefficient
            if type(flat) is not tuple or any(type(part) is not int for part in flat):
                raise InputError(
                    f"coefficient {index} of the polynomial of {self.name} must be {kind}"
                )
            if len(flat) not in (1, size):
                raise InputError(
                    f"coefficient {index} of the polynomial of {self.name} has {len(flat)} int; "
                    f"coefficients over {self.base.name} are {kind}"
                )
            centred = tuple(self.modulus.centred(part) for part in flat)
            coefficients.append(
                centred[0] if size == 1 else (*centred, *([0] * (size - len(centred))))
            )
        return tuple(coefficients)

    def _embedded_integer(self, number: int) -> Coefficient:
        size = self.base.degree
        return number if size == 1 else (number, *([0] * (size - 1)))

    @cached_property
    def modulus(self) -> Modulus:
        """The prime field at the bottom."""
        return self.base.modulus

    @cached_property
    def degree(self) -> int:
        """The degree over the prime field, which is the number of an element's coefficients."""
        return self.base.degree * (len(self.polynomial) - 1)

    @cached_property
    def words(self) -> int:
        """32-bit words of an element in memory."""
        return self.degree * self.modulus.words

    @cached_property
    def product_terms(self) -> tuple[tuple[tuple[int, int, int], ...], ...]:
        """For each coefficient of a product a * b, its terms factor * a_i * b_j as (factor, i, j).

        See `plain_extension.product_terms`.
        """
        from quod.field.plain_extension import product_terms

        return product_terms(self)

    @cached_property
    def non_residue(self) -> int | None:
        """The integer a of a polynomial x^n - a over a prime field; None for other polynomials."""
        first, *middle, _ = self.polynomial
        return -first if isinstance(first, int) and not any(middle) else None

    @property
    def adjoins_square_root(self) -> bool:
        """True for a polynomial x^2 - a over a prime field."""
        return self.degree == 2 and self.non_residue is not None


FieldSpec: TypeAlias = Modulus | Extension
"""A prime field or an extension; the static argument of kernels over fields of any degree."""


def _binomial(base: FieldSpec, degree: int, radicand: Coefficient) -> tuple[Coefficient, ...]:
    """Return the coefficients of x^degree - radicand, constant term first."""
    if isinstance(radicand, tuple):
        zero: Coefficient = (0,) * len(radicand)
        unit: Coefficient = (1, *([0] * (len(radicand) - 1)))
        return (tuple(-part for part in radicand), *([zero] * (degree - 1)), unit)
    return (-radicand, *([0] * (degree - 1)), 1)

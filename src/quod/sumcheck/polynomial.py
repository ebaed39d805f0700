"""The polynomial that a sumcheck sums: a sum of products of multilinear polynomials."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

from quod.errors import InputError
from quod.frozen import frozen
from quod.validation import shown, whole_number

MAX_DEGREE = 6
MAX_TABLES = 16
MAX_TERMS = 64
MAX_BITS = 1024


Term = tuple[int, tuple[int, ...]]
"""A coefficient and the indices of the tables whose product it multiplies, with repetitions."""


@frozen
class SumOfProducts:
    """A polynomial in multilinear tables: ``((1, (0, 1)), (-3, (2,)))`` is f0*f1 - 3*f2.

    terms: 1 to 64 pairs of a coefficient, an integer of at most 1024 bits taken modulo p, and the
        indices of the at most six tables of its product. The indices of all terms are 0 to n - 1
        without gaps; n is at most 16.
    Raises InputError for other terms.
    """

    terms: tuple[Term, ...]

    def __post_init__(self) -> None:
        sequence: object = self.terms
        if not isinstance(sequence, Sequence) or isinstance(sequence, str) or not sequence:
            raise InputError(
                "a sum of products must be a tuple of terms, each a coefficient and a tuple of "
                "tables, as in ((1, (0, 1)), (-3, (2,)))"
            )
        if len(sequence) > MAX_TERMS:
            raise InputError(
                f"a sum of products has at most {MAX_TERMS} terms, not {len(sequence)}"
            )
        terms = tuple(_checked_term(number, term) for number, term in enumerate(sequence))
        used = sorted({table for _, tables in terms for table in tables})
        if not used or used != list(range(used[-1] + 1)):
            raise InputError(
                f"the terms use the tables {used}; number the tables from 0 without gaps, so that "
                "each is in a term"
            )
        self.__dict__.update(terms=terms)

    @classmethod
    def product(cls, count: int) -> Self:
        """Return f0 * f1 * ..., of `count` factors, from 1 to 6."""
        return cls(((1, tuple(range(whole_number("the factors", count, 1, MAX_DEGREE)))),))

    @property
    def degree(self) -> int:
        """The degree in each variable: the largest number of factors of a term."""
        return max(len(tables) for _, tables in self.terms)

    @property
    def tables(self) -> int:
        """Number of multilinear polynomials."""
        return 1 + max(table for _, tables in self.terms for table in tables)

    def __str__(self) -> str:
        return " + ".join(
            "*".join([str(coefficient), *(f"f{table}" for table in tables)])
            for coefficient, tables in self.terms
        )


def _checked_term(number: int, term: object) -> Term:
    """Return a validated term with its table indices sorted; raise InputError if it is no term."""
    if not isinstance(term, Sequence) or isinstance(term, str) or len(term) != 2:
        raise InputError(f"term {number} must be a pair of a coefficient and a tuple of tables")
    coefficient, tables = term
    if type(coefficient) is not int or coefficient.bit_length() > MAX_BITS:
        raise InputError(
            f"the coefficient of term {number} must be an int of at most {MAX_BITS} bits, not "
            f"{shown(coefficient)}"
        )
    if not isinstance(tables, Sequence) or isinstance(tables, (str, bytes, bytearray, memoryview)):
        raise InputError(f"the tables of term {number} must be a tuple of int")
    if len(tables) > MAX_DEGREE:
        raise InputError(
            f"term {number} has {len(tables)} factors, above the limit of {MAX_DEGREE}"
        )
    tables = tuple(tables)
    if any(type(table) is not int for table in tables):
        raise InputError(f"the tables of term {number} must be a tuple of int")
    if any(not 0 <= table < MAX_TABLES for table in tables):
        raise InputError(f"the tables of term {number} must be indices from 0 to {MAX_TABLES - 1}")
    return coefficient, tuple(sorted(tables))

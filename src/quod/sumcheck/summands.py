"""What entries of every table add to the values of a round's polynomial, or of two rounds' at once.

A pass over the tables looks one or two rounds ahead. Two rounds take the values on a grid, of both
variables at once (Bagad, Dao, Domb and Thaler, "Speeding up sum-check proving", eprint 2025/1117):
more products, and one pass over memory instead of two.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from quod.frozen import frozen
from quod.kernel.value import Value
from quod.sumcheck.interpolation import Place, at_place, places
from quod.sumcheck.mixed import MixedField
from quod.sumcheck.polynomial import SumOfProducts, Term

Point = tuple[Place, ...]
"""A place for each variable of the rounds ahead."""


def evaluated(degree: int, depth: int) -> list[Point]:
    """The points at which tables are evaluated: of one round all places but 1, which the claim
    gives, and of two rounds the whole grid."""
    if depth == 1:
        return [(place,) for place in (0, *places(degree)[2:])]
    return list(itertools.product(places(degree), repeat=depth))


@frozen(eq=False)
class Summand:
    """Of each table its entries at the corners of the variables ahead, and the `weight` of all."""

    corners: list[list[Any]]
    weight: Any = None


def summands(
    mixed: MixedField,
    polynomial: SumOfProducts,
    items: Sequence[Summand],
    depth: int,
    at_one: Value | None = None,
) -> list[Any]:
    """The sums over items of the weighted polynomial at each of `evaluated`.

    `at_one` says that the first place of a single round is 1 instead of 0.
    """
    degree, results = polynomial.degree, []
    for point in evaluated(degree, depth):
        terms = polynomial.terms
        if None in point:
            terms = tuple(term for term in terms if len(term[1]) == degree)
        values = [
            [_at(mixed, point, corners, at_one) for corners in item.corners] for item in items
        ]
        results.append(_sum(mixed, terms, values, [item.weight for item in items]))
    return results


def _at(mixed: MixedField, point: Point, corners: list[Any], at_one: Value | None) -> Any:
    """The multilinear polynomial of values at corners, the first variable's bit the highest."""
    for place in point:
        half = len(corners) // 2
        pairs = zip(corners[:half], corners[half:], strict=True)
        if place == 0 and at_one is not None:
            corners = [
                (mixed.extended if mixed.is_extended(low) else mixed.base).select(at_one, high, low)
                for low, high in pairs
            ]
        else:
            corners = [at_place(low, high, place) for low, high in pairs]
    return corners[0]


def polynomial_value(mixed: MixedField, polynomial: SumOfProducts, values: list[Any]) -> Any:
    """The polynomial of values of its tables."""
    return _sum(mixed, polynomial.terms, [values], [None])


def _sum(
    mixed: MixedField, terms: Sequence[Term], values: list[list[Any]], weights: list[Any]
) -> Any:
    """The weighted polynomials of several values of its tables, all last products reduced once."""
    products, alone = [], []
    for own, weight in zip(values, weights, strict=True):
        for coefficient, tables in terms:
            factors = [own[table] for table in tables]
            if weight is not None:
                factors.append(weight)
            if not factors:
                alone.append(mixed.base.constant(coefficient))
                continue
            # Those of the prime field first; a coefficient with them.
            first, *rest = sorted(factors, key=mixed.is_extended)
            if coefficient != 1:
                first = first * coefficient
            if not rest:
                alone.append(first)
                continue
            for factor in rest[:-1]:
                first = mixed.multiply(first, factor)
            products.append((first, rest[-1]))
    total = mixed.sum_of_products(products) if products else None
    for part in alone:
        total = part if total is None else mixed.add(total, part)
    return total

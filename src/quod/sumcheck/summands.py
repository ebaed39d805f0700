"""The contributions of table entries to the values of one or two rounds' polynomials.

A pass over the tables evaluates one or two rounds. Two rounds take the values on a grid of both
variables (Bagad, Dao, Domb and Thaler, "Speeding up sum-check proving", eprint 2025/1117): more
products, but one pass over memory instead of two.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from quod.frozen import frozen
from quod.kernel.ir.value import Value
from quod.sumcheck.accumulators import Running
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
    """The entries of each table at the hypercube points of a pass's variables, and their weight."""

    corners: list[list[Any]]
    weight: Any = None


def summands(
    mixed: MixedField,
    polynomial: SumOfProducts,
    items: Sequence[Summand],
    depth: int,
    scales: Sequence[Any],
    running: Running,
    at_one: Value | None = None,
) -> list[Any]:
    """The sums over items of the weighted polynomial at each of `evaluated`, as parts of `running`.

    `scales` has what multiplies each term, None for nothing. `at_one` says that the first place of
    a single round is 1 instead of 0.
    """
    degree, results = polynomial.degree, []
    for point in evaluated(degree, depth):
        terms = _scaled(polynomial, scales)
        if None in point:
            terms = [term for term in terms if len(term[0][1]) == degree]
        values = [
            [value_at(mixed, point, corners, at_one) for corners in item.corners] for item in items
        ]
        weights = [item.weight for item in items]
        results.append(running.part(_sum(mixed, terms, values, weights)))
    return results


def value_at(mixed: MixedField, point: Point, corners: list[Any], at_one: Value | None) -> Any:
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


def polynomial_value(
    mixed: MixedField, polynomial: SumOfProducts, values: list[Any], scales: Sequence[Any]
) -> Any:
    """The polynomial of values of its tables."""
    return _sum(mixed, _scaled(polynomial, scales), [values], [None]).total()


_ScaledTerm = tuple[Term, Any]


def _scaled(polynomial: SumOfProducts, scales: Sequence[Any]) -> list[_ScaledTerm]:
    return list(zip(polynomial.terms, scales, strict=True))


def _sum(
    mixed: MixedField, terms: Sequence[_ScaledTerm], values: list[list[Any]], weights: list[Any]
) -> _Sums:
    """The weighted polynomials of several values of its tables, all last products reduced once.

    Terms of one scale are added up before it multiplies them, and all of them before the weight.
    """
    sums = _Sums(mixed)
    for table_values, weight in zip(values, weights, strict=True):
        item = sums if weight is None else _Sums(mixed)
        by_scale: dict[int, tuple[Any, _Sums]] = {}
        for (coefficient, tables), scale in terms:
            part = item
            if scale is not None:
                _, part = by_scale.setdefault(id(scale), (scale, _Sums(mixed)))
            part.add_term(coefficient, [table_values[table] for table in tables])
        for scale, part in by_scale.values():
            item.products.append((part.total(), scale))
        if weight is not None:
            sums.products.append((item.total(), weight))
    return sums


class _Sums:
    """Products of two elements, and elements, to be added up."""

    def __init__(self, mixed: MixedField) -> None:
        self._mixed = mixed
        self.products: list[tuple[Any, Any]] = []
        self.alone: list[Any] = []

    def add_term(self, coefficient: int, factors: list[Any]) -> None:
        """Add a product of values of tables."""
        mixed = self._mixed
        if not factors:
            self.alone.append(mixed.base.constant(coefficient))
            return
        # Those of the prime field first; a coefficient with them.
        first, *others = sorted(factors, key=mixed.is_extended)
        if coefficient != 1:
            first = first * coefficient
        if not others:
            self.alone.append(first)
            return
        for factor in others[:-1]:
            first = mixed.multiply(first, factor)
        self.products.append((first, others[-1]))

    def total(self) -> Any:
        """The sum of all."""
        mixed = self._mixed
        total = mixed.sum_of_products(self.products) if self.products else None
        for part in self.alone:
            total = part if total is None else mixed.add(total, part)
        return total

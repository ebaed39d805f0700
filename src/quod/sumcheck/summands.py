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
from quod.sumcheck.accumulators import Accumulator
from quod.sumcheck.interpolation import EvaluationPoint, at_point, evaluation_points
from quod.sumcheck.mixed import MixedField
from quod.sumcheck.polynomial import SumOfProducts, Term

Point = tuple[EvaluationPoint, ...]
"""An evaluation point for each variable that the pass's rounds bind."""


def pass_points(degree: int, depth: int) -> list[Point]:
    """Return the points at which a pass of `depth` rounds, 1 or 2, evaluates its polynomials.

    One round has all of `evaluation_points` but 1, whose value follows from the claim. Two rounds
    have all pairs.
    """
    if depth == 1:
        return [(x,) for x in (0, *evaluation_points(degree)[2:])]
    return list(itertools.product(evaluation_points(degree), repeat=depth))


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
    accumulator: Accumulator,
    first_at_one: Value | None = None,
) -> list[Any]:
    """Return for each point of `pass_points` the weighted polynomial summed over items.

    scales: the run-time coefficient of each term, or None.
    first_at_one: whether the first point of a single round is 1 instead of 0: the claim is the
        value at 0 if eq's coordinate is 0.
    The results are arguments of `accumulator.added`.
    """
    degree, results = polynomial.degree, []
    for point in pass_points(degree, depth):
        scaled_terms = _scaled(polynomial, scales)
        # Only terms of full degree have a leading coefficient, the value at infinity.
        if None in point:
            scaled_terms = [term for term in scaled_terms if len(term[0][1]) == degree]
        values = [
            [value_at(mixed, point, corners, first_at_one) for corners in item.corners]
            for item in items
        ]
        weights = [item.weight for item in items]
        results.append(accumulator.part(_sum(mixed, scaled_terms, values, weights)))
    return results


def value_at(
    mixed: MixedField, point: Point, corners: list[Any], first_at_one: Value | None
) -> Any:
    """Evaluate at a point the multilinear polynomial whose values on the hypercube are `corners`.

    The first variable is the highest bit of an index.
    """
    for x in point:
        half = len(corners) // 2
        pairs = zip(corners[:half], corners[half:], strict=True)
        if x == 0 and first_at_one is not None:
            corners = [
                (mixed.extended if mixed.is_extended(low) else mixed.base).select(
                    first_at_one, high, low
                )
                for low, high in pairs
            ]
        else:
            corners = [at_point(low, high, x) for low, high in pairs]
    return corners[0]


def polynomial_value(
    mixed: MixedField, polynomial: SumOfProducts, values: list[Any], scales: Sequence[Any]
) -> Any:
    """Evaluate the polynomial at one value per table."""
    return _sum(mixed, _scaled(polynomial, scales), [values], [None]).total()


_ScaledTerm = tuple[Term, Any]


def _scaled(polynomial: SumOfProducts, scales: Sequence[Any]) -> list[_ScaledTerm]:
    return list(zip(polynomial.terms, scales, strict=True))


def _sum(
    mixed: MixedField, terms: Sequence[_ScaledTerm], values: list[list[Any]], weights: list[Any]
) -> _Sums:
    """Sum the polynomial at each row of `values`, times the row's weight, without last reductions.

    Terms with the same run-time coefficient are added before they are multiplied by it, and all
    terms before they are multiplied by the weight. Where a product is the last operation, `_Sums`
    keeps its factors, so that one reduction serves all.
    """
    sums = _Sums(mixed)
    for table_values, weight in zip(values, weights, strict=True):
        item = sums if weight is None else _Sums(mixed)
        by_scale: dict[int, tuple[Any, _Sums]] = {}
        for (coefficient, tables), scale in terms:
            scale_sums = item
            if scale is not None:
                _, scale_sums = by_scale.setdefault(id(scale), (scale, _Sums(mixed)))
            scale_sums.add_term(coefficient, [table_values[table] for table in tables])
        for scale, scale_sums in by_scale.values():
            item.products.append((scale_sums.total(), scale))
        if weight is not None:
            sums.products.append((item.total(), weight))
    return sums


class _Sums:
    """The terms of a sum: products of two elements, and single elements in `alone`."""

    def __init__(self, mixed: MixedField) -> None:
        self._mixed = mixed
        self.products: list[tuple[Any, Any]] = []
        self.alone: list[Any] = []

    def add_term(self, coefficient: int, factors: list[Any]) -> None:
        """Add the product of a coefficient and values of tables."""
        mixed = self._mixed
        if not factors:
            self.alone.append(mixed.base.constant(coefficient))
            return
        # Multiply factors of the prime field first, and the coefficient with them.
        product, *others = sorted(factors, key=mixed.is_extended)
        if coefficient != 1:
            product = product * coefficient
        if not others:
            self.alone.append(product)
            return
        for factor in others[:-1]:
            product = mixed.multiply(product, factor)
        self.products.append((product, others[-1]))

    def total(self) -> Any:
        """Return the sum of all terms."""
        mixed = self._mixed
        total = mixed.sum_of_products(self.products) if self.products else None
        for element in self.alone:
            total = element if total is None else mixed.add(total, element)
        return total

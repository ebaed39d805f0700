"""Linear elimination among the unassigned nodes of an assignment.

Equations, and products with an assigned factor, are linear in the unassigned nodes. Reduced rows
with a single node give its value; a product of expressions in a single node gives its roots.
"""

from __future__ import annotations

import random
from collections.abc import Iterable

from quod.r1cs.determinism.arithmetic import inverse, quadratic_roots
from quod.r1cs.determinism.normal_form import Affine, Product
from quod.r1cs.determinism.search.assignment import Assignment, Conflict

Row = dict[int, int]
"""Coefficients by node; node 0 is the constant 1."""

_MAX_NODES = 500
_NEAR_STEPS = 2
_MAX_UNASSIGNED = 2
"""The number of unassigned nodes of a relation that is solved together with others near it."""
_MAX_NEAR = 24


class Elimination:
    """The linear relations between the nodes of some equations and products.

    equations, products: indices of those that are solved.
    """

    def __init__(
        self, assignment: Assignment, equations: Iterable[int], products: Iterable[int],
        generator: random.Random,
    ) -> None:  # fmt: skip
        self._assignment, self._prime = assignment, assignment.prime
        self._equations = [assignment.facts.equations[index] for index in equations]
        self._products = [assignment.form.products[index] for index in products]
        self._generator = generator

    def run(self) -> None:
        """Assign all nodes that the linear relations determine; Conflict if they contradict.

        Where a product has two roots, one of them is chosen at random.
        """
        while True:
            reduced = self._reduced()
            singles = [
                (node, -row.get(0, 0))
                for node, row in reduced.items()
                if not row.keys() - {0, node}
            ]
            if not singles and (root := self._root(reduced)) is not None:
                singles = [root]
            if not singles:
                return
            self._assignment.extend(singles)

    def _linear(self) -> Iterable[Row]:
        """Yield the relations as rows whose sum is 0."""
        values, prime = self._assignment.values, self._prime
        for equation in self._equations:
            row = {0: equation.constant}
            for node, k in zip(equation.nodes, equation.coefficients):
                if (value := values[node]) is None:
                    row[node] = k
                else:
                    row[0] += k * value
            yield row
        for product in self._products:
            for factor, other in ((product.a, product.b), (product.b, product.a)):
                value = self._value(factor)
                if value is not None:
                    row = self._scaled(other, value)
                    for node, k in self._scaled(product.c, -1).items():
                        row[node] = (row.get(node, 0) + k) % prime
                    yield row
                    break

    def _value(self, term: Affine) -> int | None:
        if not term.factor:
            return term.constant
        value = self._assignment.values[term.node]
        return None if value is None else term.factor * value + term.constant

    def _scaled(self, term: Affine, factor: int) -> Row:
        """Return a multiple of an affine term as a row."""
        value = self._value(term)
        if value is not None:
            return {0: value * factor % self._prime}
        return {0: term.constant * factor % self._prime, term.node: term.factor * factor}

    def _reduced(self) -> dict[int, Row]:
        """Return the reduced rows by their pivots, whose coefficients are 1; raises Conflict."""
        prime = self._prime
        reduced: dict[int, Row] = {}
        for row in self._linear():
            row = {node: k % prime for node, k in row.items() if k % prime}
            for pivot in [node for node in row if node in reduced]:
                _subtract(row, reduced[pivot], row[pivot], prime)
            pivots = row.keys() - {0}
            if not pivots:
                if row:
                    raise Conflict
                continue
            if len(reduced) == _MAX_NODES:
                raise Conflict
            pivot = max(pivots)
            scale = inverse(row[pivot] % prime, prime)
            row = {node: k * scale % prime for node, k in row.items()}
            for other in reduced.values():
                if factor := other.get(pivot, 0):
                    _subtract(other, row, factor, prime)
            reduced[pivot] = row
        return reduced

    def _root(self, reduced: dict[int, Row]) -> tuple[int, int] | None:
        """Return a node that is alone in a product, and one of its roots; None without one."""
        for product in self._products:
            if self._value(product.a) is None and self._value(product.b) is None:
                polynomial = self._polynomial(product, reduced)
                if polynomial is None:
                    continue
                node, coefficients = polynomial
                roots = quadratic_roots(*coefficients, self._prime)
                if roots is not None:
                    if not roots:
                        raise Conflict
                    return node, self._generator.choice(roots)
        return None

    def _polynomial(
        self, product: Product, reduced: dict[int, Row]
    ) -> tuple[int, tuple[int, int, int]] | None:
        """Return the node and the coefficients of a·b - c if the rows leave a single node."""
        terms = []
        for term in product[:3]:
            row = self._scaled(term, 1)
            for node in row.keys() - {0}:
                if node in reduced:
                    _subtract(row, reduced[node], row[node], self._prime)
            terms.append(row)
        nodes = {node for row in terms for node in row} - {0}
        if len(nodes) != 1:
            return None
        (node,) = nodes
        (a, p), (b, q), (c, r) = ((row.get(node, 0), row.get(0, 0)) for row in terms)
        return node, (a * b, a * q + b * p - c, p * q - r)


def solve_near(assignment: Assignment, node: int, generator: random.Random) -> None:
    """Assign what relations near an unassigned node determine together; raises Conflict.

    The relations are those with few unassigned nodes that contain the node, or a node of such a
    relation.
    """
    facts, values = assignment.facts, assignment.values
    nodes, equations, products = {node}, set[int](), set[int]()
    for _ in range(_NEAR_STEPS):
        relations = [
            (index, equations, facts.equations[index].nodes)
            for each in nodes
            for index in facts.equations_of[each]
            if index not in equations and assignment.unassigned[index] <= _MAX_UNASSIGNED
        ]
        relations += [
            (index, products, [t.node for t in facts.form.products[index][:3] if t.factor])
            for each in nodes
            for index in facts.products_of[each]
            if index not in products
        ]
        for index, indices, parts in relations:
            unassigned = {part for part in parts if values[part] is None}
            if len(unassigned) <= _MAX_UNASSIGNED:
                indices.add(index)
                nodes |= unassigned
        if len(nodes) > _MAX_NEAR:
            return
    if len(equations) + len(products) > 1:
        Elimination(assignment, sorted(equations), sorted(products), generator).run()


def _subtract(target: Row, source: Row, factor: int, prime: int) -> None:
    """Subtract a multiple of a row from another one in place; drop zeros."""
    for node, k in source.items():
        if difference := (target.get(node, 0) - factor * k) % prime:
            target[node] = difference
        else:
            target.pop(node, None)

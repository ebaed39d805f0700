"""Coordinates of points in the wires that define them.

An expansion replaces nodes by the constraints that determined them alone, and keeps the multiples
of these constraints, with which the checker repeats it.
"""

from __future__ import annotations

from quod.r1cs.determinism.arithmetic import IntegerPolynomial, Polynomial
from quod.r1cs.determinism.certificate_checker import SEPARATOR
from quod.r1cs.determinism.propagation import Propagation
from quod.r1cs.determinism.rules import Rule, Terms

MAX_EXPANSIONS = 100
"""The number of definitions that replace nodes of a coordinate."""
_MAX_DEFINITION = 16
"""The number of nodes of a definition."""
_MAX_TERMS = 400
"""The number of terms of both coordinates."""


class Expansion:
    """Two polynomials, and the multiples of constraints by which they differ from others."""

    def __init__(self, x: IntegerPolynomial, y: IntegerPolynomial) -> None:
        self.x, self.y = x, y
        self._multipliers: dict[int, IntegerPolynomial] = {}

    def replace(self, node: int, reference: int, definition: IntegerPolynomial, prime: int) -> None:
        """Replace a node by its value, from a constraint in which it is linear."""
        scale = pow(definition[node,], -1, prime)
        total = self._multipliers.setdefault(reference, IntegerPolynomial())
        parts = []
        for power, terms in enumerate((self.x, self.y)):
            factor = IntegerPolynomial()
            for monomial, k in terms.items():
                if node in monomial:
                    others = list(monomial)
                    others.remove(node)
                    factor += {tuple(others): k * scale % prime}
            total += factor * {(SEPARATOR,) * power: 1}
            parts.append(terms - factor * definition)
        self.x, self.y = parts

    def sources(self) -> tuple[tuple[int, Terms], ...]:
        """Return the multiples of constraints of a step."""
        return tuple((row, tuple(terms.items())) for row, terms in self._multipliers.items())


def _is_copy(definition: IntegerPolynomial) -> bool:
    return len(definition.keys() - {()}) == 2 and all(len(m) < 2 for m in definition)


def terms_of(polynomial: Polynomial) -> Terms:
    """Return a reduced polynomial as a tuple."""
    return tuple(sorted(polynomial.items()))


class Expander:
    """Replaces nodes of polynomials by their definitions in a propagation."""

    def __init__(self, facts: Propagation) -> None:
        self._facts, self._form, self._prime = facts, facts.form, facts.prime
        self._definitions: dict[int, tuple[int, IntegerPolynomial] | None] = {}

    def reduced(self, terms: Polynomial) -> IntegerPolynomial:
        """Reduce the coefficients of a polynomial modulo the prime, and sort its terms."""
        return IntegerPolynomial(
            {m: k % self._prime for m, k in sorted(terms.items()) if k % self._prime}
        )

    def is_bit(self, node: int) -> bool:
        """Return whether a node has one of two consecutive values."""
        bounds = self._facts.ranges[node]
        return bounds is not None and bounds[1] - bounds[0] == 1

    def expand_copies(self, expansion: Expansion) -> None:
        """Replace all nodes that are copies of others, and constants."""
        for _ in range(MAX_EXPANSIONS):
            nodes = self._insert_constants(expansion)
            for node in nodes:
                definition = self._definition(node)
                if definition is not None and _is_copy(definition[1]):
                    expansion.replace(node, *definition, self._prime)
                    break
            else:
                return

    def expand(self, expansion: Expansion) -> bool:
        """Replace a node by its definition; return whether there is one.

        Bits are the last ones: first those that follow from the other nodes, such as products. Of
        several nodes the one that was determined last has no other one's definition.
        """
        nodes = self._insert_constants(expansion)
        best: tuple[tuple[bool, bool, int], int] | None = None
        for node in nodes:
            if (definition := self._definition(node)) is not None:
                others = {n for m in definition[1] for n in m}
                reason = self._facts.reasons.get(node, -1)
                order = not self.is_bit(node), others <= nodes, reason
                if len(others) <= _MAX_DEFINITION and (best is None or order > best[0]):
                    best = order, node
        if best is None or (definition := self._definition(best[1])) is None:
            return False
        expansion.replace(best[1], *definition, self._prime)
        self._insert_constants(expansion)
        return len(expansion.x) + len(expansion.y) <= _MAX_TERMS

    def _insert_constants(self, expansion: Expansion) -> set[int]:
        """Replace constants by their values; return the other nodes."""
        expansion.x, expansion.y = map(self._constants_inserted, (expansion.x, expansion.y))
        return {n for m in (*expansion.x, *expansion.y) for n in m}

    def _constants_inserted(self, terms: IntegerPolynomial) -> IntegerPolynomial:
        ends = {n: self._facts.ranges[n] for m in terms for n in m}
        values = {n: bounds[0] for n, bounds in ends.items() if bounds and bounds[0] == bounds[1]}
        return self.reduced(terms.at(values))

    def _definition(self, node: int) -> tuple[int, IntegerPolynomial] | None:
        """Return the number of the constraint that determined a node, as a polynomial in wires."""
        if node not in self._definitions:
            self._definitions[node] = self._find_definition(node)
        return self._definitions[node]

    def _find_definition(self, node: int) -> tuple[int, IntegerPolynomial] | None:
        rows = self._facts.rows
        if (row := self.row(node)) < 0:
            return None
        a, b, c = (
            IntegerPolynomial.of(
                ((wire,) if wire else (), k) for wire, k in zip(*rows.side(matrix, row))
            )
            for matrix in range(3)
        )
        terms = self._constants_inserted(a * b - c)
        if not terms.get((node,)) or sum(node in m for m in terms) > 1:
            return None
        return row, terms

    def row(self, node: int) -> int:
        """Return the row that determined a node alone, also as a part of a form; else -1."""
        count = self._facts.rows.count
        row = self._reason(node)
        if count <= row < count + len(self._form.forms):
            row = self._reason(self._form.wires + row - count)
        return row if row < count else -1

    def _reason(self, node: int) -> int:
        """Return the constraint that determined a node alone, or -1."""
        number = self._facts.reasons.get(node)
        step = None if number is None else self._facts.steps[number]
        if step is None or step.rule is not Rule.DIGITS or len(step.sources) != 1:
            return -1
        return step.sources[0][0]

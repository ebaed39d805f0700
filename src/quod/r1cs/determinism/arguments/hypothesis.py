"""Values of nodes in a case of a proof, and the values that follow from them by constraints."""

from __future__ import annotations

from collections.abc import Iterator

from quod.r1cs.determinism.arithmetic import Range, centred, contains, inverse, quadratic_roots
from quod.r1cs.determinism.cases import MAX_CASE_WIRES, coefficients_of_wire
from quod.r1cs.determinism.normal_form import Affine
from quod.r1cs.determinism.propagation import Propagation
from quod.r1cs.determinism.rules import Rule, Step


class Hypothesis:
    """Nodes that are constants in a case; `values` has those that are no constants otherwise."""

    def __init__(self, facts: Propagation) -> None:
        self._facts, self._prime = facts, facts.prime
        self.values: dict[int, int] = {}

    def value(self, node: int) -> int | None:
        """Return the value of a node, or None if it is no constant."""
        if (value := self.values.get(node)) is not None:
            return value
        bounds = self._facts.ranges[node]
        return bounds[0] if bounds is not None and bounds[0] == bounds[1] else None

    def assign(self, node: int, value: int) -> Iterator[tuple[int, Step]]:
        """Assign a value; yield each node that is a constant then, with the step that proves it."""
        self.values[node] = value
        stack = [node]
        while stack:
            node = stack.pop()
            for fresh, value, step in self._consequences(node):
                if self.value(fresh) is None:
                    self.values[fresh] = value
                    stack.append(fresh)
                    yield fresh, step

    def _consequences(self, node: int) -> Iterator[tuple[int, int, Step]]:
        facts = self._facts
        for index in facts.products_of[node]:
            consequence = self._node_of_product(index) or self._wire_of_product(index)
            if consequence is not None:
                yield consequence
        if node >= facts.form.wires:
            for index in facts.equations_of[node]:
                if facts.equations[index].row < 0:
                    yield from self._ends_of_sum(index)

    def _term(self, term: Affine) -> int | None:
        if not term.factor:
            return term.constant
        value = self.value(term.node)
        return None if value is None else (term.factor * value + term.constant) % self._prime

    def _node_of_product(self, index: int) -> tuple[int, int, Step] | None:
        """Return a product or a factor that the others determine."""
        a, b, c, _ = self._facts.form.products[index]
        first, second, product = map(self._term, (a, b, c))
        if first is not None and second is not None and product is None:
            term, value, coefficient = c, first * second, -c.factor
        elif product is not None and (first is None) != (second is None):
            term, divisor = (b, first) if first is not None else (a, second)
            if not divisor:
                return None
            value = product * inverse(divisor, self._prime)
            coefficient = term.factor * divisor
        else:
            return None
        value = (value - term.constant) * inverse(term.factor, self._prime) % self._prime
        row = self._facts.form.products[index].row
        step = Step(
            Rule.RANGE, ((row, -inverse(coefficient % self._prime, self._prime)),), (term.node,)
        )  # fmt: skip
        return self._narrowed(term.node, [value], step)

    def _wire_of_product(self, index: int) -> tuple[int, int, Step] | None:
        """Return the only wire of a row that is no constant, if one root is in its range."""
        row = self._facts.form.products[index].row
        wires = [each for each in self._facts.rows.wires_of(row) if self.value(each) is None]
        if len(wires) != 1 or len(self._facts.rows.wires_of(row)) > MAX_CASE_WIRES:
            return None
        (wire,) = wires
        values = {each: self.value(each) or 0 for each in self._facts.rows.wires_of(row)}
        polynomial = coefficients_of_wire(self._facts.rows, row, wire, {**values, 0: 1})
        roots = quadratic_roots(*polynomial, self._prime)
        step = self._facts.product_step(Rule.CASES, index, (wire,))
        return self._narrowed(wire, roots or [], step)

    def _narrowed(
        self, node: int, values: list[int], step: Step
    ) -> tuple[int, int, Step] | None:  # fmt: skip
        """Return the only one of some values that is in the range of a node."""
        bounds = self._facts.ranges[node]
        inside = [
            value for value in values if bounds is None or contains(bounds, value, self._prime)
        ]
        if len(inside) != 1:
            return None
        return node, inside[0], step._replace(bounds=(inside[0], inside[0]))

    def _ends_of_sum(self, index: int) -> Iterator[tuple[int, int, Step]]:
        """Yield the nodes of a sum that is the least or the greatest one of its ranges."""
        equation = self._facts.equations[index]
        total, least, most = equation.constant, 0, 0
        terms: list[tuple[int, int, Range]] = []
        for node, k in zip(equation.nodes, equation.coefficients):
            if (value := self.value(node)) is not None:
                total += k * value
            elif (bounds := self._facts.ranges[node]) is not None:
                signed = centred(k, self._prime)
                low, high = sorted(signed * end for end in bounds)
                least, most = least + low, most + high
                terms.append((node, signed, bounds))
            else:
                return
        if most - least >= self._prime:
            return
        for end, is_least in ((least, True), (most, False)):
            if (total + end) % self._prime == 0:
                for node, signed, bounds in terms:
                    if abs(signed) == 1:
                        value = bounds[0] if (signed > 0) == is_least else bounds[1]
                        step = self._facts.equation_step(Rule.RANGE, index, (node,), -signed)
                        yield node, value, step._replace(bounds=(value, value))

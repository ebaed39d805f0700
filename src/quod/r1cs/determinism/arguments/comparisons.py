"""Decompositions into all bits of the field, which comparisons with a constant make unique.

A sum of bits that exceeds p - 1 has two decompositions of each small number. Circuits then compare
the bits with p - 1 from the top. The proof is by cases: as long as all higher bits are those of
p - 1, a bit with the other value either makes the sum smaller than p, or contradicts the
comparison. Two forms of comparisons are known: constraints that force a bit to 0 if all higher
ones are those of the constant, and sums of integers of which one bit is the result.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

from quod.r1cs.determinism.arguments.comparison_sums import ComparisonSum, comparison_sums
from quod.r1cs.determinism.arguments.hypothesis import Hypothesis
from quod.r1cs.determinism.arguments.integer_sums import IntegerSum
from quod.r1cs.determinism.arithmetic import Polynomial, inverse
from quod.r1cs.determinism.propagation import Propagation
from quod.r1cs.determinism.rules import Rule, Step, Terms


def run_comparisons(facts: Propagation) -> None:
    """Determine the bits of decompositions that comparisons show to be below p."""
    for index, equation in enumerate(facts.equations):
        least_count = facts.prime.bit_length() // 2
        if facts.undetermined[index] >= least_count and equation.row >= 0:
            _apply(facts, index)
    facts.run()


def _apply(facts: Propagation, index: int) -> None:
    equation, prime = facts.equations[index], facts.prime
    coefficients = {
        node: k
        for node, k in zip(equation.nodes, equation.coefficients)
        if not facts.determined[node]
    }
    if len(coefficients) < 2 or any(facts.ranges[node] != (0, 1) for node in coefficients):
        return
    least = min(min(k, prime - k) for k in coefficients.values())
    for scale in (inverse(least, prime), prime - inverse(least, prime)):
        weights = {node: k * scale % prime for node, k in coefficients.items()}
        if not _are_superincreasing(sorted(weights.values())):
            continue
        for moved, sources in _attempts(facts, weights):
            if (steps := below_modulus(facts, moved)) is not None:
                facts.steps += steps
                _add_multiple(sources, facts.references[index], scale)
                step = Step(Rule.DIGITS, tuple(sources.items()), polynomials=(_linear(moved),))
                facts.determine(moved, step)
                return


_MAX_COPIES = 3


def _attempts(
    facts: Propagation, weights: dict[int, int]
) -> Iterator[tuple[dict[int, int], dict[int, int]]]:  # fmt: skip
    """Yield the weights, then those of copies of the bits, with the equations between them.

    circom without optimisation has a copy of each bit that a component passes to another one, and
    several components may compare the bits. An attempt takes the copies of one component.
    """
    yield weights, {}
    copies = {node: list(islice(_copies(facts, node), _MAX_COPIES)) for node in weights}
    for number in range(max(map(len, copies.values()))):
        moved: dict[int, int] = {}
        sources: dict[int, int] = {}
        for node, weight in weights.items():
            copy, path = copies[node][number] if number < len(copies[node]) else (node, [])
            moved[copy] = weight
            for index, k in path:
                factor = -weight * inverse(k, facts.prime) % facts.prime
                _add_multiple(sources, facts.references[index], factor)
        if sources and len(moved) == len(weights):
            yield moved, sources


def _add_multiple(sources: dict[int, int], reference: int, factor: int) -> None:
    # Bits of one decomposition that are equal are copies of each other, by the same equation.
    sources[reference] = sources.get(reference, 0) + factor


def _copies(facts: Propagation, node: int) -> Iterator[tuple[int, list[tuple[int, int]]]]:
    """Yield nodes that equations equate with a node and that occur in products with others.

    Each has the path of equations, with the coefficients of the node on the side of the original.
    """
    paths: dict[int, list[tuple[int, int]]] = {node: []}
    queue = [node]
    for each in queue:
        if _is_in_product(facts, each):
            yield each, paths[each]
        for index in facts.equations_of[each]:
            equation = facts.equations[index]
            if (
                len(equation.nodes) == 2 and not equation.constant and equation.row >= 0
                and not sum(equation.coefficients) % facts.prime
            ):  # fmt: skip
                other = sum(equation.nodes) - each
                if other not in paths and facts.ranges[other] == (0, 1):
                    k = equation.coefficients[equation.nodes.index(each)]
                    paths[other] = [*paths[each], (index, k)]
                    queue.append(other)


def _are_superincreasing(weights: Sequence[int]) -> bool:
    total = 0
    for weight in weights:
        if weight <= total:
            return False
        total += weight
    return True


def _is_in_product(facts: Propagation, node: int) -> bool:
    """Return whether a node is multiplied with another one."""
    for index in facts.products_of[node]:
        a, b, _, _ = facts.form.products[index]
        if a.factor and b.factor and a.node != b.node and node in (a.node, b.node):
            return True
    return False


def _linear(weights: dict[int, int]) -> Terms:
    return tuple(((node,), k) for node, k in weights.items())


def below_modulus(facts: Propagation, weights: dict[int, int]) -> list[Step] | None:
    """Return steps that prove a weighted sum of bits to be below p, or None."""
    claim = _linear(weights)
    order = sorted(weights, key=lambda node: -weights[node])
    if (steps := _Cases(facts, claim, None).prove(order)) is not None:
        return steps
    for comparison in islice(comparison_sums(facts, set(weights)), _MAX_SUMS):
        if (steps := _Cases(facts, claim, comparison).prove(order)) is not None:
            # The split is a step of its own, to which the cases refer.
            facts.derived += 2
            return [comparison.step, *steps]
    return None


_MAX_SUMS = 6


class _Cases:
    """A proof by cases, from the bit of the greatest weight down.

    comparison: a sum that is 0, or None.
    """

    def __init__(
        self, facts: Propagation, claim: Terms, comparison: ComparisonSum | None
    ) -> None:  # fmt: skip
        self._facts, self._claim, self._comparison = facts, claim, comparison
        self._hypothesis = Hypothesis(facts)
        self._most = facts.prime - 1
        terms: list[Polynomial] = [dict(claim)]
        if comparison is not None:
            terms.append(comparison.terms)
        self._sums = [
            IntegerSum(
                each,
                {n: bounds for m in each for n in m if (bounds := facts.ranges[n]) is not None},
            )
            for each in terms
        ]  # fmt: skip

    def prove(self, order: Sequence[int]) -> list[Step] | None:
        """Return the steps, or None if there is no such proof."""
        steps: list[Step] = []
        depth = 0
        for node in order:
            if (closing := self._closing()) is not None:
                break
            if self._hypothesis.value(node) is not None:
                continue
            for value in (0, 1):
                if (closing := self._closing_with(node, value)) is not None:
                    break
            else:
                return None
            case = Step(Rule.SUPPOSE, (), (node,), (value, value), (self._claim,))
            steps += [case, *closing, Step(Rule.OTHERWISE, ())]
            depth += 1
            steps += self._assign(node, 1 - value)
        if (closing := self._closing()) is None:
            return None
        return [*steps, *closing, *[Step(Rule.JOIN, ())] * depth]

    def _assign(self, node: int, value: int) -> list[Step]:
        """Assign a value; return the steps that prove other values that follow."""
        self._assign_in_sums(node, (value, value))
        if self._comparison is not None:
            self._hypothesis.values[node] = value
            return []
        steps = []
        for each, step in self._hypothesis.assign(node, value):
            steps.append(step)
            value = self._hypothesis.values[each]
            self._assign_in_sums(each, (value, value))
        return steps

    def _assign_in_sums(self, node: int, bounds: tuple[int, int]) -> None:
        for each in self._sums:
            each.assign(node, bounds)

    def _closing_with(self, node: int, value: int) -> list[Step] | None:
        """Return steps that end a case in which a node has a value, or None."""
        self._assign_in_sums(node, (value, value))
        closing = self._closing()
        self._assign_in_sums(node, (0, 1))
        return closing

    def _closing(self) -> list[Step] | None:
        """Return steps after which the claim holds, or no witness is left; None without any."""
        if self._sums[0].is_between(0, self._most):
            return []
        if self._comparison is not None and self._sums[1].excludes_zero():
            return [self._comparison.contradiction]
        return None

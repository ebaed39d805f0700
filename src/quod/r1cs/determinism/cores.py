"""Cores: the connected parts of a system that propagation leaves undetermined."""

from __future__ import annotations

from time import monotonic

from quod.frozen import frozen
from quod.r1cs.determinism.arithmetic import inverse
from quod.r1cs.determinism.propagation import Propagation, TimeIsUp
from quod.r1cs.determinism.rules import Rule, Step, digit_scale

_MAX_EQUATIONS = 400
"""The number of equations of a core up to which its linear part is eliminated."""


@frozen(eq=False)
class Core:
    """Undetermined nodes that equations and products connect, directly or through others.

    equations, products: the indices of those in which the nodes occur.
    """

    nodes: tuple[int, ...]
    equations: tuple[int, ...]
    products: tuple[int, ...]

    def rows(self, facts: Propagation) -> list[int]:
        """Return the constraints of the core in ascending order."""
        form = facts.form
        rows = {facts.equations[index].row for index in self.equations}
        rows |= {form.products[index].row for index in self.products}
        return sorted(rows - {-1})


def cores_of(facts: Propagation) -> list[Core]:
    """Return the cores of a system in ascending order of their sizes."""
    form, determined = facts.form, facts.determined
    is_seen = bytearray(determined)
    is_seen[0] = 1
    cores = []
    for start in range(form.nodes):
        if is_seen[start]:
            continue
        nodes, equations, products = [start], set[int](), set[int]()
        is_seen[start] = 1
        for node in nodes:
            neighbours: list[int] = []
            for index in facts.equations_of[node]:
                if index not in equations:
                    equations.add(index)
                    neighbours += facts.equations[index].nodes
            for index in facts.products_of[node]:
                if index not in products:
                    terms = [term.node for term in form.products[index][:3] if term.factor]
                    # A product is also listed at the wires of its forms.
                    if node in terms:
                        products.add(index)
                        neighbours += terms
            for neighbour in neighbours:
                if not is_seen[neighbour]:
                    is_seen[neighbour] = 1
                    nodes.append(neighbour)
        cores.append(Core(tuple(nodes), tuple(sorted(equations)), tuple(sorted(products))))
    return sorted(cores, key=lambda core: len(core.nodes))


def eliminate(facts: Propagation, core: Core) -> bool:
    """Determine nodes of a core by sums of multiples of its equations; return whether any is.

    Gauss-Jordan elimination over the undetermined nodes; a reduced equation with one node, or with
    the weights of a unique decomposition, determines its nodes. Raises TimeIsUp.
    """
    if not 1 < len(core.equations) <= _MAX_EQUATIONS:
        return False
    prime, progress = facts.prime, False
    for terms, combination in _reduced(facts, core):
        # Earlier steps of this elimination may have determined some of the nodes.
        nodes = [node for node in terms if not facts.determined[node]]
        references = facts.references
        sources = tuple((references[index], k) for index, k in combination.items())
        if len(nodes) == 1:
            facts.determine(nodes, Step(Rule.DIGITS, sources))
            progress = True
        elif nodes and all(facts.ranges[node] for node in nodes):
            widths = [high - low for low, high in (facts.ranges[node] or (0, 0) for node in nodes)]
            if digit_scale([terms[node] for node in nodes], widths, prime) is not None:
                scale = digit_scale([terms[node] for node in nodes], widths, prime) or 1
                scaled = tuple((reference, k * scale % prime) for reference, k in sources)
                facts.determine(nodes, Step(Rule.DIGITS, scaled))
                progress = True
    facts.run()
    return progress


def _reduced(facts: Propagation, core: Core) -> list[tuple[dict[int, int], dict[int, int]]]:
    """Return the reduced equations of a core: coefficients by node, multipliers by equation."""
    prime = facts.prime
    reduced: dict[int, tuple[dict[int, int], dict[int, int]]] = {}
    for index in core.equations:
        if monotonic() > facts.deadline:
            raise TimeIsUp
        equation = facts.equations[index]
        terms = {
            node: k
            for node, k in zip(equation.nodes, equation.coefficients)
            if not facts.determined[node]
        }
        combination = {index: 1}
        for pivot in [node for node in terms if node in reduced]:
            factor = terms[pivot]
            _subtract(terms, reduced[pivot][0], factor, prime)
            _subtract(combination, reduced[pivot][1], factor, prime)
        if not terms:
            continue
        pivot, lead = next(iter(terms.items()))
        scale = inverse(lead, prime)
        terms = {node: k * scale % prime for node, k in terms.items()}
        combination = {each: k * scale % prime for each, k in combination.items()}
        for others, combined in reduced.values():
            if factor := others.get(pivot, 0):
                _subtract(others, terms, factor, prime)
                _subtract(combined, combination, factor, prime)
        reduced[pivot] = terms, combination
    return list(reduced.values())


def _subtract(
    target: dict[int, int], source: dict[int, int], factor: int, prime: int
) -> None:  # fmt: skip
    """Subtract a multiple of a sparse vector from another one in place; drop zeros."""
    for key, value in source.items():
        if difference := (target.get(key, 0) - factor * value) % prime:
            target[key] = difference
        else:
            target.pop(key, None)

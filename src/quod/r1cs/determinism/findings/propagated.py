"""Findings from the facts of propagation: bits, decompositions, divisors and selectors."""

from __future__ import annotations

import re
from collections.abc import Iterator

from quod.r1cs.determinism.arithmetic import inverse
from quod.r1cs.determinism.findings.comparisons import comparison_findings
from quod.r1cs.determinism.findings.kinds import ALIAS, NOT_A_BIT, ZERO_DIVISOR
from quod.r1cs.determinism.findings.names import expression, listed, wire_terms
from quod.r1cs.determinism.findings.projection import Occurrences
from quod.r1cs.determinism.lints import Finding
from quod.r1cs.determinism.normal_form import Affine, Equation
from quod.r1cs.determinism.propagation import Propagation
from quod.r1cs.determinism.search.undefined import undefined_terms

_MIN_BITS = 3
"""The number of bits from which on weights 1, 2, 4 are a decomposition."""
_MAX_COPIES = 8
"""The number of equal signals among which a selector's input is sought."""


def propagated_findings(
    facts: Propagation, occurrences: Occurrences, reported: set[int]
) -> Iterator[Finding]:  # fmt: skip
    """Yield findings from the facts of a finished propagation; add their wires to `reported`."""
    for equation in facts.equations[: len(facts.form.equations)]:
        # circom's --O2 replaces a bit by a sum of others: a form, whose definition has no row.
        if len(equation.nodes) >= _MIN_BITS and (
            equation.row >= 0 or facts.ranges[equation.nodes[-1]] == (0, 1)
        ):
            yield from _of_equation(facts, occurrences, equation, reported)
    yield from _selectors(facts)
    yield from _divisors(facts, occurrences)


def _of_equation(
    facts: Propagation, occurrences: Occurrences, equation: Equation, reported: set[int]
) -> Iterator[Finding]:  # fmt: skip
    """Yield findings about a decomposition into bits."""
    bits, others = _powers_of_two(facts, equation)
    if len(bits) < _MIN_BITS:
        return
    wires = [node for node in bits if node < facts.form.wires]
    place = facts.rows.place(_row_of(facts, equation))
    if unbounded := [
        node for node in wires if facts.ranges[node] is None and not facts.determined[node]
    ]:
        if any(_is_computed(facts, node) for node in unbounded):
            return
        reported.update(unbounded)
        verb = "has a power" if len(unbounded) == 1 else "have powers"
        reason = f"{verb} of two as weight like a bit, and may have any value"
        yield Finding(NOT_A_BIT, f"{listed(facts.rows, unbounded)} {reason}; {place}")
    are_bits = all(facts.ranges[node] == (0, 1) for node in bits)
    if not are_bits:
        return
    if (
        1 << len(bits) > facts.prime
        and all(map(facts.determined.__getitem__, others))
        and not all(map(facts.determined.__getitem__, bits))
    ):
        reason = "are bits whose sum may exceed the modulus p: x and x + p have bits"
        yield Finding(ALIAS, f"{listed(facts.rows, wires)} {reason}; {place}")
    if len(wires) == len(bits):
        yield from comparison_findings(facts, occurrences, equation, bits, others)


def _row_of(facts: Propagation, equation: Equation) -> int:
    """Return the row of an equation, or a row that contains the form that it defines."""
    if equation.row >= 0:
        return equation.row
    return facts.form.products[facts.products_of[equation.nodes[-1]][0]].row


def _powers_of_two(facts: Propagation, equation: Equation) -> tuple[list[int], list[int]]:
    """Return the nodes with the weights 1, 2, 4, ... up to a common factor, and the others."""
    prime, weights = facts.prime, set(equation.coefficients)
    for factor in (1, prime - 1) if equation.row >= 0 else _least_weights(weights, prime):
        if any((factor << index) % prime not in weights for index in range(_MIN_BITS)):
            continue
        # An operand of a comparison has the weight of the lowest bit; bits come last.
        terms = sorted(
            zip(equation.nodes, equation.coefficients),
            key=lambda term: facts.ranges[term[0]] == (0, 1),
        )
        node_of = {k: node for node, k in terms}
        bits: list[int] = []
        weight = factor
        while (node := node_of.get(weight)) is not None and len(bits) < len(node_of):
            bits.append(node)
            weight = 2 * weight % prime
        # The decomposed number itself has the weight 1 or -1 too.
        if len(bits) >= _MIN_BITS:
            return bits, [node for node in equation.nodes if node not in set(bits)]
    return [], []


def _least_weights(weights: set[int], prime: int) -> list[int]:
    """Return the weights that begin a sequence of doubled weights."""
    doubles = {2 * weight % prime for weight in weights}
    return [weight for weight in weights - doubles if 2 * weight % prime in weights]


def _selectors(facts: Propagation) -> Iterator[Finding]:
    """Yield wires that select one of two signals, and are no bits: out = a + s * (b - a).

    The verifier knows public inputs.
    """
    seen = set[int]()
    for product in facts.form.products:
        for selector, difference in ((product.a, product.b), (product.b, product.a)):
            node = selector.node
            if (
                node not in seen
                and 0 < node < facts.form.wires
                and facts.ranges[node] is None
                and (not facts.determined[node] or _is_private_input(facts, node))
                and _is_selection(facts, selector, difference, product.c)
            ):
                seen.add(node)
                reason = "selects one of two signals like a bit, and may have any value"
                place = facts.rows.place(product.row)
                yield Finding(NOT_A_BIT, f"{facts.rows.name(node)} {reason}; {place}")


def _is_private_input(facts: Propagation, node: int) -> bool:
    """Return whether a node equals a private input."""
    inputs, public = facts.rows.inputs, facts.rows.public
    nodes = [node]
    for each in nodes:
        if each in inputs:
            return each not in public
        for index in facts.equations_of[each] if len(nodes) < _MAX_COPIES else ():
            equation = facts.equations[index]
            if len(equation.nodes) == 2 and not (sum(equation.coefficients) % facts.prime):
                nodes += {*equation.nodes}.difference(nodes)
    return False


def _is_selection(
    facts: Propagation, selector: Affine, difference: Affine, result: Affine
) -> bool:  # fmt: skip
    """Return whether s * (b - a) = out - a: for s = 1 a does not matter, for s = 0 b."""
    form, prime = facts.form, facts.prime
    if selector.constant or difference.constant or difference.node < form.wires:
        return False
    wires, coefficients = form.forms[difference.node - form.wires]
    if len(wires) != 2 or (coefficients[0] + coefficients[1]) % prime:
        return False
    scale = selector.factor * difference.factor
    jumps = {wire: k * scale for wire, k in zip(wires, coefficients)}
    if _cancels({wire: -k for wire, k in wire_terms(facts, result).items()}, jumps, prime):
        return True
    # Otherwise the product is added to one of the signals in another constraint.
    if result.node >= form.wires or not result.factor:
        return False
    ratio = inverse(result.factor, prime)
    for index in facts.equations_of[result.node]:
        terms = dict(zip(facts.equations[index].nodes, facts.equations[index].coefficients))
        step = terms[result.node] * ratio
        if _cancels(terms, {wire: k * step for wire, k in jumps.items()}, prime):
            return True
    return False


def _cancels(terms: dict[int, int], jumps: dict[int, int], prime: int) -> bool:
    """Return whether terms have one of two wires, and adding a multiple of both removes it."""
    common = [wire for wire in jumps if wire in terms]
    return len(common) == 1 and not (terms[common[0]] + jumps[common[0]]) % prime


def _divisors(facts: Propagation, occurrences: Occurrences) -> Iterator[Finding]:
    """Yield determined factors that may be 0, with a dividend that may be 0 too."""
    alike: dict[str, list[tuple[str, str]]] = {}
    for index, product in enumerate(facts.form.products):
        if (terms := undefined_terms(facts, index)) and _is_quotient(
            facts, occurrences, index, terms[1].node
        ):
            divisor, quotient, dividend = terms
            reason = f"{expression(facts, divisor)} divides, and was not shown to be nonzero; if it"
            reason += " and the dividend are 0" if dividend.factor else " is 0"
            reason += f", {expression(facts, quotient)} may have any value"
            place = facts.rows.place(product.row)
            alike.setdefault(_NUMBER.sub("", reason), []).append((reason, place))
    for reasons in alike.values():
        reason, place = reasons[0]
        others = f", and {len(reasons) - 1:,} more like it" if len(reasons) > 1 else ""
        yield Finding(ZERO_DIVISOR, f"{reason}; {place}{others}")


_NUMBER = re.compile(r"\d+")


def _is_quotient(
    facts: Propagation, occurrences: Occurrences, index: int, node: int
) -> bool:  # fmt: skip
    """Return whether another constraint uses a factor, and none defines it as a product."""
    rows = facts.rows
    is_used = node >= rows.wires or occurrences.counts[node] > 1
    is_output = node in rows.targets or node in rows.public
    return (is_used or is_output) and not _is_computed(facts, node, index)


def _is_computed(facts: Propagation, node: int, excluded: int = -1) -> bool:
    """Return whether a constraint, except one, defines a node as a product."""
    return any(
        facts.form.products[index].c.factor and facts.form.products[index].c.node == node
        for index in facts.products_of[node]
        if index != excluded
    )

"""Findings: likely causes of missing constraints, each with its reason and place.

A finding is no verdict. It tells where propagation stopped, or which assumption of a gadget no
constraint enforces.
"""

from __future__ import annotations

from collections.abc import Iterator

from quod.r1cs.determinism.arithmetic import centred
from quod.r1cs.determinism.cores import cores_of
from quod.r1cs.determinism.lints import Lint
from quod.r1cs.determinism.normal_form import Equation
from quod.r1cs.determinism.propagation import Propagation
from quod.r1cs.determinism.undefined import undefined_terms

NOT_A_BIT = "not constrained to a bit"
ALIAS = "decomposition without an alias check"
ZERO_DIVISOR = "divisor may be 0"
OPERAND_RANGE = "comparison of operands without a range"
FREE = "not tied to the inputs"

_MIN_BITS = 3
"""The number of bits from which on weights 1, 2, 4 are a decomposition."""


def findings_of(facts: Propagation) -> list[Lint]:
    """Find likely causes of missing constraints, from the facts of propagation."""
    return [
        *(finding for equation in facts.equations for finding in _of_equation(facts, equation)),
        *_divisors(facts),
        *_free_cores(facts),
    ]


def _of_equation(facts: Propagation, equation: Equation) -> Iterator[Lint]:
    """Yield findings about a decomposition into bits."""
    if equation.row < 0:
        return
    bits, others = _powers_of_two(facts, equation)
    if len(bits) < _MIN_BITS:
        return
    for node in bits:
        if facts.ranges[node] is None and not facts.determined[node]:
            reason = "has a power of two as its weight, and may be any number"
            yield _lint(facts, NOT_A_BIT, node, reason, equation.row)
    are_bits = all(facts.ranges[node] == (0, 1) for node in bits)
    if (
        are_bits
        and 1 << len(bits) > facts.prime
        and not all(map(facts.determined.__getitem__, bits))
    ):
        reason = "is the lowest of bits whose sum may exceed the modulus: x and x + p have bits"
        yield _lint(facts, ALIAS, bits[0], reason, equation.row)
    yield from _comparison(facts, equation, len(bits), others)


def _powers_of_two(facts: Propagation, equation: Equation) -> tuple[list[int], list[int]]:
    """Return the nodes with the weights 1, 2, 4, ... up to a common sign, and the others."""
    for sign in (1, -1):
        # An operand of a comparison has the weight of the lowest bit; bits come last.
        terms = sorted(
            zip(equation.nodes, equation.coefficients),
            key=lambda term: facts.ranges[term[0]] == (0, 1),
        )
        node_of = {sign * k % facts.prime: node for node, k in terms}
        bits: list[int] = []
        while (node := node_of.get(pow(2, len(bits), facts.prime))) is not None:
            bits.append(node)
            if len(bits) == len(node_of):
                break
        # The decomposed number itself has the weight 1 or -1 too.
        if len(bits) >= _MIN_BITS:
            return bits, [node for node in equation.nodes if node not in set(bits)]
    return [], []


def _comparison(
    facts: Propagation, equation: Equation, count: int, others: list[int]
) -> Iterator[Lint]:  # fmt: skip
    """Yield operands without a range: bits of x - y + 2^n compare x and y below 2^n only."""
    size = 1 << count - 1
    constant = centred(equation.constant, facts.prime)
    signs = {
        centred(k, facts.prime)
        for node, k in zip(equation.nodes, equation.coefficients)
        if node in others
    }
    if len(others) == 2 and signs == {1, -1} and abs(constant) in (size, size - 1):
        for node in others:
            bounds = facts.ranges[node]
            if bounds is None or not 0 <= bounds[0] <= bounds[1] < size:
                reason = f"is compared as a number of {count - 1} bits, and may be greater"
                yield _lint(facts, OPERAND_RANGE, node, reason, equation.row)


def _divisors(facts: Propagation) -> Iterator[Lint]:
    """Yield determined factors that may be 0, with a dividend that may be 0 too."""
    for index, product in enumerate(facts.form.products):
        if terms := undefined_terms(facts, index):
            reason = "divides, and may be 0 together with the dividend"
            yield _lint(facts, ZERO_DIVISOR, terms[0].node, reason, product.row)


def _free_cores(facts: Propagation) -> Iterator[Lint]:
    """Yield the first wire of each set of undetermined wires that no input is connected to."""
    for core in cores_of(facts):
        nodes = {node for index in core.equations for node in facts.equations[index].nodes}
        nodes |= {
            term.node
            for index in core.products
            for term in facts.form.products[index][:3]
            if term.factor
        }
        wires = [node for node in core.nodes if node < facts.form.wires]
        rows = core.rows(facts)
        if wires and rows and nodes.isdisjoint(facts.rows.inputs) and nodes <= {*core.nodes}:
            reason = f"and {len(wires) - 1} more signals share no constraint with an input"
            yield _lint(facts, FREE, min(wires), reason, rows[0])


def _lint(facts: Propagation, kind: str, node: int, reason: str, row: int) -> Lint:
    rows, form = facts.rows, facts.form
    wires = [node] if node < form.wires else list(form.forms[node - form.wires][0])
    name = " and ".join(rows.name(wire) for wire in wires[:3])
    if len(wires) > 3:
        name += f" and {len(wires) - 3} more"
    return Lint(kind, f"{name} {reason}; {rows.place(row)}")

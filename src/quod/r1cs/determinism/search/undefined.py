"""Quotients 0/0: assignments in which a divisor and its dividend are 0, so the quotient is free.

The divisor and the dividend follow from some inputs by a part of the system, their cone. Values of
the inputs are chosen one by one, and linear elimination solves what follows in the cone.
"""

from __future__ import annotations

import random
from collections.abc import Iterable

from quod.r1cs.determinism.cores import Core
from quod.r1cs.determinism.normal_form import Affine
from quod.r1cs.determinism.propagation import Propagation
from quod.r1cs.determinism.rules import zero_of
from quod.r1cs.determinism.search.assignment import Assignment
from quod.r1cs.determinism.search.elimination import Elimination

_MAX_QUOTIENTS = 6
_MAX_CONE = 600
"""The number of nodes of a cone."""


def undefined_quotients(facts: Propagation, core: Core) -> list[int]:
    """Return the products of a core whose divisor and dividend are determined, and may be 0."""
    quotients = []
    for index in core.products:
        if undefined_terms(facts, index) is not None:
            quotients.append(index)
            if len(quotients) == _MAX_QUOTIENTS:
                break
    return quotients


def undefined_terms(facts: Propagation, index: int) -> tuple[Affine, Affine, Affine] | None:
    """Return the divisor, quotient and dividend of a product whose quotient may be undefined.

    None unless both divisor and dividend are determined and may be 0, and the quotient is not.
    """
    a, b, c, _ = facts.form.products[index]
    for divisor, quotient in ((a, b), (b, a)):
        if (
            divisor.factor and facts.is_determined(divisor) and not facts.is_determined(quotient)
            and not facts.is_nonzero(divisor) and facts.is_determined(c) and not facts.is_nonzero(c)
        ):  # fmt: skip
            return divisor, quotient, c
    return None


def assign_undefined(assignment: Assignment, index: int, generator: random.Random) -> int:
    """Assign values to the cone of a quotient that make it 0/0; return its node.

    Raises Conflict if the attempt fails.
    """
    facts, prime = assignment.facts, assignment.prime
    terms = undefined_terms(facts, index)
    assert terms is not None
    divisor, quotient, dividend = terms
    zeros = [(term.node, zero_of(term, prime)) for term in (divisor, dividend) if term.factor]
    cone = _cone(facts, [node for node, _ in zeros])
    equations = {each for node in cone for each in facts.equations_of[node]}
    products = {each for node in cone for each in facts.products_of[node]}
    elimination = Elimination(
        assignment,
        [each for each in equations if cone.issuperset(facts.equations[each].nodes)],
        [
            each
            for each in products
            if all(
                term.node in cone for term in facts.form.products[each][:3] if term.factor
            )
        ],
        generator,
    )  # fmt: skip
    assignment.extend(zeros)
    elimination.run()
    inputs = sorted(cone & facts.rows.inputs)
    generator.shuffle(inputs)
    for node in inputs:
        if assignment.values[node] is None:
            assignment.extend([(node, _trial(facts, node, generator))])
            elimination.run()
    return quotient.node


def _trial(facts: Propagation, node: int, generator: random.Random) -> int:
    bounds = facts.ranges[node]
    if bounds is not None:
        return generator.randint(*bounds)
    return generator.choice((0, 1, generator.randrange(facts.prime)))


def _cone(facts: Propagation, nodes: Iterable[int]) -> set[int]:
    """Return the nodes from which some nodes were determined, up to a limit of their number."""
    equations = {reference: index for index, reference in enumerate(facts.references)}
    products = {product.row: index for index, product in enumerate(facts.form.products)}
    cone = set(nodes)
    queue = list(cone)
    for node in queue:
        if node not in facts.reasons or facts.is_constant(node) or len(cone) > _MAX_CONE:
            continue
        for reference, _ in facts.steps[facts.reasons[node]].sources:
            if reference in products:
                parts = [t.node for t in facts.form.products[products[reference]][:3] if t.factor]
            else:
                parts = list(facts.equations[equations[reference]].nodes)
            for part in parts:
                if part not in cone:
                    cone.add(part)
                    queue.append(part)
    return cone

"""One-hot sums: flags that are 0 unless a determined node has a certain value."""

from __future__ import annotations

from quod.r1cs.determinism.propagation import Propagation
from quod.r1cs.determinism.rules import Rule, Step, zero_of


def run_one_hot(facts: Propagation) -> None:
    """Apply the rule for one-hot sums once to each equation, then the others until none applies."""
    for index, equation in enumerate(facts.equations):
        if equation.row >= 0 and facts.undetermined[index] > 1:
            _apply_one_hot(facts, index)
    facts.run()


def _apply_one_hot(facts: Propagation, index: int) -> None:
    """Determine the flags of a one-hot sum.

    Each flag y[i] occurs in a product (x - k[i]) * y[i] = z[i], with x and z[i] determined and
    distinct k[i]. If x is k[i], the others are quotients, and the sum gives y[i].
    """
    products: list[int] = []
    selector = 0  # until the first product is known
    zeros: list[int] = []
    nodes = facts.undetermined_nodes(index)
    for node in nodes:
        for candidate in facts.products_of[node]:
            product = facts.form.products[candidate]
            factor = product.a if product.b.node == node else product.b
            if (
                factor.factor and factor.node != node and facts.is_determined(factor)
                and node in (product.a.node, product.b.node) and facts.is_determined(product.c)
                and selector in (0, factor.node)
                and (zero := zero_of(factor, facts.prime)) not in zeros
            ):  # fmt: skip
                products.append(candidate)
                selector = factor.node
                zeros.append(zero)
                break
        else:
            return
    if len(nodes) < 2:
        return
    quotients = [
        facts.product_step(Rule.QUOTIENT, product, (node,))
        for product, node in zip(products, nodes)
    ]
    for position, zero in enumerate(zeros[:-1]):
        facts.steps += [
            Step(Rule.SUPPOSE, (), (selector, *nodes), (zero, zero)),
            *quotients[position + 1 :], facts.equation_step(Rule.DIGITS, index),
            Step(Rule.OTHERWISE, ()), quotients[position],
        ]  # fmt: skip
    facts.steps.append(facts.equation_step(Rule.DIGITS, index))
    facts.steps += [Step(Rule.JOIN, ())] * (len(nodes) - 1)
    facts.determine(nodes)

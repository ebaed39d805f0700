"""Verification of sums of fractions, layer by layer.

A tree sums 2**k fractions pairwise without division: n0/d0 + n1/d1 = (n0*d1 + n1*d0)/(d0*d1). Its
layers form a circuit, and each layer is one sumcheck (Papini and Haboeck, "Improving logarithmic
derivative lookups using GKR", eprint 2023/1284). Trees of different heights share all sumchecks.
docs/lookup.md describes the protocol.
"""

from __future__ import annotations

from collections.abc import Sequence

from quod.errors import VerificationError
from quod.field.element_bytes import Plain
from quod.field.plain_element import PlainElement
from quod.field.spec import FieldSpec
from quod.frozen import frozen
from quod.sumcheck.verifier import read_rounds
from quod.transcript.labels import Label
from quod.transcript.messages import ProofReader

DEGREE = 2
"""The degree of a round's polynomial without the factor eq."""


@frozen
class FractionTree:
    """The shape of a tree of 2**log2_size fractions, at least two.

    Without numerators, all numerators are 1.
    """

    log2_size: int
    has_numerators: bool

    def tables(self, layer: int) -> int:
        """Return the number of this tree's tables in the sumcheck of a layer.

        Layer k has 2**k sums. The tables are the numerators at 0 and at 1 (unless the leaves have
        none), then the denominators at 0 and at 1. A layer beyond the leaves has no tables.
        """
        if layer >= self.log2_size:
            return 0
        return 2 if layer == self.log2_size - 1 and not self.has_numerators else 4


@frozen
class FractionSum:
    """A claimed sum of fractions, and the evaluation claim that it depends on.

    numerator, denominator: the sum.
    point: the point at which the leaves must be evaluated.
    at_point: the claimed values of the leaves' numerators and denominators at the point.
    """

    numerator: PlainElement
    denominator: PlainElement
    point: tuple[Plain, ...]
    at_point: tuple[PlainElement, PlainElement]


@frozen
class LeafClaim:
    """The values that leaves must have at a point: their numerators' and their denominators'."""

    point: tuple[Plain, ...]
    at_point: tuple[PlainElement, PlainElement]


def layers_of(trees: Sequence[FractionTree]) -> int:
    """Return the number of layers of the deepest tree."""
    return max(tree.log2_size for tree in trees)


def read_sums(
    reader: ProofReader, field: FieldSpec, trees: Sequence[FractionTree]
) -> list[FractionSum]:
    """Verify the sumchecks of all layers, and return the claimed sum of each tree.

    Each sum holds if its evaluation claim does, which the caller checks. Raises VerificationError
    if a round or a layer does not agree with the previous claim.
    """
    one = PlainElement.one(field)
    roots: list[tuple[PlainElement, PlainElement]] = []
    tree_sums: dict[int, FractionSum] = {}
    claims: dict[int, tuple[PlainElement, PlainElement]] = {}
    point: list[Plain] = []
    for layer in range(layers_of(trees)):
        open_trees = [number for number, tree in enumerate(trees) if tree.tables(layer)]
        if layer:
            scale = PlainElement(field, reader.transcript.challenge(field))
            claim = combined(field, [claims[number] for number in open_trees], scale)
            last_claim, point = read_rounds(
                reader, field, degree=DEGREE, variables=layer, claim=claim, point=point
            )
        counts = [trees[number].tables(layer) for number in open_trees]
        elements = reader.elements(Label.VALUES, field, sum(counts))
        values = iter(PlainElement.from_coefficients(field, elements))
        tree_values = [[next(values) for _ in range(count)] for count in counts]
        # n0, n1, d0, d1 of each tree; absent numerators are 1.
        pairs = [([one] * 2 + values_of_tree)[-4:] for values_of_tree in tree_values]
        sums = [added(pair) for pair in pairs]
        if not layer:
            roots = sums
        elif combined(field, sums, scale) != last_claim:
            raise VerificationError(f"the proof's claim about layer {layer} of the sums is wrong")
        # This challenge binds the variable that selects between the values at 0 and at 1.
        selector = reader.transcript.challenge(field)
        point = [selector, *point]
        x = PlainElement(field, selector)
        for number, (n0, n1, d0, d1) in zip(open_trees, pairs, strict=True):
            claims[number] = (n0 + x * (n1 - n0), d0 + x * (d1 - d0))
            if trees[number].log2_size == layer + 1:
                tree_sums[number] = FractionSum(*roots[number], tuple(point), claims[number])
    return [tree_sums[number] for number in range(len(trees))]


def at_selector(
    field: FieldSpec, values: Sequence[PlainElement], x: PlainElement
) -> tuple[PlainElement, PlainElement]:
    """Return numerator and denominator at x, from a tree's values n0, n1, d0, d1 in a layer."""
    # Absent numerators are 1.
    n0, n1, d0, d1 = ([PlainElement.one(field)] * 2 + list(values))[-4:]
    return n0 + x * (n1 - n0), d0 + x * (d1 - d0)


def added(pair: Sequence[PlainElement]) -> tuple[PlainElement, PlainElement]:
    """Add two fractions, given as n0, n1, d0, d1; return numerator and denominator."""
    n0, n1, d0, d1 = pair
    return n0 * d1 + n1 * d0, d0 * d1


def combined(
    field: FieldSpec, claims: Sequence[tuple[PlainElement, PlainElement]], scale: PlainElement
) -> PlainElement:
    """Combine the claims of all trees by ascending powers, the denominator of each tree first."""
    total = PlainElement.zero(field)
    for numerator, denominator in reversed(claims):
        for part in (numerator, denominator):
            total = total * scale + part
    return total

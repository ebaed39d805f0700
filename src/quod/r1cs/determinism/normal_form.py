"""The normal form of a constraint system: linear equations and products of affine terms.

A node is a wire, or a linear combination of several wires that occurs as a factor or a product
(a form). A side of a product is then ``factor * node + constant``. Each form has a linear equation
that defines it, and rows in which A or B is constant are linear equations themselves. Forms that
differ by a factor are one node, so b and 1 - b, or x - y and y - x, share a node.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from quod.r1cs.determinism.rows import Rows


class Affine(NamedTuple):
    """``factor * node + constant``; a constant has factor 0 and node 0."""

    factor: int
    node: int
    constant: int


class Equation(NamedTuple):
    """The equation sum of ``coefficients[i] * nodes[i]`` plus `constant` = 0.

    row: the constraint that states it, or -1 for the definition of a form.
    """

    nodes: Sequence[int]
    coefficients: Sequence[int]
    constant: int
    row: int


class Product(NamedTuple):
    """The equation a·b = c between affine terms; `row` is the constraint that states it."""

    a: Affine
    b: Affine
    c: Affine
    row: int


Terms = tuple[tuple[int, ...], tuple[int, ...]]


class NormalForm:
    """The equations and products of a system.

    nodes: the number of nodes; those from `wires` on are forms.
    forms: the wires and coefficients of each form, in the order of the nodes.
    """

    def __init__(self, rows: Rows, included: Iterable[int] | None = None) -> None:
        """Add all rows, or those with some numbers."""
        self.prime, self.wires = rows.prime, rows.wires
        self.equations: list[Equation] = []
        self.products: list[Product] = []
        self.forms: list[Terms] = []
        self._numbers: dict[Terms, tuple[int, int]] = {}
        self._inverses: dict[int, int] = {}
        for row in range(rows.count) if included is None else included:
            self._add(rows, row)

    @property
    def nodes(self) -> int:
        """The number of nodes: wires and forms."""
        return self.wires + len(self.forms)

    def values(self, wires: Sequence[int]) -> list[int]:
        """Return the values of all nodes for those of all wires."""
        forms = [sum([wires[wire] * k for wire, k in zip(*terms)]) for terms in self.forms]
        return [*wires, *(value % self.prime for value in forms)]

    def _add(self, rows: Rows, row: int) -> None:
        """Add a row as an equation or as a product."""
        (a, a_constant), (b, b_constant), (c, c_constant) = (
            _terms(*rows.side(matrix, row), self.prime) for matrix in range(3)
        )
        if a[0] and b[0]:
            self.products.append(
                Product(
                    self._affine(a, a_constant), self._affine(b, b_constant),
                    self._affine(c, c_constant), row,
                )
            )  # fmt: skip
            return
        factor, terms, other = (b_constant, a, a_constant) if a[0] else (a_constant, b, b_constant)
        merged = {wire: k * factor % self.prime for wire, k in zip(*terms)} if factor else {}
        for wire, k in zip(*c):
            merged[wire] = (merged.get(wire, 0) - k) % self.prime
        nonzero = {wire: k for wire, k in merged.items() if k}
        constant = (factor * other - c_constant) % self.prime
        if nonzero:
            self.equations.append(Equation(tuple(nonzero), tuple(nonzero.values()), constant, row))

    def _affine(self, terms: Terms, constant: int) -> Affine:
        """Return a linear combination and a constant as an affine term of a node."""
        wires, coefficients = terms
        if len(wires) < 2:
            return Affine(coefficients[0], wires[0], constant) if wires else Affine(0, 0, constant)
        lead = coefficients[0]
        key = terms
        if lead != 1:
            inverse = self._inverse(lead)
            key = wires, tuple([k * inverse % self.prime for k in coefficients])
        node, node_lead = self._numbers.setdefault(key, (self.nodes, lead))
        if node == self.nodes:
            self.forms.append(terms)
            self.equations.append(
                Equation((*wires, node), (*coefficients, self.prime - 1), 0, -1)
            )  # fmt: skip
            return Affine(1, node, constant)
        factor = 1 if node_lead == lead else lead * self._inverse(node_lead) % self.prime
        return Affine(factor, node, constant)

    def _inverse(self, number: int) -> int:
        if (inverse := self._inverses.get(number)) is None:
            inverse = self._inverses[number] = pow(number, -1, self.prime)
        return inverse


def _terms(wires: Sequence[int], coefficients: Sequence[int], prime: int) -> tuple[Terms, int]:
    """Return the terms of a combination in the order of the wires, and its constant."""
    if len(wires) == 1:
        if wires[0]:
            return ((wires[0],), (coefficients[0],)) if coefficients[0] else _NO_TERMS, 0
        return _NO_TERMS, coefficients[0]
    sums: dict[int, int] = {}
    for wire, k in zip(wires, coefficients):
        sums[wire] = sums.get(wire, 0) + k
    constant = sums.pop(0, 0) % prime
    pairs = sorted([(wire, k % prime) for wire, k in sums.items() if k % prime])
    return (tuple([wire for wire, _ in pairs]), tuple([k for _, k in pairs])), constant


_NO_TERMS: Terms = ((), ())

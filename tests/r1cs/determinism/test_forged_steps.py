"""Certificates whose last steps are wrong by as little as possible; the checker rejects each."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from quod.r1cs.determinism.certificate_checker import check_certificate
from quod.r1cs.determinism.normal_form import NormalForm
from quod.r1cs.determinism.rows import Combination, rows_of
from quod.r1cs.determinism.rules import CertificateError, Rule, Step, Terms

PRIME = 11
Constraint = tuple[Combination, Combination, Combination]


class Forged(NamedTuple):
    """A certificate of which the step with this number does not follow, but those before it do.

    inputs: the wires that are inputs; of wires from 1 to the last in the constraints.
    """

    constraints: list[Constraint]
    inputs: list[int]
    steps: list[Step]
    number: int


def bit(wire: int) -> Constraint:
    """The constraint that a wire is 0 or 1."""
    return {wire: 1}, {wire: 1, 0: -1}, {}


def equation(terms: Combination) -> Constraint:
    """The constraint that a sum is 0."""
    return terms, {0: 1}, {}


def bits(*wires: int) -> list[Step]:
    """The steps that derive ranges from the constraints of bits, which come first."""
    return [
        Step(Rule.ROOTS, ((row, 1),), (wire,), (0, 1)) for row, wire in enumerate(wires)
    ]  # fmt: skip


def of(rule: Rule, row: int, *nodes: int, bounds: tuple[int, int] = (0, -1)) -> Step:
    """A step about one constraint."""
    return Step(rule, ((row, 1),), nodes, bounds)


def linear(*terms: tuple[int, int]) -> Terms:
    """A sum of multiples of nodes, as pairs of a node and its coefficient."""
    return tuple(((node,), k) for node, k in terms)


def suppose(*nodes: int, value: int = 0, claims: tuple[Terms, ...] = ()) -> Step:
    """The step that opens a case."""
    return Step(Rule.SUPPOSE, (), nodes, (value, value), claims)


OTHERWISE, JOIN = Step(Rule.OTHERWISE, ()), Step(Rule.JOIN, ())
_THREE = [bit(1), bit(2), bit(3), equation({1: 1, 2: 2, 3: 8, 4: -1})]
_SUM = linear((1, 1), (2, 2), (3, 8))
"""It is 11 if all three bits are 1, so 0 has two decompositions."""

FORGED = {
    "digits of one weight": Forged(
        [bit(1), bit(2), equation({1: 1, 2: 1, 3: -1})], [3],
        [*bits(1, 2), of(Rule.DIGITS, 2)], 2,
    ),
    "a digit of the weight of all smaller ones": Forged(
        [({1: 1}, {1: 1, 0: -2}, {}), bit(2), equation({1: 1, 2: 2, 3: -1})], [3],
        [of(Rule.ROOTS, 0, 1, bounds=(0, 2)), of(Rule.ROOTS, 1, 2, bounds=(0, 1)),
         of(Rule.DIGITS, 2)], 2,
    ),
    "digits with a sum of the modulus": Forged(
        _THREE, [4],
        [*bits(1, 2, 3), of(Rule.DIGITS, 3)._replace(polynomials=(_SUM,))], 3,
    ),
    "digits with the span of other digits": Forged(
        _THREE, [4],
        [*bits(1, 2, 3), suppose(1, claims=(linear((1, 1), (2, 2)),)), OTHERWISE, JOIN,
         of(Rule.DIGITS, 3)._replace(polynomials=(_SUM,))], 6,
    ),
    "integers for some digits only": Forged(
        [bit(1), equation({1: 1, 2: 3, 3: -1})], [3],
        [*bits(1), of(Rule.DIGITS, 1)._replace(polynomials=(linear((1, 1)),))], 1,
    ),
    "a zero factor of a nonzero product": Forged(
        [({1: 1}, {2: 1}, {0: 5})], [],
        [of(Rule.NONZERO, 0, 2, bounds=(0, 0)), of(Rule.QUOTIENT, 0, 1, bounds=(0, 0))], 1,
    ),
    "a quotient whose divisor is 0 at an end of its range": Forged(
        [bit(1), ({1: 1, 0: -1}, {2: 1}, {3: 1})], [1, 3],
        [*bits(1), of(Rule.QUOTIENT, 1, 2)], 1,
    ),
    "a quotient without a determined dividend": Forged(
        [({1: 1, 0: -2}, {2: 1}, {3: 1}), bit(1)], [1],
        [of(Rule.ROOTS, 1, 1, bounds=(0, 1)), of(Rule.QUOTIENT, 0, 2)], 1,
    ),
    "a root whose negative is next to it": Forged(
        [({1: 1, 0: -5}, {1: 1, 0: -6}, {}), ({1: 1}, {1: 1}, {2: 1})], [2],
        [of(Rule.ROOTS, 0, 1, bounds=(5, 6)), of(Rule.SIGN, 1)], 1,
    ),
    "a range without its upper end": Forged(
        [bit(1), equation({1: 2, 2: -1})], [],
        [*bits(1), of(Rule.RANGE, 1, 2, bounds=(0, 1))], 1,
    ),
    "a range without its lower end": Forged(
        [bit(1), equation({1: -2, 2: -1})], [],
        [*bits(1), of(Rule.RANGE, 1, 2, bounds=(-1, 0))], 1,
    ),
    "the range of a square from its ends": Forged(
        [({1: 1, 0: 1}, {1: 1, 0: -1}, {}), ({1: 1}, {1: 1}, {2: 1})], [],
        [of(Rule.ROOTS, 0, 1, bounds=(-1, 1)), of(Rule.RANGE, 1, 2, bounds=(1, 1))], 1,
    ),
    "one of two roots": Forged([bit(1)], [], [of(Rule.ROOTS, 0, 1, bounds=(0, 0))], 0),
    "a product of which one factor may be 0": Forged(
        [({1: 1}, {2: 1}, {3: 1}), bit(2), equation({1: 1, 0: -3})], [],
        [of(Rule.ROOTS, 2, 1, bounds=(3, 3)), of(Rule.ROOTS, 1, 2, bounds=(0, 1)),
         of(Rule.NONZERO, 0, 3, bounds=(0, 0))], 2,
    ),
    "parts of a sum that reach the power of two": Forged(
        [bit(1), bit(2), equation({1: 2, 2: -2})], [],
        [*bits(1, 2), Step(Rule.SPLIT, ((2, 1),), (), (2, 2),
                           (linear((1, 2)), linear((2, -1))))], 2,
    ),
    "a definition by a later node": Forged(
        [bit(1)], [],
        [Step(Rule.DERIVE, (), polynomials=(linear((3, 1)),)),
         Step(Rule.DERIVE, (), polynomials=((((2,), 1), ((), 1)),)),
         Step(Rule.ROOTS, ((1, 1), (2, 1)), (1,), (0, 0))], 0,
    ),
    "the span of nodes that are no bits": Forged(
        [({1: 1}, {1: 1, 0: -2}, {}), bit(2)], [],
        [of(Rule.ROOTS, 0, 1, bounds=(0, 2)), of(Rule.ROOTS, 1, 2, bounds=(0, 1)),
         suppose(2, claims=(linear((1, 1)),)), OTHERWISE], 3,
    ),
    "a span with negative values": Forged(
        [bit(1), bit(2)], [],
        [*bits(1, 2), suppose(2, claims=(linear((1, -1), (2, 2)),)), OTHERWISE], 3,
    ),
    "a span with the modulus": Forged(
        _THREE, [],
        [*bits(1, 2, 3), suppose(1, claims=(_SUM,)), OTHERWISE, JOIN], 5,
    ),
    "cases of a node that differs between witnesses": Forged(
        [bit(1), equation({1: 3, 2: -1})], [],
        [*bits(1), suppose(1, 2), of(Rule.DIGITS, 1), OTHERWISE, of(Rule.DIGITS, 1), JOIN], 3,
    ),
    "one of two cases": Forged(
        [({1: 1}, {2: 1}, {3: 1})], [1], [suppose(1, 3), of(Rule.DIGITS, 0), JOIN], 2
    ),
    "a second case without the claim": Forged(
        [({1: 1}, {2: 1}, {3: 1})], [1], [suppose(1, 3), of(Rule.DIGITS, 0), OTHERWISE, JOIN], 3
    ),
    "a fact of a case after it": Forged(
        [({1: 1}, {2: 1}, {3: 1}), equation({3: 1, 4: -1})], [1],
        [suppose(1), of(Rule.DIGITS, 0), OTHERWISE, JOIN, of(Rule.DIGITS, 1)], 4,
    ),
    "a polynomial of a case after it": Forged(
        [bit(1), equation({2: 1, 1: -1})], [],
        [suppose(1), Step(Rule.DERIVE, ((1, 1),)), OTHERWISE, JOIN, of(Rule.DIGITS, 2)], 4,
    ),
    "a contradiction of the first case in the second": Forged(
        [bit(1), bit(2)], [1], [*bits(1, 2), suppose(1, 2, value=5), OTHERWISE, JOIN], 4
    ),
    "a factor of a product that may be 0": Forged(
        [({1: 1}, {2: 1}, {3: 1})], [], [of(Rule.NONZERO, 0, 1, bounds=(0, 0))], 0
    ),
    "a quotient by a divisor that is not determined": Forged(
        [({1: 1, 0: -1}, {1: 1, 0: -2}, {}), ({1: 1}, {2: 1}, {3: 1})], [3],
        [of(Rule.ROOTS, 0, 1, bounds=(1, 2)), of(Rule.QUOTIENT, 1, 2)], 1,
    ),
    "a root of a product of two nodes": Forged(
        [bit(1), ({1: 1}, {2: 1}, {3: 1})], [3], [*bits(1), of(Rule.SIGN, 1)], 1
    ),
    "a root of a square that is not determined": Forged(
        [bit(1), ({1: 1}, {1: 1}, {2: 1})], [], [*bits(1), of(Rule.SIGN, 1)], 1
    ),
    "a root without its second factor": Forged(
        [bit(1), ({1: 1}, {1: 1, 0: -1}, {2: 1})], [2], [*bits(1), of(Rule.SIGN, 1)], 1
    ),
    "parts of another sum": Forged(
        [bit(1), bit(2), bit(3), equation({1: 1, 2: 2, 3: -1})], [],
        [*bits(1, 2, 3), Step(Rule.SPLIT, ((3, 1),), (), (2, 2),
                              (linear((1, 1)), linear((2, 1))))], 3,
    ),
    "parts of a sum that reaches the modulus": Forged(
        [bit(1), bit(2), bit(3), equation({1: 1, 2: 2, 3: 8})], [],
        [*bits(1, 2, 3), Step(Rule.SPLIT, ((3, 1),), (), (2, 2),
                              (linear((1, 1)), linear((2, 1), (3, 4))))], 3,
    ),
    "the first of two ranges in a case after it": Forged(
        [bit(1), equation({1: 3, 2: -1}), equation({2: 1, 3: -1})], [],
        [*bits(1), suppose(1), of(Rule.RANGE, 1, 2, bounds=(0, 1)),
         of(Rule.RANGE, 1, 2, bounds=(0, 0)), OTHERWISE, JOIN,
         of(Rule.RANGE, 2, 3, bounds=(0, 1))], 6,
    ),
    "a range that a value between its ends narrows": Forged(
        [({1: 1}, {1: 1, 0: -2}, {}), ({1: 1, 0: -1}, {2: 1}, {0: 5}), ({1: 1}, {3: 1}, {4: 1})],
        [1, 4],
        [of(Rule.ROOTS, 0, 1, bounds=(0, 2)), of(Rule.NONZERO, 1, 1, bounds=(1, 1)),
         of(Rule.QUOTIENT, 2, 3)], 2,
    ),
    "a contradiction with another value": Forged(
        [bit(1), bit(2)], [1],
        [*bits(1, 2), suppose(1, 2), suppose(1, 2, value=1), OTHERWISE, JOIN], 5,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FORGED)
def test_forged_step_is_rejected(name: str) -> None:
    constraints, inputs, steps, number = FORGED[name]
    wires = 1 + max(wire for constraint in constraints for side in constraint for wire in side)
    rows = rows_of(PRIME, wires, constraints, inputs, [])
    with pytest.raises(CertificateError, match=f"^step {number} of the certificate"):
        check_certificate(rows, NormalForm(rows), steps)

"""Comparisons of bits with a constant by a sum of integers, as in circomlib's CompConstant.

For each pair of bits a wire is a quadratic polynomial of both. Their sum has a decomposition into
bits, and one of these is the result of the comparison. With 127 wires that are 0 if the pair
equals that of the constant, 2**i if it is smaller and 2**128 - 2**i if it is greater, the sum is
that of -2**i and 2**i modulo 2**128, whose sign is the highest bit.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from quod.frozen import frozen
from quod.r1cs.determinism.arguments.denominators import multiplied, terms_of
from quod.r1cs.determinism.arguments.integer_sums import IntegerSum, largest_group
from quod.r1cs.determinism.arithmetic import Polynomial, centred, inverse
from quod.r1cs.determinism.propagation import Propagation
from quod.r1cs.determinism.rules import Rule, Step

_MIN_DEFINITIONS = 2
_MAX_GROUP = 4


@frozen(eq=False)
class ComparisonSum:
    """A sum of integers that is 0: the low part of a sum modulo a power of two.

    step: the split that derives it.
    contradiction: the step that shows that there is no witness if the sum cannot be 0.
    """

    terms: Polynomial
    step: Step
    contradiction: Step


def comparison_sums(facts: Propagation, bits: set[int]) -> Iterator[ComparisonSum]:
    """Yield sums of integers from the constraints between some bits."""
    definitions, relations = _definitions(facts, bits)
    for relation in relations:
        total, sources = row_polynomial(facts, relation), {relation: 1}
        definitions_in_total = [wire for wire in definitions if total.get((wire,))]
        if len(definitions_in_total) < _MIN_DEFINITIONS:
            continue
        for wire in definitions_in_total:
            row, k = definitions[wire]
            factor = -total[wire,] * inverse(k, facts.prime) % facts.prime
            sources[row] = factor
            _add(total, row_polynomial(facts, row), factor, facts.prime)
        if _eliminate(facts, total, sources):
            yield from _splits(facts, total, sources)


def row_polynomial(facts: Propagation, row: int) -> Polynomial:
    """Return a·b - c of a row as a polynomial in wires; constants have their values."""
    prime = facts.prime
    sides: list[Polynomial] = []
    for matrix in range(3):
        side: Polynomial = {}
        for wire, k in zip(*facts.rows.side(matrix, row)):
            bounds = facts.ranges[wire] if wire else (1, 1)
            is_constant = bounds is not None and bounds[0] == bounds[1]
            key, value = ((), k * bounds[0]) if is_constant and bounds else ((wire,), k)
            _add(side, {key: value}, 1, prime)
        sides.append(side)
    a, b, c = sides
    total = multiplied(a, b, prime)
    _add(total, c, -1, prime)
    return total


def _add(total: Polynomial, terms: Polynomial, factor: int, prime: int) -> None:
    """Add a multiple of a polynomial to another one in place; drop zeros."""
    for monomial, k in terms.items():
        if value := (total.get(monomial, 0) + factor * k) % prime:
            total[monomial] = value
        else:
            total.pop(monomial, None)


def _definitions(
    facts: Propagation, bits: set[int]
) -> tuple[dict[int, tuple[int, int]], list[int]]:
    """Return wires that products of two bits define, and the rows that may contain their sum.

    A definition is the row and the coefficient of the wire in it.
    """
    definitions: dict[int, tuple[int, int]] = {}
    relations: dict[int, None] = {}
    products = dict.fromkeys(index for node in bits for index in facts.products_of[node])
    for index in products:
        a, b, _, row = facts.form.products[index]
        if a.node == b.node or not {a.node, b.node} <= bits:
            continue
        polynomial = row_polynomial(facts, row)
        others = [m for m in polynomial if not bits.issuperset(m)]
        if len(others) == 1 and len(others[0]) == 1:
            definitions.setdefault(others[0][0], (row, polynomial[others[0]]))
        elif others:
            relations[row] = None
    defining = {row for row, _ in definitions.values()}
    for wire in definitions:
        relations.update(dict.fromkeys(_rows_with(facts, wire)))
    return definitions, [row for row in relations if row not in defining]


def _rows_with(facts: Propagation, wire: int) -> Iterable[int]:
    """Yield the rows of the equations of a wire, and of the products of forms that contain it."""
    for index in facts.equations_of[wire]:
        equation = facts.equations[index]
        if equation.row >= 0:
            yield equation.row
        else:
            for product in facts.products_of[max(equation.nodes)]:
                yield facts.form.products[product].row


def _eliminate(facts: Propagation, total: Polynomial, sources: dict[int, int]) -> bool:
    """Replace the wire that is no bit by its bits; return whether only bits are left.

    Equations lead from the wire to copies of it, and then to its decomposition.
    """
    while wide := {node for monomial in total for node in monomial if not _is_bit(facts, node)}:
        rows = [
            facts.equations[index].row
            for wire in wide
            for index in facts.equations_of[wire]
            if facts.equations[index].row not in (-1, *sources)
        ]
        wire = max(wide)
        if len(wide) > 1 or (wire,) not in total or not rows:
            return False
        candidates = [(row, row_polynomial(facts, row)) for row in rows]
        row, terms = min(
            candidates,
            key=lambda candidate: sum(not _is_bit(facts, n) for m in candidate[1] for n in m),
        )
        factor = -total[wire,] * inverse(terms[wire,], facts.prime) % facts.prime
        sources[row] = factor
        _add(total, terms, factor, facts.prime)
    return True


def _is_bit(facts: Propagation, node: int) -> bool:
    return facts.ranges[node] == (0, 1)


def _splits(
    facts: Propagation, total: Polynomial, sources: dict[int, int]
) -> Iterator[ComparisonSum]:  # fmt: skip
    """Split a sum that is 0 modulo p in its parts below and from powers of two on."""
    prime = facts.prime
    squares = any(len({*monomial}) < len(monomial) for monomial in total)
    if squares or largest_group(total) > _MAX_GROUP:
        return
    ranges = {n: bounds for m in total for n in m if (bounds := facts.ranges[n]) is not None}
    signed = {monomial: centred(k, prime) for monomial, k in total.items()}
    products = {node for monomial in total if len(monomial) > 1 for node in monomial}
    # One of both representatives of the constant may make the sum of integers 0.
    for constant in (signed.get((), 0), signed.get((), 0) - prime, signed.get((), 0) + prime):
        integers = {**signed, (): constant}
        if not IntegerSum(integers, ranges).is_between(1 - prime, prime - 1):
            continue
        exponents = {(k & -k).bit_length() - 1 for k in integers.values() if k} - {0}
        # The longest low part tells most.
        for exponent in sorted(exponents, reverse=True):
            modulus = 1 << exponent
            low = {monomial: _low_part(k, modulus) for monomial, k in integers.items()}
            low = {monomial: k for monomial, k in low.items() if k}
            node = next((m for m, k in low.items() if abs(k) == 1 and not products & {*m}), ())
            if not node or not IntegerSum(low, ranges).is_between(1 - modulus, modulus - 1):
                continue
            high = {m: (k - low.get(m, 0)) // modulus for m, k in integers.items()}
            high = {monomial: k for monomial, k in high.items() if k}
            step = Step(
                Rule.SPLIT, tuple(sources.items()), (), (modulus, modulus),
                (terms_of(low), terms_of(high)),
            )  # fmt: skip
            contradiction = Step(Rule.RANGE, ((facts.derived, -low[node]),), node, (0, 1))
            yield ComparisonSum(low, step, contradiction)


def _low_part(number: int, modulus: int) -> int:
    """Return the residue of least magnitude; of two, that with the other sign than the number.

    A result that is a bit of weight -modulus / 2 then moves the low part up.
    """
    low = number % modulus
    if 2 * low > modulus or (2 * low == modulus and number > 0):
        low -= modulus
    return low

"""Findings about comparisons: bits of x - y + 2^n, of which the highest is 1 unless x < y."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from quod.r1cs.determinism.arithmetic import centred, inverse
from quod.r1cs.determinism.findings.kinds import OPERAND_RANGE, UNUSED_COMPARISON
from quod.r1cs.determinism.findings.names import listed
from quod.r1cs.determinism.findings.projection import Occurrences
from quod.r1cs.determinism.lints import Finding
from quod.r1cs.determinism.normal_form import Equation
from quod.r1cs.determinism.propagation import Propagation

_MAX_DEFINITIONS = 4
"""The number of equations through which the operands of a comparison are sought."""
_ROWS_OF_A_BIT = 2
"""The rows of a bit that nothing uses: it is 0 or 1, and its decomposition."""


class _Sum(NamedTuple):
    """A sum of nodes with coefficients, and a constant."""

    terms: dict[int, int]
    constant: int


def comparison_findings(
    facts: Propagation, occurrences: Occurrences, equation: Equation, bits: Sequence[int],
    others: Sequence[int],
) -> Iterator[Finding]:  # fmt: skip
    """Yield operands without a range, and comparisons whose result nothing uses.

    bits, others: the nodes of a decomposition, and its other nodes.
    """
    operands = _operands(facts, equation, bits, others)
    if operands is None:
        return
    size = 1 << len(bits) - 1
    uses = [occurrences.counts[bit] - _ROWS_OF_A_BIT for bit in bits]
    wide = [
        node
        for node in operands
        if (bounds := facts.ranges[node]) is None or not 0 <= bounds[0] <= bounds[1] < size
    ]
    place = facts.rows.place(equation.row)
    if wide and uses[-1] > 0:
        is_single = len(wide) == 1
        reason = f"{'is' if is_single else 'are'} compared as {'a ' if is_single else ''}"
        reason += f"number{'' if is_single else 's'} of {len(bits) - 1} bits, and may be greater"
        yield Finding(OPERAND_RANGE, f"{listed(facts.rows, sorted(wide))} {reason}; {place}")
    elif not wide and not any(uses):
        reason = "is the result of a comparison, and no constraint uses it"
        yield Finding(UNUSED_COMPARISON, f"{listed(facts.rows, [bits[-1]])} {reason}; {place}")


def _operands(
    facts: Propagation, equation: Equation, bits: Sequence[int], others: Sequence[int]
) -> list[int] | None:
    """Return the operands of a comparison, or None if the decomposed number is another one."""
    prime = facts.prime
    coefficients = dict(zip(equation.nodes, equation.coefficients))
    scale = -inverse(coefficients[bits[0]], prime)
    number = _Sum(
        {node: coefficients[node] * scale for node in others}, equation.constant * scale
    )  # fmt: skip
    queue, seen = [number], {equation.row}
    for terms, constant in queue:
        if _is_comparison(terms, constant, 1 << len(bits) - 1, prime):
            return list(terms)
        if len(terms) == 1 and len(seen) <= _MAX_DEFINITIONS:
            ((node, factor),) = terms.items()
            queue += _definitions(facts, node, factor, constant, seen)
    return None


def _is_comparison(terms: dict[int, int], constant: int, size: int, prime: int) -> bool:
    """Return whether a sum is x - y + size, or the same with a constant operand."""
    signs = sorted(centred(k, prime) for k in terms.values())
    offset = constant % prime - size
    if signs == [-1, 1]:
        return abs(offset) <= 1
    return signs in ([1], [-1]) and 0 < abs(offset) < size


def _definitions(
    facts: Propagation, node: int, factor: int, constant: int, seen: set[int]
) -> Iterator[_Sum]:  # fmt: skip
    """Yield sums of one or two nodes that equal a node by a linear constraint."""
    prime = facts.prime
    for index in facts.equations_of[node]:
        equation = facts.equations[index]
        if equation.row >= 0 and equation.row not in seen and len(equation.nodes) <= 3:
            seen.add(equation.row)
            terms = dict(zip(equation.nodes, equation.coefficients))
            scale = -factor * inverse(terms.pop(node), prime)
            yield _Sum(
                {each: k * scale % prime for each, k in terms.items()},
                constant + equation.constant * scale,
            )

"""Findings: likely mistakes in a circuit, each with its reason and its place.

A finding is no verdict. It tells where propagation stopped, which assumption of a gadget no
constraint enforces, or which signal has no effect.
"""

from __future__ import annotations

from quod.r1cs.determinism.findings.kinds import (
    ALIAS,
    FREE,
    NOT_A_BIT,
    OPERAND_RANGE,
    UNUSED,
    UNUSED_COMPARISON,
    UNUSED_PUBLIC,
    ZERO_DIVISOR,
)
from quod.r1cs.determinism.findings.projection import Occurrences
from quod.r1cs.determinism.findings.propagated import propagated_findings
from quod.r1cs.determinism.findings.unused import graph_findings
from quod.r1cs.determinism.lints import Finding
from quod.r1cs.determinism.propagation import Propagation
from quod.r1cs.determinism.rows import Rows

__all__ = [
    "ALIAS",
    "FREE",
    "NOT_A_BIT",
    "OPERAND_RANGE",
    "UNUSED",
    "UNUSED_COMPARISON",
    "UNUSED_PUBLIC",
    "ZERO_DIVISOR",
    "findings_of",
]


def findings_of(rows: Rows, facts: Propagation | None) -> list[Finding]:
    """Find likely mistakes in a system.

    facts: those of a finished propagation of all wires; without them only findings of the
        constraint graph.
    """
    occurrences = Occurrences(rows)
    if facts is None:
        return list(graph_findings(rows, occurrences, ()))
    undetermined = {wire for wire in range(1, rows.wires) if not facts.determined[wire]}
    reported = set[int]()
    findings = list(propagated_findings(facts, occurrences, reported))
    return [*findings, *graph_findings(rows, occurrences, undetermined, reported)]

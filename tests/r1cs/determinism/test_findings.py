"""Findings name the cause of each planted fault, with the signal and the constraint."""

from __future__ import annotations

import pytest

from quod import r1cs
from quod.r1cs.determinism import findings
from quod.r1cs.determinism.report import Report, check
from quod.r1cs.determinism.rows import rows_of
from quod.r1cs.determinism.sources import rows_of_circuit
from tests.r1cs.determinism.test_report import PAIRS, System

EXPECTED = {
    "bits not boolean": findings.NOT_A_BIT,
    "alias x + p": findings.ALIAS,
    "0/0": findings.ZERO_DIVISOR,
    "equal points": findings.ZERO_DIVISOR,
    "one-hot without its sum": findings.ZERO_DIVISOR,
}


def _report(circuit: r1cs.Circuit) -> Report:
    return check(rows_of_circuit(circuit.system), seconds=2)


@pytest.mark.parametrize("fault", EXPECTED)
def test_finding_names_the_fault(fault: str) -> None:
    faulty, mended = (r1cs.trace(circuit) for circuit in PAIRS[fault])
    (kind,) = {finding.kind for finding in _report(faulty).findings}
    assert kind == EXPECTED[fault]
    assert not _report(mended).findings


def test_place_and_reason_of_a_finding() -> None:
    finding = _report(r1cs.trace(PAIRS["bits not boolean"][0])).findings[0]
    assert finding.message.startswith("wire ")
    assert "may be any number; constraint 0 (" in finding.message


def test_operands_of_a_comparison_need_a_range() -> None:
    def circuit(system: System) -> None:
        x, y = system.public("x"), system.public("y")
        system.output("less", 1 - system.bits(x - y + (1 << 8), 9)[8])
        system.output("root", system.hint(lambda value: value, [x])[0])

    kinds = [finding.kind for finding in _report(r1cs.trace(circuit)).findings]
    assert kinds.count(findings.OPERAND_RANGE) == 2


def test_signals_without_an_input() -> None:
    """x * y = 5 says nothing about the input z."""
    rows = rows_of(101, 4, [({1: 1}, {2: 1}, {0: 5}), ({3: 1}, {3: 1}, {3: 1})], [3], [1])
    (finding,) = check(rows).findings
    assert finding.kind == findings.FREE
    assert finding.message.startswith("wire 1 and 1 more signals share no constraint")

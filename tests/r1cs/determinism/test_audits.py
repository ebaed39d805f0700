"""Vulnerable circuits of public audit reports, and their mended versions."""

from __future__ import annotations

import pytest

from quod import r1cs
from quod.r1cs.determinism.report import check
from quod.r1cs.determinism.sources import rows_of_circuit
from tests.r1cs.determinism.audits import bits, curves, integers
from tests.r1cs.determinism.audits.records import Audit

AUDITS = [*integers.AUDITS, *bits.AUDITS, *curves.AUDITS]


@pytest.mark.parametrize("audit", AUDITS, ids=[audit.name for audit in AUDITS])
def test_fault_is_ambiguous_and_mended_circuit_is_unique(audit: Audit) -> None:
    assert audit.source
    circuits = [r1cs.trace(lambda s, m=is_mended: audit.circuit(s, m)) for is_mended in (0, 1)]
    faulty, mended = (
        {verdict.kind for verdict in check(rows_of_circuit(each.system), seconds=600).verdicts}
        for each in circuits
    )
    assert "ambiguous" in faulty
    assert mended == {"unique"}


def test_each_fault_has_another_name() -> None:
    assert len({audit.name for audit in AUDITS}) == len(AUDITS) >= 27

"""The verdict of the determinism check on each signal of the circuits for Outputs."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from quod.r1cs import Circuit
from quod.r1cs.determinism.waivers import unwaived
from quod.zcash.masp import masp_output_circuit
from quod.zcash.output import output_circuit
from quod.zcash.waiver_files import circuit_waivers

CIRCUITS: dict[str, tuple[Callable[[], Circuit], int]] = {
    "output": (output_circuit, 600),
    "masp_output": (masp_output_circuit, 863),
}
"""Each circuit with the number of its waived signals."""


@pytest.mark.parametrize("name", CIRCUITS)
def test_waivers_have_a_source(name: str) -> None:
    assert all("section" in waiver.source for waiver in circuit_waivers(name))


@pytest.mark.thorough
@pytest.mark.parametrize("name", CIRCUITS)
def test_each_signal_is_unique_or_waived(name: str) -> None:
    """All but the Pedersen hash of the note, whose argument is about orders of points."""
    circuit, count = CIRCUITS[name]
    report = circuit().check(targets=["all"], seconds=120)
    assert not unwaived(report, circuit_waivers(name))
    assert len(report.verdicts) - len(report.of_kind("unique")) == count
    assert not report.of_kind("ambiguous")

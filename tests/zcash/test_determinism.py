"""The verdict of the determinism check on each signal of the circuits for Outputs."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from quod.r1cs import Circuit
from quod.zcash.masp import masp_output_circuit
from quod.zcash.output import output_circuit

CIRCUITS: dict[str, Callable[[], Circuit]] = {
    "output": output_circuit,
    "masp_output": masp_output_circuit,
}


@pytest.mark.thorough
@pytest.mark.parametrize("name", CIRCUITS)
def test_each_signal_is_unique(name: str) -> None:
    report = CIRCUITS[name]().check(targets=["all"], seconds=240)
    assert [verdict.name for verdict in report.verdicts if verdict.kind != "unique"] == []

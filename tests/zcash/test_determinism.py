"""The verdicts of the determinism check: all signals of Outputs, the public values of Converts."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from quod.r1cs import Circuit
from quod.zcash.masp import masp_convert_circuit, masp_output_circuit
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


@pytest.mark.thorough
def test_public_values_of_converts_are_unique() -> None:
    report = masp_convert_circuit().check(seconds=240)
    assert report.is_unique
    assert [verdict.name for verdict in report.verdicts] == ["cv.u", "cv.v", "anchor"]

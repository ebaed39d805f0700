"""The verdicts of the determinism check on the circuits of Sapling and MASP.

The check of a Spend takes some 40 s of a core, and several times as long on a busy machine.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from quod.cli import entry
from quod.r1cs import Circuit
from quod.zcash.masp import masp_convert_circuit, masp_output_circuit, masp_spend_circuit
from quod.zcash.output import output_circuit
from quod.zcash.spend import spend_circuit

_SPEND = ["rk.u", "rk.v", "cv.u", "cv.v", "anchor", "nullifier[0]", "nullifier[1]"]
PUBLIC_VALUES: dict[str, tuple[Callable[[], Circuit], list[str]]] = {
    "sapling-spend": (spend_circuit, _SPEND),
    "masp-spend": (masp_spend_circuit, _SPEND),
    "masp-convert": (masp_convert_circuit, ["cv.u", "cv.v", "anchor"]),
}


def check_all_signals(circuit: Circuit) -> None:
    report = circuit.check(targets=["all"], seconds=240)
    assert [verdict.name for verdict in report.verdicts if verdict.kind != "unique"] == []


def test_each_signal_of_outputs_is_unique() -> None:
    check_all_signals(output_circuit())


@pytest.mark.thorough
def test_each_signal_of_outputs_of_masp_is_unique() -> None:
    check_all_signals(masp_output_circuit())


@pytest.mark.thorough
@pytest.mark.parametrize("name", PUBLIC_VALUES)
def test_public_values_are_unique(name: str) -> None:
    circuit, names = PUBLIC_VALUES[name]
    report = circuit().check(seconds=240)
    assert report.is_unique
    assert [verdict.name for verdict in report.verdicts] == names


@pytest.mark.thorough
def test_a_file_of_the_spend_of_masp_is_unique(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The file's labels show the private inputs, which are not its first wires."""
    path = str(tmp_path / "spend.r1cs")
    assert entry.run(["zcash", "circuit", "masp-spend", path, "-q"]) == 0
    assert entry.run(["r1cs", "check", path, "--time", "240"]) == 0
    assert "7 targets unique" in capsys.readouterr().err

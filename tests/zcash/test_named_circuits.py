"""The circuits by name: the same names everywhere, their benchmarks' inputs, and the command."""

from __future__ import annotations

from pathlib import Path

import pytest

from quod.bench.proofs import circuits as benchmarks
from quod.cli import entry, sapling
from quod.errors import InputError
from quod.zcash.named_circuits import CIRCUITS


def test_commands_and_benchmarks_have_all_names() -> None:
    assert tuple(CIRCUITS) == sapling.CIRCUITS == benchmarks.CIRCUITS
    with pytest.raises(InputError, match="sapling-spend"):
        CIRCUITS["sapling-spent"]


@pytest.mark.parametrize("name", CIRCUITS)
def test_inputs_of_benchmarks_satisfy_their_circuit(name: str) -> None:
    circuit, inputs = benchmarks._circuit_and_inputs(name)
    assert circuit is CIRCUITS[name]()
    assert circuit.check(circuit.witness(inputs)) == []


def test_the_command_writes_circuits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert entry.run(["sapling", "circuit", "masp-convert", "c.r1cs"]) == 0
    assert "47358 constraints" in capsys.readouterr().err.replace(",", "")
    assert Path("c.r1cs").stat().st_size > 1 << 20
    Path("note.json").write_text("{}")
    files = ["--note", "note.json", "--witness", "w.wtns"]
    assert entry.run(["sapling", "circuit", "sapling-spend", "s.r1cs", *files]) == 2
    assert "--note requires" in capsys.readouterr().err
    assert not Path("s.r1cs").exists()

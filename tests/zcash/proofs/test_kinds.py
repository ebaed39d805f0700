"""The kinds of proofs: the same names everywhere, inputs, statements, and the circuit command."""

from __future__ import annotations

from pathlib import Path

import pytest

from quod.bench.proofs import zcash as benchmarks
from quod.cli import entry, zcash
from quod.errors import InputError
from quod.field.array import words_to_integers
from quod.zcash.proofs.kinds import KINDS, MASP_CONVERT, SAPLING_SPEND, kind_of
from quod.zcash.protocol import MASP, SAPLING
from quod.zcash.spend_statement import ConvertStatement, SpendStatement


def test_commands_and_benchmarks_have_all_names() -> None:
    assert tuple(KINDS) == zcash.CIRCUITS == benchmarks.CIRCUITS
    with pytest.raises(InputError, match="sapling-spend"):
        KINDS["sapling-spent"]
    assert kind_of(SAPLING, SpendStatement) == SAPLING_SPEND
    assert kind_of(MASP, ConvertStatement) == MASP_CONVERT
    assert kind_of(SAPLING, ConvertStatement) is None


@pytest.mark.parametrize("name", KINDS)
def test_the_inputs_of_an_info_prove_its_statement(name: str) -> None:
    info, kind = benchmarks.info_of(name), KINDS[name]
    circuit = kind.circuit()
    witness = circuit.witness(info.inputs)
    public = words_to_integers(circuit.field, witness.values)[1 : 1 + circuit.public]
    statement = info.statement
    assert info.kind == kind
    assert statement.public == public
    assert kind.statement.from_public(public) == statement
    assert kind.statement.from_bytes(*statement.to_bytes()) == statement
    assert len(kind.statement.fields) == len(statement.to_bytes())
    assert kind.public == circuit.public == kind.statement.public_inputs
    assert "(...)" in repr(info)


def test_the_command_writes_circuits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert entry.run(["zcash", "circuit", "masp-convert", "c.r1cs"]) == 0
    assert "47358 constraints" in capsys.readouterr().err.replace(",", "")
    assert Path("c.r1cs").stat().st_size > 1 << 20
    Path("note.json").write_text("{}")
    command = ["zcash", "circuit", "sapling-output", "s.r1cs", "--inputs", "note.json"]
    assert entry.run(command) == 2
    assert "--inputs and --witness" in capsys.readouterr().err
    assert entry.run([*command, "--witness", "w.wtns"]) == 3
    assert "address" in capsys.readouterr().err
    assert not Path("s.r1cs").exists()

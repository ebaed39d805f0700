"""The cases of quod bench zcash that are not proofs: signatures, and calculators in V8."""

from __future__ import annotations

import json

import pytest

from quod.bench.peers.v8 import calculator_in_v8
from quod.bench.proofs import zcash as bench_zcash
from quod.cli import entry
from quod.errors import QuodError
from quod.zcash.output import output_circuit

ONCE = ["--repeats", "1", "--seconds", "0", "--json", "--quiet"]


def test_signatures(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench_zcash, "_VERIFIED", 20)
    assert entry.run(["bench", "zcash", "--only", "signatures", *ONCE]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["parameters"]["what"] for row in rows] == ["sign", "verify 1", "verify 20"]
    assert {row["parameters"]["signature"] for row in rows} == {"spendAuthSig"}
    assert all(row["median"] > 0 for row in rows)
    for options in (["--proof", "sapling-output"], ["--params", "."]):
        assert entry.run(["bench", "zcash", "--only", "signatures", *options]) == 2
        assert "--only signatures takes neither" in capsys.readouterr().err
    assert entry.run(["bench", "zcash", "--only", "notes"]) == 2
    assert "--only must be one of" in capsys.readouterr().err


@pytest.mark.node
def test_a_calculator_in_v8() -> None:
    circuit = output_circuit()
    inputs = dict(bench_zcash.info_of("sapling-output").inputs)
    with calculator_in_v8(circuit, inputs) as run:
        assert run is not None
        run()
        run()
    with calculator_in_v8(circuit, inputs | {"g_d": [3, 4]}) as run:
        assert run is not None
        with pytest.raises(QuodError, match="in node failed: the input does not satisfy"):
            run()


def test_no_calculator_without_node(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with calculator_in_v8(output_circuit(), {}) as run:
        assert run is None

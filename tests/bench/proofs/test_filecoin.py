"""`quod bench filecoin`: its cases, and refused arguments."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from quod.bench.proofs.filecoin import cases
from quod.cli import entry
from quod.device.runtime.timeline import Timeline
from quod.filecoin.parameters import ParameterSet, ProofKind
from quod.filecoin.sectors import sector_shape
from tests.filecoin.made_parameters import WINDOW, write_parameters

WHAT = [
    "open circuit and key",
    "witness of a partition",
    "prove a partition",
    "vanilla proofs to proof",
]


def test_cases_with_their_stages(tmp_path: Path) -> None:
    write_parameters(WINDOW, tmp_path)
    names, stages = [], []
    for case in cases("cpu", ["window"], ["2KiB"], tmp_path):
        names.append(case.parameters.pop("what"))
        assert case.parameters.pop("constraints", 21_866) == 21_866
        assert case.parameters.pop("partitions", 1) == 1
        assert case.parameters == {"proof": "window", "sector": "2KiB"}
        timeline = Timeline()
        if case.traced is not None:
            case.traced(timeline)
        stages.append([row.name for row in timeline.table() if row.depth == 0])
    assert names == WHAT
    opening, witness, proof, statement = stages
    assert {"circuit", "digest of parameters", "read", "convert points"} <= set(opening)
    assert witness == []
    assert "sums" in proof
    assert statement == ["checks of vanilla proofs", "circuit witness", "proof"]


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (["--proof", "none"], 2, "--proof must be one of porep, window, winning, update"),
        (["--sector", "3KiB"], 3, "there is no sector size '3KiB'; choose one of 2KiB, 4KiB"),
        (["--proof", "update", "--sector", "512MiB"], 3, "need a CUDA device"),
        (["--proof", "window"], 3, "has no parameters of window-2KiB"),
    ],
)
def test_refused_arguments(
    arguments: list[str], code: int, text: str, tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    assert entry.run(["bench", "filecoin", *arguments, "--params", str(tmp_path)]) == code
    captured = capsys.readouterr()
    assert text in captured.err
    assert captured.out == ""


@pytest.mark.thorough
@pytest.mark.parametrize("kind", ["winning", "window"])
def test_rows(kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_parameters(ParameterSet(ProofKind(kind), sector_shape(2048)), tmp_path)
    options = ["--params", str(tmp_path), "--repeats", "1", "--seconds", "0", "--json", "--quiet"]
    assert entry.run(["bench", "filecoin", "--proof", kind, *options]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["parameters"]["what"] for row in rows] == WHAT
    assert [row["unit"] for row in rows] == ["s", "ms", "ms", "ms"]
    assert {(row["subject"], row["parameters"]["proof"]) for row in rows} == {("filecoin", kind)}

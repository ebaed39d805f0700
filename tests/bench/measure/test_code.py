"""Rows record the code they measure; rows of unchanged code are not measured again."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from quod.bench.measure import harness, results
from quod.bench.measure.code import sources_digest
from quod.cli import entry
from quod.device import CpuDevice
from tests.device import kernels

ONCE = ["--repeats", "1", "--seconds", "0", "--quiet"]
NTT = ["bench", "ntt", "--curve", "bn254", "--log2", "4", *ONCE]


def launching(device: CpuDevice, amount: int, runs: list[int]) -> harness.Case:
    """A case that launches a kernel of which `amount` is a part."""

    def run() -> None:
        runs.append(amount)
        compiled = device.compile(kernels.raise_to, amount=amount)
        device.launch(compiled, 1, 1, np.zeros(8, np.uint32))

    return harness.Case({"n": 1}, run)


def measure(
    cases: list[harness.Case], earlier: dict[harness.Identity, harness.Measurement] | None = None
) -> list[harness.Measurement]:
    plan = harness.Plan(repeats=2, seconds=0)
    return harness.measure(
        "raise", cases, device="cpu", against=None, plan=plan, command="quod", earlier_rows=earlier
    )


def test_rows_with_unchanged_code_are_not_remeasured() -> None:
    device, runs = CpuDevice(threads=1), list[int]()
    [row] = measure([launching(device, 1, runs)])
    assert len(runs) == 3
    earlier = {harness.identity("raise", {"n": 1}, "cpu", None): row}
    runs.clear()
    assert measure([launching(device, 1, runs)], earlier) == [row]
    assert len(runs) == 1  # which tells the code
    [other] = measure([launching(device, 2, runs)], earlier)
    assert other.code != row.code
    assert runs == [1, 2, 2, 2]


def test_cases_without_kernel_launches_are_always_measured() -> None:
    runs: list[int] = []
    case = harness.Case({"n": 1}, lambda: runs.append(1))
    [row] = measure([case])
    assert (row.code, row.sources) == ("", sources_digest())
    measure([case], {harness.identity("raise", {"n": 1}, "cpu", None): row})
    assert len(runs) == 6


def test_only_stale_rows_are_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "r.json"
    assert entry.run([*NTT, "--record", str(path)]) == 0
    rows: list[dict[str, Any]] = json.loads(path.read_text())["rows"]
    assert all(row["code"] for row in rows)
    # Figures that no run gives, of which the first is of another code.
    for row in rows:
        row.update(median=123456.0, sources="other")
    rows[0]["code"] = "0" * 16
    path.write_text(json.dumps(json.loads(path.read_text()) | {"rows": rows}))
    assert [results.state_of(row) for row in rows] == ["unknown"] * len(rows)
    monkeypatch.setattr("sys.argv", ["quod", *NTT, "--record", str(path), "--only-stale"])
    assert entry.run([*NTT, "--record", str(path), "--only-stale"]) == 0
    after: list[dict[str, Any]] = json.loads(path.read_text())["rows"]
    assert [row["median"] == 123456.0 for row in after] == [False] + [True] * (len(rows) - 1)
    assert [results.state_of(row) for row in after] == ["current"] * len(rows)
    assert "--only-stale" not in after[0]["command"]


def test_states() -> None:
    assert results.state_of({}) == "stale"
    assert results.state_of({"code": "", "sources": "other"}) == "stale"
    assert results.state_of({"code": "ab", "sources": "other"}) == "unknown"
    assert results.state_of({"code": "", "sources": sources_digest()}) == "current"


def test_only_stale_requires_recorded_rows(capsys: pytest.CaptureFixture[str]) -> None:
    assert entry.run([*NTT, "--only-stale"]) == 2
    assert "--record" in capsys.readouterr().err


@pytest.fixture
def unmeasured(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fails if anything is measured."""

    def measure(*_: object, **__: object) -> None:
        raise AssertionError("something was measured")

    monkeypatch.setattr(harness, "measure", measure)


@pytest.mark.usefixtures("unmeasured")
@pytest.mark.parametrize(
    ("content", "code", "message"),
    [
        ("{}", 3, "not a results file"),
        ('{"machine": {}, "rows": [{}]}', 3, "row 0 is not a measurement"),
        ('{"machine": {"processor": "another"}, "rows": []}', 3, "has the results of"),
        (None, 5, "is not a regular file"),
    ],
)
def test_unwritable_record_file_is_rejected_before_measuring(
    content: str | None, code: int, message: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = Path("/dev/null")
    if content is not None:
        path = tmp_path / "r.json"
        path.write_text(content)
    assert entry.run([*NTT, "--record", str(path)]) == code
    assert message in capfd.readouterr().err
    assert content is None or path.read_text() == content


@pytest.mark.usefixtures("unmeasured")
def test_missing_record_folder_is_rejected_before_measuring(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert entry.run([*NTT, "--record", str(tmp_path / "no" / "r.json")]) == 5
    assert "no directory" in capfd.readouterr().err


@pytest.mark.thorough
def test_results_are_recorded_when_stdout_is_unusable(tmp_path: Path) -> None:
    """Standard output is closed, or on a disk that is full."""
    for number, where in enumerate((">&-", "> /dev/full")):
        path = tmp_path / f"{number}.json"
        command = shlex.join([sys.executable, "-m", "quod", *NTT, "--record", str(path)])
        subprocess.run(f"{command} {where}", shell=True, check=False, stderr=subprocess.DEVNULL)
        assert len(results.load_results(path)["rows"]) >= 2

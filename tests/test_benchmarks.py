"""`benchmarks/run.py`: what it runs, and that a failure keeps nothing else from being measured."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from quod.cli.bench.groth16 import find_snarkjs

FOLDER = Path(__file__).resolve().parent.parent / "benchmarks"


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The script as a module."""
    monkeypatch.syspath_prepend(FOLDER)
    spec = importlib.util.spec_from_file_location("benchmarks_run", FOLDER / "run.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_webgpu_is_measured_portable_as_well(script: ModuleType) -> None:
    found = script.commands("webgpu", [])
    assert {device for device, _, _ in found} == {"webgpu", "webgpu:portable"}
    assert {subject for _, subject, _ in found} == {"field", "msm", "ntt", "groth16", "process"}
    only = script.commands("webgpu:1:portable", ["msm"])
    assert {(device, subject) for device, subject, _ in only} == {("webgpu:1:portable", "msm")}
    assert len(only) == 3
    assert script.commands("cuda", ["ntt"])[0][0] == "cuda"


def test_subjects_that_are_none(script: ModuleType) -> None:
    with pytest.raises(SystemExit, match="no such subject: sorting"):
        script.commands("webgpu", ["sorting"])


def test_peers_that_are_absent(script: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    given = ["--constraints", "9", "--against", "cuda", "--json"]
    monkeypatch.setattr(script, "why_no_gpu", lambda: None)
    assert script.without_absent_peers(given) == given
    monkeypatch.setattr(script, "why_no_gpu", lambda: "there is none")
    assert script.without_absent_peers(given) == ["--constraints", "9", "--json"]
    known = script.without_absent_peers(["--against", "snarkjs"])
    assert (known is None) == (find_snarkjs() is None)


def test_a_failure_is_told_at_the_end(
    script: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    ran: list[str] = []

    def run(command: list[str], limit: float | None) -> str:
        ran.append(command[1])
        return "took longer than 9 s" if command[1] == "msm" else ""

    def report(command: list[str], *, check: bool) -> Any:
        ran.append(Path(command[1]).name)

    monkeypatch.setattr(script, "run", run)
    monkeypatch.setattr(script.subprocess, "run", report)
    monkeypatch.setattr(script, "results_file", lambda _: tmp_path / "results" / "one.json")
    monkeypatch.setattr(sys, "argv", ["run.py", "--device", "webgpu", "field", "msm", "ntt"])
    with pytest.raises(SystemExit, match=r"(?s)4 of 9 failed:.*bench msm.*longer than 9 s"):
        script.main()
    assert ran == ["field"] * 4 + ["msm"] * 4 + ["ntt", "report.py"]


def test_what_a_command_came_to(script: ModuleType) -> None:
    assert script.run(["devices", "--json"], 100) == ""
    assert script.run(["bench", "field", "--repeats", "0"], 100) == "exit code 2"
    assert script.run(["devices"], 1e-3) == "took longer than 0.001 s"

"""`benchmarks/run.py`: what it runs, and that a failure keeps nothing else from being measured."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from quod.bench.measure.code import sources_digest
from quod.bench.peers.provers import find_snarkjs
from quod.cli import entry
from tests.support.selection import runs_all

FOLDER = Path(__file__).resolve().parents[2] / "benchmarks"


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
    subjects = "field msm ntt sumcheck commitment lookup gkr groth16 process gemm"
    assert {subject for _, subject, _ in found} == set(subjects.split())
    only = script.commands("webgpu:1:portable", ["msm"])
    assert {(device, subject) for device, subject, _ in only} == {("webgpu:1:portable", "msm")}
    assert len(only) == 3
    assert script.commands("cuda", ["ntt"])[0][0] == "cuda"


def test_subjects_that_are_none(script: ModuleType) -> None:
    with pytest.raises(SystemExit, match="no such subject: sorting"):
        script.commands("webgpu", ["sorting"])


def test_peers_that_are_absent(script: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    given = ["--constraints", "9", "--against", "cuda", "--json"]
    row = SimpleNamespace(why_not=lambda: None)
    monkeypatch.setattr(script, "backend", lambda _name: row)
    assert script.without_absent_peers(given) == given
    row.why_not = lambda: "there is none"
    assert script.without_absent_peers(given) == ["--constraints", "9", "--json"]
    known = script.without_absent_peers(["--against", "snarkjs"])
    assert (known is None) == (find_snarkjs() is None)


def test_a_failure_is_told_at_the_end(
    script: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    ran: list[str] = []

    def run(command: list[str], limit: float | None) -> str:
        ran.append(command[1])
        assert limit == 180
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


def row(command: str, **told: str) -> dict[str, Any]:
    """A stored row of a command, with what it tells of its code."""
    return {
        "subject": "ntt", "parameters": {"log2": len(command)}, "device": "cpu", "median": 1.0,
        "unit": "ms", "spread": 0.0, "repeats": 1, "peer": None, "peer_median": None,
        "ratio": None, "commit": "abc", "command": command, **told,
    }  # fmt: skip


def test_what_is_known_of_a_command(script: ModuleType) -> None:
    now = {"code": "ab", "sources": sources_digest()}
    rows = [
        row("quod bench ntt", **now),
        row("quod bench msm", code="ab", sources="other"),
        row("quod bench msm", **now),
        row("quod bench field"),
        row("quod bench field", **now),
    ]
    found = [
        script.state_of_command(["bench", name], rows) for name in ("ntt", "msm", "field", "x")
    ]
    assert found == ["current", "unknown", "stale", "stale"]


def test_stale_rows_are_listed(
    script: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    (tmp_path / "results").mkdir()
    rows = [row("a", code="1", sources=sources_digest()), row("bb", code="1", sources="2")]
    rows += [row("ccc"), row("dddd") | {"device": "webgpu:1:portable"}]
    (tmp_path / "results" / "a.json").write_text(json.dumps({"machine": {}, "rows": rows}))
    monkeypatch.setattr(script, "HERE", tmp_path)
    script.show_states("cpu")
    shown = capsys.readouterr().out
    assert "1 current, 1 unknown, 1 stale" in shown
    assert "unknown  cpu              ntt log2=2\nstale    cpu              ntt log2=3\n" in shown
    script.show_states("webgpu")
    assert "0 current, 0 unknown, 1 stale" in capsys.readouterr().out


def test_only_what_is_stale_is_run_and_within_its_time(
    script: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    record = tmp_path / "results" / "one.json"
    record.parent.mkdir()
    (_, subject, arguments), *others = script.commands("cpu", ["ntt"])
    known = ["bench", subject, *arguments]
    stored = row(script.command_line(known), code="1", sources=sources_digest())
    record.write_text(json.dumps({"machine": {}, "rows": [stored]}))
    ran: list[list[str]] = []
    monkeypatch.setattr(script, "run", lambda command, limit: ran.append(command) or "")
    monkeypatch.setattr(script.subprocess, "run", lambda *_, **__: None)
    monkeypatch.setattr(script, "results_file", lambda _: record)
    monkeypatch.setattr(sys, "argv", ["run.py", "--only-stale", "ntt"])
    script.main()
    assert len(ran) == len(others)
    command = ran[0]
    assert command[:2] == ["bench", "ntt"]
    assert command[-1] == "--only-stale"
    said = capsys.readouterr().err
    assert f"{script.command_line(known)}: current" in said
    assert f"{script.command_line(command[:-3])}: 0.0 s" in said
    monkeypatch.setattr(sys, "argv", ["run.py", "--only-stale", "--within", "0", "ntt"])
    script.main()
    assert len(ran) == len(others)
    assert f"{len(others)} left for another run:" in capsys.readouterr().err


def test_another_quod_that_is_installed_is_not_measured(script: ModuleType, tmp_path: Path) -> None:
    """Neither by the script nor by what it runs, which would not know options that are new."""
    (tmp_path / "quod").mkdir()
    (tmp_path / "quod" / "__init__.py").write_text("raise SystemExit('the wrong Quod')")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    listed = subprocess.run(
        [sys.executable, FOLDER / "run.py", "--stale", "--device", "none"],
        env=environment, cwd=tmp_path, capture_output=True, text=True,
    )  # fmt: skip
    assert (listed.returncode, listed.stderr) == (0, "")
    code = "import run; print(run.run(['bench', 'field', '--repeats', '0'], 60))"
    ran = subprocess.run(
        [sys.executable, "-c", code], cwd=FOLDER, capture_output=True, text=True,
        env=environment | {"PYTHONPATH": os.pathsep.join([str(FOLDER), str(tmp_path)])},
    )  # fmt: skip
    assert ran.stdout == "exit code 2\n"


@pytest.mark.parametrize("device", ["cpu", "cuda", "webgpu"])
def test_every_command_is_understood(
    device: str, script: ModuleType, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    """By the command line, whichever release of Typer builds it; nothing is measured.

    Outside of `make test-all` one command runs of those that differ in values only.
    """
    from quod.bench.arithmetic import field_study_report
    from quod.bench.measure.settings import Settings

    ran: list[str] = []
    monkeypatch.setattr(script, "more_circuits", lambda _: [])
    monkeypatch.setattr(Settings, "measure", lambda _, subject, *__, **___: ran.append(subject))
    monkeypatch.setattr(field_study_report, "run_study", lambda *_: ran.append("study"))
    wanted = script.commands(device, [])
    if not runs_all():
        by_options = {
            (row[1], *(word for word in row[2] if word.startswith("--"))): row for row in wanted
        }
        wanted = list(by_options.values())
    for on, subject, arguments in wanted:
        assert entry.run(["bench", subject, *arguments, "--device", on]) == 0, capsys.readouterr()
    assert ran == [subject for _, subject, _ in wanted]

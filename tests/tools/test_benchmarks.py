"""`benchmarks/run.py` measures despite failures; `benchmarks/report.py` writes the pages."""

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
from tests.support.thorough import one_and_others

FOLDER = Path(__file__).resolve().parents[2] / "benchmarks"


def module_of(name: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Import a script of benchmarks as a module."""
    monkeypatch.syspath_prepend(FOLDER)
    spec = importlib.util.spec_from_file_location(f"benchmarks_{name}", FOLDER / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The runner as a module."""
    return module_of("run", monkeypatch)


@pytest.fixture
def report(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The generator of the pages as a module."""
    return module_of("report", monkeypatch)


def test_webgpu_is_measured_portable_as_well(script: ModuleType) -> None:
    commands = script.commands("webgpu", [])
    assert {device for device, _, _ in commands} == {"webgpu", "webgpu:portable"}
    subjects = "field msm ntt sumcheck commitment lookup gkr groth16 process gemm"
    assert {subject for _, subject, _ in commands} == set(subjects.split())
    only = script.commands("webgpu:1:portable", ["msm"])
    assert {(device, subject) for device, subject, _ in only} == {("webgpu:1:portable", "msm")}
    assert len(only) == 3
    assert script.commands("cuda", ["ntt"])[0][0] == "cuda"


def test_unknown_subjects_are_rejected(script: ModuleType) -> None:
    with pytest.raises(SystemExit, match="no such subject: sorting"):
        script.commands("webgpu", ["sorting"])


def test_missing_peers_are_skipped(script: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    command_line = ["--constraints", "9", "--against", "cuda", "--json"]
    row = SimpleNamespace(why_not=lambda: None)
    monkeypatch.setattr(script, "backend", lambda _name: row)
    assert script.without_absent_peers(command_line) == command_line
    row.why_not = lambda: "there is none"
    assert script.without_absent_peers(command_line) == ["--constraints", "9", "--json"]
    command_of_peer = script.without_absent_peers(["--against", "snarkjs"])
    assert (command_of_peer is None) == (find_snarkjs() is None)


def test_failures_are_reported_at_the_end(
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


def test_command_outcomes(script: ModuleType) -> None:
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


def test_staleness_of_a_command(script: ModuleType) -> None:
    now = {"code": "ab", "sources": sources_digest()}
    rows = [
        row("quod bench ntt", **now),
        row("quod bench msm", code="ab", sources="other"),
        row("quod bench msm", **now),
        row("quod bench field"),
        row("quod bench field", **now),
    ]
    states = [
        script.state_of_command(["bench", name], rows) for name in ("ntt", "msm", "field", "x")
    ]
    assert states == ["current", "unknown", "stale", "stale"]


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


def test_only_stale_commands_run_within_the_time_limit(
    script: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    record = tmp_path / "results" / "one.json"
    record.parent.mkdir()
    (_, subject, arguments), *others = script.commands("cpu", ["ntt"])
    bench_command = ["bench", subject, *arguments]
    stored = row(script.command_line(bench_command), code="1", sources=sources_digest())
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
    assert f"{script.command_line(bench_command)}: current" in said
    assert f"{script.command_line(command[:-3])}: 0.0 s" in said
    monkeypatch.setattr(sys, "argv", ["run.py", "--only-stale", "--within", "0", "ntt"])
    script.main()
    assert len(ran) == len(others)
    assert f"{len(others)} left for another run:" in capsys.readouterr().err


def test_another_quod_that_is_installed_is_not_measured(script: ModuleType, tmp_path: Path) -> None:
    """Neither the script nor its commands use it, because it may lack new options."""
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


@pytest.mark.parametrize("device", one_and_others(["cpu", "cuda", "webgpu"]))
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


@pytest.fixture
def recorded(report: ModuleType) -> dict[str, Any]:
    """The recorded results, by the names of their files."""
    return {path.stem: report.load_results(path) for path in (FOLDER / "results").glob("*.json")}


def test_each_line_of_the_selection_selects_one_row(
    report: ModuleType, recorded: dict[str, Any]
) -> None:
    lines = [line for section in report.SELECTION.values() for line in section]
    rows = [report.selected_row(line, recorded) for line in lines]
    assert len({json.dumps(row) for row in rows}) == len(rows)
    page = report.pages(recorded)[report.PAGE]
    assert page.count("\n| ") == len(rows) + 2 * len(report.SELECTION) + len(recorded) + 1
    for name in {line.place.machine for line in lines}:
        assert f"(benchmarks/{name}.md)" in page


def test_the_tables_have_all_rows(report: ModuleType, recorded: dict[str, Any]) -> None:
    pages = report.pages(recorded)
    for name, result in recorded.items():
        text = pages[report.TABLES / f"{name}.md"]
        for row in result["rows"]:
            assert f"| {' | '.join(report.cells(row))} |\n" in text
            assert f"    {row['command']}\n" in text


@pytest.mark.parametrize("number", [0, 2])
def test_ambiguous_or_empty_selection_is_rejected(report: ModuleType, number: int) -> None:
    place = SimpleNamespace(machine="one", device="cpu")
    line = SimpleNamespace(
        computation="NTT", place=place, subject="ntt", peer="", parameters={"log2": 1}
    )
    with pytest.raises(SystemExit, match=f"'NTT' of ntt on one, cpu, selects {number} rows"):
        report.selected_row(line, {"one": {"rows": [row("a")] * number}})


def test_a_selected_row(report: ModuleType) -> None:
    place = SimpleNamespace(machine="one", device="cpu")
    line = SimpleNamespace(
        computation="NTT of 2^{log2}", place=place, subject="ntt", peer="lib", parameters={}
    )
    told = {"peer": "library", "peer_median": 3.0, "ratio": 3.0, "commit": "0123456789abcdef+"}
    results = {
        "one": {"machine": {"processor": "A", "threads": 2}, "rows": [row("a"), row("a") | told]}
    }
    assert report.selected_cells(line, results) == [
        "NTT of 2^1", "A, 2 threads", "cpu", "1.00 ms", "library", "3.00 ms", "3.00x",
        "0123456789ab+",
    ]  # fmt: skip


def test_outdated_pages_are_reported(report: ModuleType, tmp_path: Path) -> None:
    tables = tmp_path / report.TABLES
    tables.mkdir()
    for name, text in (("same", "a"), ("changed", "b"), ("left", "c")):
        (tables / f"{name}.md").write_text(text)
    names = ("changed", "left", "missing")
    texts = {report.TABLES / f"{name}.md": "a" for name in ("same", "changed", "missing")}
    assert report.stale_pages(texts, tmp_path) == [report.TABLES / f"{name}.md" for name in names]

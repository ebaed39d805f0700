"""The benchmark harness: medians, turns, ratios, and the results file."""

from __future__ import annotations

import itertools
import json
import subprocess
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

import pytest

from quod import __version__
from quod.bench.measure import harness, results
from quod.bench.measure.report import report, shown_number
from quod.cli import entry
from quod.errors import InputError

if TYPE_CHECKING:
    from quod.device.webgpu.device import WebGpuDevice

PLAN = harness.Plan(repeats=3, seconds=0.0)


def measure(
    cases: list[harness.Case], against: str | None = None, plan: harness.Plan = PLAN
) -> list[harness.Measurement]:
    return harness.measure(
        "sleep", cases, device="cpu", against=against, plan=plan, command="quod bench sleep"
    )


@pytest.fixture
def nap(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Lets so many seconds go by on the harness's clock."""
    now = [0.0]
    monkeypatch.setattr(harness, "perf_counter", lambda: now[0])

    def pass_by(seconds: float) -> None:
        now[0] += seconds

    return pass_by


def test_the_median_is_in_the_unit_and_for_one_operation(nap: Callable[[float], None]) -> None:
    case = harness.Case({"n": 4}, lambda: nap(0.004), unit="us/nap", operations=4)
    [row] = measure([case])
    assert row.median == pytest.approx(1000)
    assert (row.repeats, row.unit, row.parameters) == (3, "us/nap", {"n": 4})
    assert (row.peer, row.peer_median, row.ratio) == (None, None, None)


def test_peer_runs_alternate_with_quod_runs(nap: Callable[[float], None]) -> None:
    order: list[str] = []

    def run(name: str, seconds: float) -> None:
        order.append(name)
        nap(seconds)

    case = harness.Case(
        {}, lambda: run("ours", 0.002), peers={"other": lambda: run("theirs", 0.02)}
    )
    [row] = measure([case], against="other")
    assert order == ["ours", "theirs"] * 4  # one turn warms up
    assert row.peer == "other"
    assert row.ratio is not None
    assert row.peer_median is not None
    assert row.ratio == pytest.approx(row.peer_median / row.median)
    assert row.ratio == pytest.approx(10)


def test_short_work_is_repeated_until_the_time_is_used(nap: Callable[[float], None]) -> None:
    runs: list[int] = []
    case = harness.Case({}, lambda: runs.append(nap(1 / 1024) or 0))
    [row] = measure([case], plan=harness.Plan(repeats=2, seconds=20 / 1024))
    assert row.repeats == 20
    assert len(runs) == row.repeats + 1
    [row] = measure([case], plan=harness.Plan(repeats=2, seconds=60, max_repeats=4))
    assert row.repeats == 4


def test_warm_up_starts_after_all_cases_are_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = itertools.count()
    monkeypatch.setattr(harness, "perf_counter", lambda: next(clock) / 1000)
    order: list[str] = []
    case = harness.Case({}, lambda: order.append("a"), peers={"b": lambda: order.append("b")})
    plan = harness.Plan(repeats=3, seconds=0, warm_up=0.004)
    [row] = measure([case], "b", plan)
    assert row.repeats == 3
    assert order == ["a", "b", *"aaa", *"ababab"]


def test_cases_that_return_a_figure_are_warmed_up(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = itertools.count()
    monkeypatch.setattr(harness, "perf_counter", lambda: next(clock) / 1000)
    figures = iter([0.5, 1.0, 2.0, 3.0, 50.0, 51.0, 52.0])
    case = harness.Case({}, lambda: next(figures), unit="G/s", returns_figure=True)
    [row] = measure([case], plan=harness.Plan(repeats=3, warm_up=0.004))
    assert row.median == 51


@pytest.mark.parametrize(
    ("first", "peers_first", "repeats", "order"),
    [
        (20.0, None, 1, "a"),
        (20.0, None, 2, "aa"),
        (19.0, None, 1, "a" + 4 * "a" + "a"),
        (25.0, 1.0, 1, "ab" + "b"),
        (1.0, 25.0, 1, "ab" + 4 * "a" + "a"),
        (25.0, 25.0, 1, "ab"),
        (25.0, 25.0, 3, "abababab"[:6]),
    ],
)
def test_a_long_first_run_counts(
    nap: Callable[[float], None], first: float, peers_first: float | None, repeats: int, order: str
) -> None:
    """A long first run needs no warm-up; each side is judged by its own time."""
    ran: list[str] = []
    remaining = {"a": [first], "b": [peers_first or 0.0]}

    def run(side: str) -> None:
        ran.append(side)
        nap(remaining[side].pop() if remaining[side] else 1.0)

    peers = {} if peers_first is None else {"other": lambda: run("b")}
    case = harness.Case({}, lambda: run("a"), peers=peers)
    plan = harness.Plan(repeats=repeats, seconds=0.0, warm_up=4.0)
    [row] = measure([case], "other" if peers else None, plan)
    assert "".join(ran) == order
    assert row.repeats == repeats
    ours = [first] if first >= plan.long else []
    assert row.median == pytest.approx(median([*ours, *(repeats - len(ours)) * [1.0]]))


def test_peer_reported_time_may_be_long(nap: Callable[[float], None]) -> None:
    said = iter([30.0, 1.0])
    case = harness.Case({}, lambda: nap(1.0), peers={"b": lambda: harness.Seconds(next(said))})
    [row] = measure([case], "b", harness.Plan(repeats=1, seconds=0.0))
    assert (row.peer_median, next(said)) == (30.0, 1.0)


def test_figures_of_long_and_short_runs_are_treated_alike(
    nap: Callable[[float], None],
) -> None:
    figures = iter([0.5, 1.0, 50.0, 51.0, 52.0])

    def read() -> float:
        nap(25.0)
        return next(figures)

    case = harness.Case({}, read, unit="G/s", returns_figure=True)
    [row] = measure([case], plan=harness.Plan(repeats=3, warm_up=4.0))
    assert (row.median, row.repeats) == (51, 3)


def test_gpus_are_warmed_up() -> None:
    assert harness.warm_up_of("cpu:ifma") == 0
    assert harness.warm_up_of("cuda") > 0
    assert harness.warm_up_of("webgpu:portable") > 0


def test_an_unknown_peer_is_refused_and_cases_without_it_are_left_out() -> None:
    with_peer = harness.Case({"n": 1}, lambda: None, peers={"arkworks": lambda: None})
    without = harness.Case({"n": 2}, lambda: None)
    rows = measure([with_peer, without], against="arkworks")
    assert [row.parameters for row in rows] == [{"n": 1}]
    with pytest.raises(InputError, match="'blst' is not a peer of this benchmark; it has: arkw"):
        measure([with_peer, without], against="blst")


def row(n: int, median: float = 1.0, peer: str | None = None) -> harness.Measurement:
    return harness.Measurement(
        subject="msm",
        parameters={"log2": n},
        device="cpu",
        median=median,
        unit="ms",
        spread=0.05,
        repeats=5,
        peer=peer,
        peer_median=None if peer is None else 4 * median,
        ratio=None if peer is None else 4.0,
        commit="abc",
        command="quod bench msm",
    )


def test_record_replaces_rows_of_one_name_and_keeps_the_others(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    results.record(path, [row(14, 1.0), row(16, 2.0)])
    results.record(path, [row(16, 3.0), row(16, 3.0, "arkworks")])
    stored = results.load_results(path)
    figures = [
        (entry["parameters"]["log2"], entry["median"], entry["peer"]) for entry in stored["rows"]
    ]
    assert sorted(figures, key=str) == [(14, 1.0, None), (16, 3.0, "arkworks"), (16, 3.0, None)]
    assert stored["machine"]["processor"]
    assert str(tmp_path) not in path.read_text()


def test_record_refuses_the_results_of_another_machine(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    results.record(path, [row(14)])
    stored = json.loads(path.read_text())
    stored["machine"]["processor"] = "another"
    path.write_text(json.dumps(stored))
    before = path.read_text()
    with pytest.raises(InputError, match="has the results of another"):
        results.record(path, [row(16)])
    assert path.read_text() == before


def test_record_keeps_names_from_other_gpu_backends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "results.json"
    both = {"processor": "one", "gpu": "H200"}
    for device in ("cuda", "webgpu", "webgpu:portable"):
        monkeypatch.setattr(results, "machine", lambda _, device=device: {**both, device: "x"})
        results.record(path, [replace(row(14), device=device)])
    stored = results.load_results(path)
    assert stored["machine"] == {**both, "cuda": "x", "webgpu": "x", "webgpu:portable": "x"}
    assert len(stored["rows"]) == 3


def test_the_machine_of_an_adapter(webgpu_device: WebGpuDevice) -> None:
    description = results.machine("webgpu:portable")
    assert description["gpu"] == webgpu_device.properties.name
    told = str(description["webgpu:portable"])
    assert "through" in told
    assert "portable" in told
    assert f"limbs {webgpu_device.limbs}" in told


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"machine": {}, "rows": 3}', '{"rows": []}'])
def test_invalid_results_files_are_rejected(tmp_path: Path, text: str) -> None:
    path = tmp_path / "results.json"
    path.write_text(text)
    with pytest.raises(InputError, match="not a results file"):
        results.load_results(path)


def test_report(capsys: pytest.CaptureFixture[str]) -> None:
    report([row(16, 12.345, "arkworks")], as_json=True)
    [shown] = json.loads(capsys.readouterr().out)
    assert set(shown) == {
        "subject",
        "parameters",
        "device",
        "median",
        "unit",
        "spread",
        "repeats",
        "peer",
        "peer_median",
        "ratio",
        "commit",
        "command",
        "code",
        "sources",
    }
    report([row(16, 12.345, "arkworks")], as_json=False)
    out = capsys.readouterr().out
    for text in ("log2=16", "12.3", "4.00x", "49.4", "arkworks"):
        assert text in out


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0.0000"), (1.234, "1.23"), (12.34, "12.3"), (1234.5, "1234"), (1e-5, "1e-05")],
)
def test_numbers_are_short(value: float, text: str) -> None:
    assert shown_number(value) == text


def test_the_commit_is_this_checkouts_or_the_version(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("QUOD_COMMIT", raising=False)
    repository = Path(__file__).resolve().parents[3]
    if (repository / ".git").exists():
        command = ["git", "-C", str(repository), "rev-parse", "HEAD"]
        head = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        assert head.startswith(harness.current_commit().rstrip("+"))
    monkeypatch.setenv("PATH", "")
    assert harness.current_commit() == f"v{__version__}"
    monkeypatch.setenv("QUOD_COMMIT", "0123456789ab")
    assert harness.current_commit() == "0123456789ab"


def test_the_recorded_command_names_no_folder_of_this_machine() -> None:
    arguments = ["bench", "groth16", "/home/me/c.zkey", "examples/w.wtns", "--record", "/r.json"]
    assert harness.command_line(arguments) == "quod bench groth16 c.zkey examples/w.wtns"
    assert harness.command_line(["bench", "msm", "--record=r", "-q"]) == "quod bench msm -q"


@pytest.mark.parametrize("subject", ["msm", "ntt"])
@pytest.mark.parametrize("size", ["-1", "29", "x"])
def test_impossible_sizes_are_rejected(
    subject: str, size: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert entry.run(["bench", subject, "--log2", size]) == 2
    assert "--log2" in capsys.readouterr().err


def test_concurrent_recorders_lose_no_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import quod.formats

    write = quod.formats.write_atomically

    def slowly(path: Path, content: bytes) -> None:
        time.sleep(0.01)  # in which others would read what is about to be replaced
        write(path, content)

    monkeypatch.setattr(quod.formats, "write_atomically", slowly)
    path = tmp_path / "results.json"
    threads = [
        threading.Thread(target=results.record, args=(path, [row(size)])) for size in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    sizes = [entry["parameters"]["log2"] for entry in results.load_results(path)["rows"]]
    assert sorted(sizes) == list(range(8))


@pytest.mark.parametrize("seconds", ["nan", "inf", "-inf", "-1"])
@pytest.mark.parametrize("subject", ["field", "msm", "ntt", "groth16", "process"])
def test_invalid_seconds_are_rejected(
    subject: str, seconds: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert entry.run(["bench", subject, "--seconds", seconds]) == 2
    assert "the number of seconds must be 0 or more" in capsys.readouterr().err


def test_cpus_with_the_same_name_are_distinguished() -> None:
    """A virtual machine may report only the maker's name."""
    facts = {"cpu family": "25", "model": "17", "model name": "AMD EPYC"}
    assert results.distinct_cpu_name("AMD EPYC", facts) == "AMD EPYC (family 25, model 17)"
    assert results.distinct_cpu_name("AMD EPYC", {}) == "AMD EPYC"
    assert results.distinct_cpu_name("AMD EPYC 9654", facts) == "AMD EPYC 9654"

"""`quod bench --gate`: comparison with a baseline, and the figures that fail."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from quod.bench.measure import harness, results
from quod.bench.measure.gate import Gate
from quod.bench.measure.harness import Measurement
from quod.bench.measure.results import machine
from quod.cli import entry
from quod.errors import InputError, MismatchError, RegressionError

NTT = ["bench", "ntt", "--curve", "bn254", "--log2", "4", "--quiet"]

ROW = Measurement(
    subject="msm", parameters={"log2": 14}, device="cpu", median=2.0, unit="ms", spread=0.1,
    repeats=5, peer=None, peer_median=None, ratio=None, commit="abc", command="quod bench msm",
)  # fmt: skip


def written(path: Path, rows: Sequence[Measurement]) -> Path:
    path.write_text(json.dumps([asdict(row) for row in rows]))
    return path


def gate(tmp_path: Path, *rows: Measurement, tolerance: float = 5.0) -> Gate:
    return Gate.read(written(tmp_path / "baseline.json", rows), "cpu", tolerance)


@pytest.mark.parametrize(
    ("unit", "before", "passes", "fails"),
    [
        ("ms", 2.0, (2.09, 2.0, 0.01), (2.11, 9.0, float("nan"))),
        ("clocks/product", 2.0, (2.09,), (2.11,)),
        ("MB", 100, (105.0,), (106.0,)),
        ("refusals/s", 0.0, (0.0,), (0.1,)),
        ("GB/s", 2.0, (1.91, 2.0, 50.0), (1.89, 0.0)),
        ("%", 90.0, (86.0, 100.0), (80.0,)),
        # A latency less its stages.
        ("us", -2.0, (-1.91, -3.0), (-1.8, 0.0)),
    ],
)
def test_regressions_beyond_tolerance_fail(
    tmp_path: Path, unit: str, before: float, passes: tuple[float], fails: tuple[float]
) -> None:
    regression_gate = gate(tmp_path, replace(ROW, unit=unit, median=before))
    for figure in passes:
        regression_gate.check([replace(ROW, unit=unit, median=figure)])
    for figure in fails:
        with pytest.raises(RegressionError, match=r"of 1 figures .*: 1 worse"):
            regression_gate.check([replace(ROW, unit=unit, median=figure)])


def test_zero_or_nan_rate_fails(tmp_path: Path) -> None:
    """A tolerance of 400 % accepts a fifth of the baseline rate, and nothing lower."""
    regression_gate = gate(tmp_path, replace(ROW, unit="GB/s", median=5.0), tolerance=400)
    regression_gate.check([replace(ROW, unit="GB/s", median=1.01)])
    for figure in (0.99, 0.0, -100.0, float("nan")):
        with pytest.raises(RegressionError, match="1 worse"):
            regression_gate.check([replace(ROW, unit="GB/s", median=figure)])


def test_the_tolerance(tmp_path: Path) -> None:
    gate(tmp_path, ROW, tolerance=50).check([replace(ROW, median=3.0)])
    with pytest.raises(RegressionError, match="tolerance: 0 %"):
        gate(tmp_path, ROW, tolerance=0).check([replace(ROW, median=2.0001)])


@pytest.mark.parametrize(
    "change",
    [{"subject": "ntt"}, {"parameters": {"log2": 15}}, {"device": "cuda"}, {"peer": "arkworks"}],
)
def test_a_figure_without_a_row_fails(
    tmp_path: Path, change: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(RegressionError, match=r"of 2 figures .*: 1 no baseline"):
        gate(tmp_path, ROW).check([ROW, replace(ROW, **change)])
    shown = capsys.readouterr()
    assert "no baseline" in shown.err
    assert not shown.out


def test_empty_measurement_fails(tmp_path: Path) -> None:
    with pytest.raises(RegressionError, match="nothing measured"):
        gate(tmp_path, ROW).check([])


def test_rows_of_this_command_must_be_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    second = replace(ROW, parameters={"log2": 16})
    regression_gate = gate(tmp_path, ROW, second)
    regression_gate.check([ROW])
    monkeypatch.setattr("sys.argv", ["quod", "bench", "msm", "--gate", "b", "--gate-tolerance=9"])
    regression_gate.check([ROW, second])
    with pytest.raises(RegressionError, match="1 not measured"):
        regression_gate.check([ROW])
    assert "log2=16" in capsys.readouterr().err


def test_units_must_be_known_and_the_same(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="row 0, key unit: is in ms, but the figure is in us"):
        gate(tmp_path, ROW).check([replace(ROW, unit="us")])
    odd = replace(ROW, unit="apples")
    with pytest.raises(InputError, match="cannot compare the unit apples"):
        gate(tmp_path, odd).check([odd])


def test_all_recorded_units_are_known(tmp_path: Path) -> None:
    folder = Path(__file__).resolve().parents[3] / "benchmarks" / "results"
    rows = [row for path in folder.glob("*.json") for row in results.load_results(path)["rows"]]
    assert rows
    for unit in {row["unit"] for row in rows}:
        sample = replace(ROW, unit=unit)
        gate(tmp_path, sample).check([sample])


GOOD = asdict(ROW)


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("", "is empty"),
        ("{", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ("3", "no list of rows"),
        ("[]", "no list of rows"),
        ("{}", "does not describe its machine"),
        (json.dumps({"machine": 3, "rows": [GOOD]}), "does not describe its machine"),
        (json.dumps({"machine": machine(), "rows": []}), "no list of rows"),
        (json.dumps([GOOD, 3]), "row 1: is not an object"),
        (json.dumps([GOOD, GOOD]), "row 1: measures the same case as row 0"),
        *(
            (json.dumps([{key: value for key, value in GOOD.items() if key != column}]),
             f"row 0, key {column}: is missing")
            for column in ("subject", "parameters", "device", "median", "unit", "peer", "command")
        ),
        *(
            (json.dumps([GOOD | {column: wrong}]), f"row 0, key {column}: ")
            for column, wrong in (
                ("subject", 3), ("parameters", []), ("device", None), ("median", "3"),
                ("median", True), ("median", 10**400), ("unit", []),
                ("peer", 3), ("medians", 3), ("command", 1),
            )
        ),
        (json.dumps([GOOD | {"parameters": {"n": []}}]), "row 0, key parameters.n: "),
        (json.dumps([GOOD | {"median": float("nan")}]), "NaN is not a JSON number"),
    ],
)  # fmt: skip
def test_bad_baselines(tmp_path: Path, text: str, place: str) -> None:
    path = tmp_path / "baseline.json"
    path.write_text(text)
    with pytest.raises(InputError) as refused:
        Gate.read(path, "cpu")
    assert str(refused.value).startswith(str(path))
    assert place in str(refused.value)


def test_a_baseline_of_another_machine(tmp_path: Path) -> None:
    path = tmp_path / "baseline.json"
    here = {"machine": machine(), "rows": [GOOD]}
    path.write_text(json.dumps(here))
    assert len(Gate.read(path, "cpu").rows) == 1
    path.write_text(json.dumps(here | {"machine": machine() | {"processor": "another"}}))
    with pytest.raises(MismatchError, match="was measured on another"):
        Gate.read(path, "cpu")


@pytest.fixture
def figure(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Figures that all subjects report, in place of running them."""
    figures = [2.0]

    def measure(subject: str, cases: object, **_: object) -> list[Measurement]:
        return [replace(ROW, median=figures[0], subject=subject)]

    monkeypatch.setattr(harness, "measure", measure)
    return figures


def test_the_command(
    tmp_path: Path, figure: list[float], capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "baseline.json"
    assert entry.run([*NTT, "--record", str(path)]) == 0
    before = path.read_bytes()
    assert entry.run([*NTT, "--gate", str(path)]) == 0
    figure[0] = 2.5
    capsys.readouterr()
    assert entry.run([*NTT, "--gate", str(path), "--json"]) == RegressionError.exit_code == 12
    shown = capsys.readouterr()
    assert json.loads(shown.out)[0]["median"] == 2.5
    assert "+25.0%" in shown.err
    assert entry.run([*NTT, "--gate", str(path), "--gate-tolerance", "25"]) == 0
    assert entry.run([*NTT, "--gate", str(tmp_path / "none.json")]) == InputError.exit_code
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["baseline.json"]


@pytest.mark.parametrize(
    "options",
    [
        ["--gate-tolerance", "3"],
        ["--gate", "b.json", "--gate-tolerance", "-1"],
        ["--gate", "b.json", "--gate-tolerance", "nan"],
        ["--gate", "b.json", "--record", "b.json"],
        ["--gate", "b.json", "--record", "c.json", "--only-stale"],
    ],
)
def test_options_that_do_not_go_together(
    options: list[str], tmp_path: Path, figure: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    written(tmp_path / "b.json", [replace(ROW, subject="ntt")])
    assert entry.run([*NTT, *options]) == 2


def test_a_real_benchmark_passes_its_own_figures(tmp_path: Path) -> None:
    path = tmp_path / "baseline.json"
    words = [*NTT, "--repeats", "1", "--seconds", "0"]
    assert entry.run([*words, "--record", str(path)]) == 0
    # Two readings of microseconds differ by anything.
    assert entry.run([*words, "--gate", str(path), "--gate-tolerance", "1e9"]) == 0

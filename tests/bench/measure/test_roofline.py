"""Rooflines: the figures behind them, the drawing, and the tables and traces beside them."""

from __future__ import annotations

import builtins
import json
import re
from pathlib import Path
from typing import Any

import pytest

from quod.bench.measure.ceilings import cpu_limits
from quod.bench.measure.plot import check_plot, draw
from quod.bench.measure.roofline import Roofline, roofline
from quod.cli import entry
from quod.cli.display.terminal import show_timings
from quod.device.cpu.device import CpuDevice
from quod.device.limits import Limits
from quod.device.runtime.timeline import Timeline
from quod.errors import OutputError, QuodError
from tests.support.thorough import one_and_others

MS = 10**6
LIMITS = Limits(bytes_per_second=1e12, multiply_adds_per_second=8e12, source="by decree")
ONCE = ["--repeats", "1", "--seconds", "0", "--quiet"]


def two_msms() -> Timeline:
    """Two runs of copy, sort, accumulate and reduce; the second takes twice as long."""
    timeline, at = Timeline(), 10**9
    for name, factor in (("small", 1), ("large", 2)):
        msm = timeline.record(name, at, at + 100 * factor * MS, track="main")
        inside = timeline.record("sums", at, at + 90 * factor * MS, track="main", parent=msm)
        for label, length, bytes, multiply_adds in (
            ("sort", 10, 5 * 10**9, 0),
            ("accumulate", 50, 8 * 10**9, 32 * 10**10),
            ("reduce", 20, 2 * 10**9, 2 * 10**9),
            ("wait", 10, 0, 0),
        ):
            timeline.record(
                label, at, at + length * factor * MS, track="msm", bytes=factor * bytes,
                modmuls=factor * multiply_adds // 300, multiply_adds=factor * multiply_adds,
                parent=inside,
            )  # fmt: skip
            at += length * factor * MS
        at += 10 * factor * MS
    return timeline


def test_points_have_their_fraction_of_the_limits() -> None:
    figures = roofline(two_msms(), "GPU", LIMITS)
    assert figures.series == ("small", "large")
    assert [(item.series, item.name) for item in figures.points] == [
        ("small", "accumulate"), ("small", "reduce"), ("large", "accumulate"), ("large", "reduce"),
    ]  # fmt: skip
    assert [item.name for item in figures.stages[:3]] == ["sort", "accumulate", "reduce"]
    sort, accumulate, reduce = figures.stages[:3]
    assert accumulate.intensity == 40
    assert accumulate.rate == pytest.approx(6.4e12)
    assert accumulate.share == pytest.approx(50 / 80)
    # Of the multiplier, and of the memory.
    assert accumulate.least_seconds == pytest.approx(0.04)
    assert reduce.least_seconds == pytest.approx(0.002)
    assert sort.least_seconds == pytest.approx(0.005)
    assert figures.stages[4].seconds == pytest.approx(0.1)


def test_without_limits_there_are_no_fractions() -> None:
    figures = roofline(two_msms(), "something", None)
    assert [stage.least_seconds for stage in figures.stages] == [None] * 6
    assert len(figures.points) == 4


def test_counted_stages_hide_children_and_have_unique_names() -> None:
    timeline = Timeline()
    proof = timeline.record("proof", 0, 100, track="main")
    for number, name in enumerate(("MSM A", "MSM B")):
        msm = timeline.record(name, 50 * number, 50 * number + 40, track="t", parent=proof)
        timeline.record("accumulate", 50 * number, 50 * number + 20, track="t", bytes=1, parent=msm)
    counted = timeline.record("quotient", 90, 100, track="t", multiply_adds=5, parent=proof)
    timeline.record("inner", 90, 95, track="t", multiply_adds=3, parent=counted)
    figures = roofline(timeline, "GPU", None)
    assert [stage.name for stage in figures.stages] == [
        "MSM A: accumulate", "MSM B: accumulate", "quotient",
    ]  # fmt: skip
    assert figures.points == ()


@pytest.mark.thorough
@pytest.mark.parametrize("suffix", one_and_others([".svg", ".png", ".pdf"]))
@pytest.mark.parametrize("limits", [LIMITS, None])
def test_a_figure_is_written(tmp_path: Path, suffix: str, limits: Limits | None) -> None:
    path = tmp_path / f"roofline{suffix}"
    draw(roofline(two_msms(), "GPU", limits), path, "quod bench msm")
    begin = path.read_bytes()[:6]
    assert begin.startswith({".png": b"\x89PNG", ".svg": b"<?xml", ".pdf": b"%PDF"}[suffix])
    assert path.stat().st_size > 10_000


@pytest.mark.thorough
def test_the_figure_names_stages_and_limits(tmp_path: Path) -> None:
    path = tmp_path / "roofline.svg"
    draw(roofline(two_msms(), "GPU", LIMITS), path, "quod bench msm")
    text = path.read_text()
    # Matplotlib keeps the text of its outlines as comments.
    for name in (
        "accumulate",
        "reduce",
        "sort",
        "multiplier, 8 T/s",
        "memory, 1 TB/s",
        "by decree",
    ):
        assert f"<!-- {name}" in text or name in text, name
    assert "80%" in text


def test_empty_plot_is_reported(tmp_path: Path) -> None:
    timeline = Timeline()
    timeline.record("copy", 0, 10, track="t", bytes=5)
    with pytest.raises(QuodError, match="no stage on GPU has both products and bytes"):
        draw(roofline(timeline, "GPU", LIMITS), tmp_path / "x.png", "quod bench msm")
    assert list(tmp_path.iterdir()) == []
    assert roofline(Timeline(), "GPU", LIMITS) == Roofline("GPU", LIMITS, ())


def test_without_matplotlib_the_error_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    real = builtins.__import__

    def without(name: str, *arguments: Any, **named: Any) -> Any:
        if name.partition(".")[0] == "matplotlib":
            raise ModuleNotFoundError(name)
        return real(name, *arguments, **named)

    monkeypatch.setattr(builtins, "__import__", without)
    path = tmp_path / "x.png"
    assert entry.run(["bench", "field", "--field", "bn254.fr", "--plot", str(path), *ONCE]) == 1
    captured = capsys.readouterr()
    assert "pip install '.[plot]'" in captured.err
    assert captured.out == ""  # before anything was measured
    assert not path.exists()


@pytest.mark.parametrize("name", ["x.jpg", "x", "png"])
def test_unsupported_plot_formats_are_rejected(name: str) -> None:
    with pytest.raises(OutputError, match=r"\.png, \.svg, \.pdf"):
        check_plot(Path(name))


# --- tables, traces and plots of what is measured


@pytest.mark.parametrize(
    ("arguments", "stages"),
    [
        (["field", "--field", "bn254.fr"], ["bn254.fr product"]),
        pytest.param(
            ["msm", "--curve", "bn254", "--log2", "6"],
            ["digits", "sort", "accumulate", "reduce"],
            marks=pytest.mark.thorough,
        ),
        pytest.param(
            ["ntt", "--log2", "6"],
            ["forward NN", "inverse NR, forward RN on a coset"],
            marks=pytest.mark.thorough,
        ),
        pytest.param(
            ["groth16", "--constraints", "20"],
            ["quotient", "transforms", "MSM A", "accumulate"],
            marks=pytest.mark.thorough,
        ),
    ],
    ids=["field", "msm", "ntt", "groth16"],
)
def test_every_subject_on_a_cpu(
    arguments: list[str], stages: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plot, trace = tmp_path / "plot.png", tmp_path / "trace.json"
    files = ["--plot", str(plot), "--trace", str(trace), "--stages"]
    assert entry.run(["bench", *arguments, *files, *ONCE, "--json"]) == 0
    captured = capsys.readouterr()
    json.loads(captured.out)
    table = captured.err
    for name in (*stages, "G products/s", "of the limit", "GB/s"):
        assert name in table, name
    # Which of the two limits it is depends on what the machine has left for its memory.
    assert re.search(r"\d% (multiplier|memory)", table)
    assert plot.read_bytes().startswith(b"\x89PNG")
    names = {event["name"] for event in json.loads(trace.read_text())["traceEvents"]}
    assert set(stages) <= names


@pytest.mark.thorough
def test_steps_of_an_msm_on_a_gpu(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plot, trace = tmp_path / "plot.png", tmp_path / "trace.json"
    arguments = ["--curve", "bn254", "--log2", "2", "--device", "emulated", "--stages"]
    assert (
        entry.run(["bench", "msm", *arguments, "--plot", str(plot), "--trace", str(trace), *ONCE])
        == 0
    )
    table = capsys.readouterr().err
    for name in ("bn254.g1 2 uniform", "  digits", "  sort", "  accumulate", "  merge", "  reduce"):
        assert name in table, name
    assert "of the limit" not in table
    assert plot.read_bytes().startswith(b"\x89PNG")
    events = json.loads(trace.read_text())["traceEvents"]
    tracks = {event["tid"]: event["args"]["name"] for event in events if event["ph"] == "M"}
    steps = [event for event in events if event["ph"] == "X"]
    of_steps = {event["name"]: tracks[event["tid"]] for event in steps}
    assert of_steps["accumulate"] == of_steps["digits"] == "msm"
    assert of_steps["bn254.g1 2 uniform"] == "MainThread"
    work = [event["args"] for event in steps if "multiply_adds" in event["args"]]
    assert {"bytes", "modmuls", "multiply_adds"} <= set(work[0])
    total = next(event for event in steps if event["name"] == "bn254.g1 2 uniform")
    for event in steps:
        assert total["ts"] <= event["ts"]
        assert event["ts"] + event["dur"] <= total["ts"] + total["dur"] + 0.01


def test_table_shows_fraction_of_the_limits(capsys: pytest.CaptureFixture[str]) -> None:
    show_timings(two_msms(), LIMITS)
    lines = capsys.readouterr().err.splitlines()
    accumulate = next(line for line in lines if "accumulate" in line)
    assert accumulate.split()[-2:] == ["80%", "multiplier"]
    assert "160.00" in accumulate  # GB/s
    assert "21.333" in accumulate  # thousand million products a second
    sort = next(line for line in lines if "sort" in line)
    assert sort.split()[-2:] == ["50%", "memory"]
    assert next(line for line in lines if "wait" in line).split() == ["wait", "10.0", "3%"]
    show_timings(two_msms())
    assert "limit" not in capsys.readouterr().err


def test_cpu_limits_are_measured() -> None:
    limits = cpu_limits(CpuDevice(threads=1))
    assert 1e8 < limits.bytes_per_second < 1e13
    assert 1e8 < limits.multiply_adds_per_second < 1e13

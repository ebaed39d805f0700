"""The progress display: on a terminal only, late, gone afterwards."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from quod.cli.display.progress import ProgressDisplay, _Compiling, followed_timeline, path_of
from quod.device.runtime.timeline import Timeline

# Works until its standard input ends.
SCRIPT = """
import sys
from quod.cli.display import progress
progress.DELAY_SECONDS = {delay}
with progress.followed_timeline(quiet={quiet}) as timeline:
    with timeline.stage("prove"), timeline.stage("msm [a]") as stage:
        stage.progress(3, 8)
        sys.stdin.read()
"""


def on_a_terminal(*, until: str, delay: float = 0.15, quiet: bool = False) -> str:
    """Return the output on a terminal of a script that ends once it has written a text there."""
    ours, theirs = pty.openpty()
    script = SCRIPT.format(quiet=quiet, delay=delay)
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "100"}
    environment.pop("NO_COLOR", None)
    process = subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stderr=theirs, env=environment
    )
    assert process.stdin is not None
    os.close(theirs)
    shown = b""
    while True:
        if until.encode() in shown:
            process.stdin.close()
        try:
            piece = os.read(ours, 4096)
        except OSError:  # how Linux tells that the other side has closed
            break
        if not piece:
            break
        shown += piece
    os.close(ours)
    assert process.wait(timeout=120) == 0
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown.decode())


def test_long_work_shows_progress_on_a_terminal() -> None:
    shown = on_a_terminal(until="3/8")
    assert "prove › msm [a]" in shown
    # The time of all stages.
    assert "total 0:00:0" in shown


def test_short_or_quiet_work_shows_nothing() -> None:
    assert on_a_terminal(until="", delay=600) == ""
    assert on_a_terminal(until="", delay=0, quiet=True) == ""


def test_no_progress_thread_without_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    before = {*threading.enumerate()}
    with followed_timeline(quiet=False) as timeline, timeline.stage("prove"):
        assert {*threading.enumerate()} <= before
    assert [stage.name for stage in timeline.rows()] == ["prove"]
    assert capsys.readouterr() == ("", "")


def test_leaves_are_the_running_stages() -> None:
    display = ProgressDisplay()
    timeline = Timeline(display)
    with timeline.stage("prove"):
        assert [path_of(stage) for stage in display.leaves()] == ["prove"]
        with timeline.stage("msm"):
            assert [path_of(stage) for stage in display.leaves()] == ["prove › msm"]
        assert [path_of(stage) for stage in display.leaves()] == ["prove"]
    assert display.leaves() == []


def test_exception_clears_the_display(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    before = {*threading.enumerate()}
    with (
        pytest.raises(ValueError, match="boom"),
        followed_timeline(quiet=False) as timeline,
        timeline.stage("prove"),
    ):
        raise ValueError("boom")
    assert {*threading.enumerate()} <= before


# Has a clock of its own.
COMPILING = """
from quod.cli.display import progress
from quod.device.cache.compilations import compilations
now = 1
progress.perf_counter_ns = lambda: now
with progress.followed_timeline(quiet={quiet}) as timeline, timeline.stage("prove"):
    for _ in range(4):
        with compilations.running():
            now += int({seconds} * 1e9)
print(sorted((row.name, row.depth, row.count) for row in timeline.table()))
"""


def compiling(seconds: float, *, quiet: bool = False) -> tuple[str, str]:
    """Return standard output and error, both no terminals, written while kernels compile."""
    script = COMPILING.format(quiet=quiet, seconds=seconds)
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    return done.stdout, done.stderr


def test_compilation_is_one_line_without_a_terminal() -> None:
    out, error = compiling(0.3)
    assert error == "compiling kernels, once: 2 of 2\n"
    assert out == "[('compiling kernels, once', 0, 4), ('prove', 0, 1)]\n"
    assert compiling(0.3, quiet=True) == (out, "")


def test_the_last_line_of_compilation_has_the_total(capsys: pytest.CaptureFixture[str]) -> None:
    """A line that ends below the total would look like work that was not finished."""
    follow = _Compiling(Timeline(), None)
    follow(0, 3)
    follow._first_ns = 1
    for done in (1, 2, 3):
        follow(done, 3)
    follow(3, 4)
    follow(4, 4)
    assert capsys.readouterr().err.splitlines() == [
        "compiling kernels, once: 1 of 3", "compiling kernels, once: 3 of 3",
    ]  # fmt: skip


def test_short_compilation_is_not_reported() -> None:
    assert compiling(0.0)[1] == ""


def test_compilation_without_a_cache_is_not_called_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    for folder in ("relative", str(tmp_path / "file")):
        monkeypatch.setenv("QUOD_CACHE_DIR", folder)
        assert compiling(0.3)[1].startswith("compiling kernels, in each run: ")
    monkeypatch.setenv("QUOD_CACHE_DIR", str(tmp_path / "new"))
    assert compiling(0.3)[1].startswith("compiling kernels, once: ")


def test_compilations_are_counted_on_a_terminal() -> None:
    display = ProgressDisplay()
    follow = _Compiling(Timeline(), display)
    follow(0, 1)
    follow(0, 2)
    follow(1, 2)
    (stage,) = display.leaves()
    assert (path_of(stage), stage.done, stage.total) == ("compiling kernels, once", 1, 2)
    follow(2, 2)
    assert display.leaves() == []
    follow(2, 3)
    assert [(stage.done, stage.total) for stage in display.leaves()] == [(2, 3)]

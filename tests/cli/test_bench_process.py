"""`quod bench process`: what it runs, and what it makes of a process that fails."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import pytest

from quod.cli import entry
from quod.cli.bench import harness
from quod.errors import QuodError

# The package has a command of the same name.
process = import_module("quod.cli.bench.process")

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "membership"


def test_cases_cover_start_up_proofs_and_memory() -> None:
    cases = process.cases("cpu", EXAMPLE / "circuit.zkey", EXAMPLE / "witness.wtns")
    rows = [(case.parameters["what"], case.unit, case.reads) for case in cases]
    assert rows == [
        ("python -c 'import quod'", "ms", False),
        ("prove, nothing compiled yet", "s", False),
        ("prove, later process", "s", False),
        ("prove, peak memory", "MB", True),
    ]


def test_compiling_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the caches as they are, since compiling takes long."""
    monkeypatch.setattr(process, "_CACHES", ())
    [case] = process.chain_cases("cpu", "bn254", [50])
    assert (case.parameters["constraints"], case.unit, case.reads) == (50, "s", True)
    assert -1 < case.run() < 100


def test_compiling_has_empty_caches(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    code = "import os; print(*[os.environ[name] for name in {!r}])"
    shown = process._python("-c", code.format(process._CACHES), cache=str(tmp_path))
    assert shown.split() == [str(tmp_path)] * len(process._CACHES)


def test_a_key_or_a_chain(capsys: pytest.CaptureFixture[str]) -> None:
    for given in ([], ["key.zkey"], ["key.zkey", "w.wtns", "--constraints", "9"]):
        for subject in ("process", "groth16"):
            assert entry.run(["bench", subject, *given]) == 2
            assert "or --constraints" in capsys.readouterr().err


def test_memory_of_a_child_is_read() -> None:
    small = process._peak_bytes("-c", "pass")
    large = process._peak_bytes("-c", "x = bytearray(b'1') * 100_000_000")
    assert 1e6 < small < 1e8 < large < small + 2e8


def test_what_this_process_holds_does_not_count() -> None:
    held = bytearray(b"1") * 200_000_000
    assert process._peak_bytes("-c", "pass") < 1e8 < len(held)


def test_a_process_that_fails_is_an_error() -> None:
    with pytest.raises(QuodError, match=r"python -c raise SystemExit\(3\) failed \(3\)"):
        process._python("-c", "raise SystemExit(3)")
    with pytest.raises(QuodError, match=r"failed \(3\)"):
        process._peak_bytes("-c", "raise SystemExit(3)")


def test_a_figure_that_is_read_is_not_timed() -> None:
    case = harness.Case({"what": "size"}, lambda: 42, unit="MB", reads=True)
    (row,) = harness.measure(
        "process", [case], device="cpu", against=None, plan=harness.Plan(repeats=3), command="quod"
    )
    assert (row.median, row.unit, row.repeats, row.peer) == (42.0, "MB", 3, None)

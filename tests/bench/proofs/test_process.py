"""`quod bench process`: the processes it runs, and its handling of failing ones."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from importlib import import_module
from itertools import islice
from pathlib import Path
from types import SimpleNamespace

import pytest

from quod.bench.measure import harness
from quod.bench.peers import provers as peers
from quod.cli import entry
from quod.curve.named import CURVES
from quod.errors import DeviceError, InputError, InsecureKeyError, MismatchError, QuodError
from quod.field.array import integers_to_words
from quod.formats import write_wtns
from quod.resident.client import ask
from quod.resident.frames import STATUS

# The package has a command of the same name.
process = import_module("quod.bench.proofs.process")

EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "membership"
INPUTS = (EXAMPLE / "circuit.zkey", EXAMPLE / "witness.wtns")


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, ...]]:
    """Record the commands that Python would run."""
    commands: list[tuple[str, ...]] = []
    monkeypatch.setattr(process, "run_python", lambda *words, **_: commands.append(words))
    return commands


def cases_of() -> Iterator[harness.Case]:
    cases: Iterator[harness.Case] = process.cases(
        "cpu", EXAMPLE / "circuit.zkey", EXAMPLE / "witness.wtns"
    )
    return cases


def test_cases_cover_start_up_proofs_and_memory(
    ran: list[tuple[str, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [
        (case.parameters["what"], case.unit, case.returns_figure, case.peer_note)
        for case in cases_of()
    ]
    assert rows == [
        ("python -c 'import quod'", "ms", False, ""),
        ("python -c 'import numpy'", "ms", False, ""),
        ("prove, nothing compiled yet", "s", False, ""),
        ("prove, whole process", "s", False, "whole process"),
        ("prove, with the resident helper", "s", False, "whole process"),
        ("prove, key resident", "s", False, "in process"),
        ("prove, budget of a whole process", "s", True, ""),
        ("prove, peak memory", "MB", True, ""),
        ("verify, whole process", "s", False, "whole process"),
    ]
    assert [words[len(process.QUOD) + 1] for words in ran] == ["prove", "export"]
    monkeypatch.setenv("QUOD_KERNELS", "somewhere")
    assert [case.parameters["what"] for case in cases_of()][2] == (
        "prove, only shipped kernels compiled"
    )


def test_the_helper_of_a_measurement_is_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its socket is in a new folder, and it ends with the measurement."""
    prove = [*process.QUOD, "groth16", "prove", *map(str, INPUTS), "-q"]
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "runtime"))
    with process.Helper(tmp_path / "runtime") as helper:
        helper.run(*prove, str(tmp_path / "proof.json"), str(tmp_path / "public.json"))
        assert ask(STATUS) is not None
    assert ask(STATUS) is None


@pytest.mark.parametrize(
    "status", ["No resident helper runs.", "Quod 1, process 2, is idle; commands: 0"]
)
def test_a_measurement_without_its_helper_fails(status: str, tmp_path: Path) -> None:
    """There is none, or it has declined the command."""
    code = ["-c", f"print({status!r})"]
    with pytest.raises(QuodError, match="ran without"), pytest.MonkeyPatch.context() as patch:
        patch.setattr(process, "QUOD", code)
        with process.Helper(tmp_path / "runtime") as helper:
            helper.run(*code, "groth16", "prove")


def test_time_budget_uses_earlier_measurements(
    ran: list[tuple[str, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = iter([0, 100, 0, 0.2, 0, 0.3, 0, 0.4])
    monkeypatch.setattr(process, "perf_counter", lambda: next(clock))
    timed = process.Timed(lambda: None)
    for _ in range(4):
        timed()
    assert timed.median == 0.3
    medians = iter([0.16, 0.10])
    monkeypatch.setattr(process.Timed, "median", property(lambda _: next(medians)))
    [budget] = [case for case in cases_of() if case.parameters["what"] == _BUDGET]
    assert budget.run() == pytest.approx(0.16 + 1.5 * 0.10 + 0.060)


def test_time_budget_measures_missing_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """With --only-stale the rows that the budget depends on may be skipped."""
    clock = iter([0, 100, 0, 0.2, 0, 0.3, 0, 0.4])
    monkeypatch.setattr(process, "perf_counter", lambda: next(clock))
    assert process.Timed(lambda: None).median == 0.3


_BUDGET = "prove, budget of a whole process"


def test_process_cases_compare_with_peer_processes(
    ran: list[tuple[str, ...]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """rapidsnark is used where the PATH has one, with the arguments that it takes."""
    log = tmp_path / "given"
    program = tmp_path / "rapidsnark"
    program.write_text(f"#!/bin/sh\necho $# $1 $2 >> {log}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    helper = contextlib.nullcontext(SimpleNamespace(run=lambda *_: None))
    monkeypatch.setattr(process, "Helper", lambda _: helper)
    rows = harness.measure(
        "process", cases_of(), device="cpu", against="rapidsnark",
        plan=harness.Plan(repeats=2, seconds=0), command="quod",
    )  # fmt: skip
    assert [row.parameters["what"] for row in rows] == [
        "prove, whole process", "prove, with the resident helper",
    ]  # fmt: skip
    assert {row.peer for row in rows} == {"rapidsnark, whole process"}
    files = [EXAMPLE / "circuit.zkey", EXAMPLE / "witness.wtns"]
    assert set(log.read_text().splitlines()) == {f"4 {files[0]} {files[1]}"}
    assert len(log.read_text().splitlines()) == 6


def test_missing_peer_is_not_reported_as_unknown(
    ran: list[tuple[str, ...]], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(peers, "find_snarkjs", lambda: None)
    files = [str(EXAMPLE / "circuit.zkey"), str(EXAMPLE / "witness.wtns")]
    for subject, name in (
        ("process", "rapidsnark"),
        ("process", "snarkjs"),
        ("groth16", "snarkjs"),
    ):
        assert entry.run(["bench", subject, *files, "--against", name, "-q"]) == 3
        said = capsys.readouterr().err
        assert f"{name} cannot be measured: {name} is" in said
        assert "PATH" in said


@pytest.mark.thorough
def test_compiling_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """The caches stay as they are, because compiling takes long."""
    monkeypatch.setattr(process, "_CACHES", ())
    [case] = process.chain_cases("cpu", "bn254", [50])
    assert (case.parameters["constraints"], case.unit, case.returns_figure) == (50, "s", True)
    assert -1 < case.run() < 100


def test_compile_case_uses_empty_caches(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    code = "import os; print(*[os.environ[name] for name in {!r}])"
    shown = process.run_python("-c", code.format(process._CACHES), cache=str(tmp_path))
    assert shown.split() == [str(tmp_path)] * len(process._CACHES)


def test_key_or_constraints_option_is_required(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in ([], ["key.zkey"], ["key.zkey", "w.wtns", "--constraints", "9"]):
        for subject in ("process", "groth16"):
            assert entry.run(["bench", subject, *arguments]) == 2
            assert "or --constraints" in capsys.readouterr().err


def test_memory_of_a_child_is_read() -> None:
    small = process.peak_bytes("-c", "pass")
    large = process.peak_bytes("-c", "x = bytearray(b'1') * 100_000_000")
    assert 1e6 < small < 1e8 < large < small + 2e8


def test_memory_of_the_parent_does_not_count() -> None:
    held = bytearray(b"1") * 200_000_000
    assert process.peak_bytes("-c", "pass") < 1e8 < len(held)


def test_a_process_that_fails_is_an_error() -> None:
    with pytest.raises(QuodError, match=r"python -c raise SystemExit\(3\) failed \(3\)"):
        process.run_python("-c", "raise SystemExit(3)")
    with pytest.raises(QuodError, match=r"failed \(3\)"):
        process.peak_bytes("-c", "raise SystemExit(3)")


def test_reported_figures_are_not_timed() -> None:
    case = harness.Case({"what": "size"}, lambda: 42, unit="MB", returns_figure=True)
    (row,) = harness.measure(
        "process", [case], device="cpu", against=None, plan=harness.Plan(repeats=3), command="quod"
    )
    assert (row.median, row.unit, row.repeats, row.peer) == (42.0, "MB", 3, None)


@pytest.mark.parametrize("kind", [InputError, MismatchError, DeviceError, InsecureKeyError])
def test_child_exit_code_maps_to_its_error_class(kind: type[QuodError]) -> None:
    with pytest.raises(QuodError) as caught:
        process.run_python("-c", f"raise SystemExit({kind.exit_code})")
    assert type(caught.value) is kind


def test_the_witness_of_another_circuit_is_a_mismatch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_wtns(tmp_path / "w.wtns", "bn254", integers_to_words(CURVES["bn254"].fr, [1, 2]))
    # Nothing else is measured here: of all cases the first that takes the witness fails.
    all_cases = process.cases("cpu", EXAMPLE / "circuit.zkey", tmp_path / "w.wtns")
    monkeypatch.setattr(process, "cases", lambda *_: islice(all_cases, 2, None))
    files = [str(EXAMPLE / "circuit.zkey"), str(tmp_path / "w.wtns")]
    assert entry.run(["bench", "process", *files, "-q"]) == 4
    assert "failed (4): quod: error: " in capsys.readouterr().err

"""The sweep of sizes, briefly and on the processor: what it computes is right, and what is planted
is found."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from quod.curve.groups import GROUPS
from quod.errors import DeviceError
from tests.support.thorough import one_and_others
from tools import sweep, sweep_cases

BRIEF = ["--device", "cpu:scalar", "--groups", "bn254.g1", "--largest", "6", "--seconds", "600"]


@pytest.fixture
def tool() -> Any:
    return sweep


@pytest.fixture
def cases() -> Any:
    return sweep_cases


@pytest.mark.thorough
def test_a_short_sweep(tool: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page, state = tmp_path / "sweep.md", tmp_path / "state.jsonl"
    arguments = [*BRIEF, "--cases", "16", "--resume", str(state), "--table", str(page)]
    assert tool.main(arguments) == 0
    out = capsys.readouterr().out
    assert "seed 1," in out
    rows = page.read_text()
    for kind in ("msm", "batch", "ntt", "proof"):
        assert f"| {kind} | " in rows
    assert "| **all** | 16 | 0 |" in rows
    assert "seed 1, commit" in rows
    # It is done, and nothing runs again.
    assert tool.main(arguments) == 0
    assert "| **all** | 16 | 0 |" in capsys.readouterr().out
    assert len(state.read_text().splitlines()) == 1 + 2 * 16
    # The same table from what was kept.
    assert tool.main(["--report", str(state), "--table", str(tmp_path / "again.md")]) == 0
    assert (tmp_path / "again.md").read_text() == rows


def test_interrupted_sweep_resumes(tool: Any, tmp_path: Path) -> None:
    kept = [*BRIEF, "--kinds", "ntt"]
    complete, cut = tmp_path / "whole.jsonl", tmp_path / "cut.jsonl"
    assert tool.main([*kept, "--cases", "6", "--resume", str(complete)]) == 0
    assert tool.main([*kept, "--cases", "3", "--resume", str(cut)]) == 0
    with cut.open("a") as file:
        file.write('{"begin": 3}\n{"ind')
    assert tool.main([*kept, "--cases", "6", "--resume", str(cut)]) == 0

    def done(path: Path) -> list[Any]:
        rows = [json.loads(line) for line in path.read_text().splitlines()[1:]]
        return [(row["index"], row["size"]) for row in rows if "index" in row]

    assert done(cut) == done(complete)
    assert [index for index, _ in done(cut)] == list(range(6))
    with pytest.raises(SystemExit, match="another seed"):
        tool.main([*kept, "--seed", "2", "--resume", str(cut)])
    # What ends the process twice is a failure, and not begun again.
    with cut.open("a") as file:
        file.write('{"begin": 6}\n{"begin": 6}\n')
    assert tool.main([*kept, "--cases", "8", "--resume", str(cut)]) == 1


def test_slices_partition_the_cases(tool: Any) -> None:
    from itertools import islice

    halves = [list(islice(tool.indices(first, 2), 64)) for first in range(2)]
    assert sorted(halves[0] + halves[1]) == list(range(128))


def test_case_is_determined_by_its_number(cases: Any) -> None:
    bounds = cases.Bounds(tuple(GROUPS), cases.KINDS, 21.5, 1 << 20)
    drawn = [cases.case_of(7, index, bounds) for index in range(2000)]
    assert drawn[123] == cases.case_of(7, 123, bounds)
    assert drawn != [cases.case_of(8, index, bounds) for index in range(2000)]
    assert {case.kind for case in drawn} == {*cases.KINDS}
    assert all(1 <= case.size <= 2**21.5 for case in drawn)
    assert min(case.size for case in drawn if case.kind == "parts") >= 1 << 21
    kinds = {kind for case in drawn for kind in case.choices.get("scalars", ())}
    assert kinds == {*cases.SCALARS}


def test_expected_sums_match_integer_arithmetic(cases: Any) -> None:
    """Against plain integers, with logarithms of both signs."""
    fr, rng = GROUPS["bls12_381.g1"].scalars, np.random.default_rng(1)
    count = cases._EXACT_ROWS + 5
    weights = rng.integers(-(1 << 16) + 1, 1 << 16, (count, 4), np.int32)
    scalars = cases.uniform(fr, count, rng)
    scalars[::3] = 0xFFFFFFFF
    plain = [
        sum(int(word) << 32 * i for i, word in enumerate(row)) for row in scalars[-9:].tolist()
    ]
    logs = [sum(digit << 16 * i for i, digit in enumerate(row)) for row in weights[-9:].tolist()]
    head = cases.weighed(scalars[:-9], weights[:-9])
    assert cases.weighed(scalars, weights) - head == sum(x * y for x, y in zip(plain, logs))


@pytest.mark.parametrize(
    "kind", one_and_others(["msm", "batch", "ntt", "proof"], always=["msm", "batch", "ntt"])
)
def test_wrong_results_are_detected(
    kind: str, tool: Any, cases: Any, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    real_msm, real_forward, real_inverse = (
        cases.msm_words, cases.NttPlan.forward, cases.NttPlan.inverse,
    )  # fmt: skip
    calls: list[int] = []

    def wrong_msm(bases: Any, vectors: Any) -> Any:
        sums = real_msm(bases, vectors)
        calls.append(len(calls))
        if calls[-1] == 1:
            sums[-1, 0] ^= np.uint64(1)
        return sums

    def spoilt(real: Any) -> Any:
        def transform(plan: Any, data: Any, **options: Any) -> None:
            real(plan, data, **options)
            calls.append(len(calls))
            if calls[-1] == 2:
                data[-1, 0] ^= 1

        return transform

    monkeypatch.setattr(cases, "msm_words", wrong_msm)
    monkeypatch.setattr(
        cases.NttPlan, "forward", spoilt(real_forward) if kind == "ntt" else real_forward
    )
    monkeypatch.setattr(
        cases.NttPlan, "inverse", spoilt(real_inverse) if kind == "ntt" else real_inverse
    )
    if kind == "proof":
        from quod.groth16.verifier import VerifyingKey

        monkeypatch.setattr(VerifyingKey, "verify", lambda key, public, proof: True)
    assert tool.main([*BRIEF, "--cases", "3", "--kinds", kind]) == 1
    out = capsys.readouterr().out
    assert "FAILED: WRONG: " in out
    assert f"--seed 1 --largest 6 --groups bn254.g1 --kinds {kind} --only" in out
    assert "| **all** | 3 | " in out


def test_errors_count_as_failures_and_the_sweep_continues(
    tool: Any, cases: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = [*BRIEF, "--kinds", "ntt"]
    real = cases.NttPlan.__post_init__
    bounds = cases.Bounds(("bn254.g1",), ("ntt",), 6.0, 32)
    planted = cases.case_of(1, 1, bounds).choices["log_size"]

    def failing(plan: Any) -> None:
        real(plan)
        if plan.log2_size == planted:
            raise DeviceError("planted")

    monkeypatch.setattr(cases.NttPlan, "__post_init__", failing)
    assert tool.main([*kept, "--cases", "3"]) == 1
    assert "| **all** | 3 | " in (out := capsys.readouterr().out)
    assert "FAILED: DeviceError: planted" in out
    # The one case by itself.
    assert tool.main([*kept, "--only", "1"]) == 1
    assert "| **all** | 1 | 1 |" in capsys.readouterr().out
    monkeypatch.undo()


def test_a_lost_device_ends_the_sweep(
    tool: Any, cases: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def lost(runner: Any, case: Any) -> None:
        raise DeviceError("gone")

    class Space:
        is_lost = True

    monkeypatch.setattr(cases.Runner, "_transform", lost)
    real = tool.open_device

    def opened(*arguments: Any, **options: Any) -> Any:
        device = real(*arguments, **options)
        device.space = Space()
        return device

    monkeypatch.setattr(tool, "open_device", opened)
    assert tool.main([*BRIEF, "--kinds", "ntt", "--cases", "5"]) == 1
    out = capsys.readouterr().out
    assert "the device is lost" in out
    assert "| **all** | 1 | 1 |" in out


def test_empty_sweep_fails(tool: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert tool.main([*BRIEF, "--seconds", "0"]) == 1
    assert "no case ran" in capsys.readouterr().out


@pytest.mark.parametrize("option", ["--seconds", "--memory", "--largest"])
def test_amounts_must_be_numbers(
    tool: Any, option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for amount in ("nan", "-1"):
        with pytest.raises(SystemExit):
            tool.main([*BRIEF, option, amount])
        assert "is below 0, or no number" in capsys.readouterr().err

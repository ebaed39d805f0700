"""quod kernel analyze: tables for people, JSON for programs, with an assembler and without."""

from __future__ import annotations

import json

import pytest

from quod.cli import entry
from quod.cli.kernel import report as kernel_report
from quod.codegen.ptx.assembler import AssemblerMissing
from tests.device import kernels


def test_tables(capsys: pytest.CaptureFixture[str]) -> None:
    assert entry.run(["kernel", "analyze", "examples.histogram"]) == 0
    out = capsys.readouterr().out
    assert "examples.histogram, workgroups of 128, sm_90a" in out
    assert "which leaves room for 64 warps" in out
    assert "scattered: the address depends on data loaded at kernel/examples.py:" in out
    assert "round of kernel/examples.py:" in out
    assert "memory-bound" in out
    assert "counts as one round" in out


def test_json(capsys: pytest.CaptureFixture[str]) -> None:
    name = "field.multiply[bls12_381.fq]"
    arguments = ["kernel", "analyze", name, "--json", "--arch", "sm_80", "--workgroup", "64"]
    assert entry.run(arguments) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["kernel"], report["arch"], report["workgroup"]) == (name, "sm_80", 64)
    # The estimate is of the same text that the assembler reorders.
    registers = report["assembled"]["registers"]
    assert 0.6 * registers <= report["live_words"] <= 1.3 * registers
    assert report["assembled"]["spill_store_bytes"] == 0
    # Twelve words: a product and a reduction of 144 multiply-adds each, and a few for quotients.
    assert 288 <= report["mix"]["multiply-adds"] <= 320
    assert (report["mix"]["loaded"], report["mix"]["stored"]) == (96, 48)
    (kernel_roofline,) = report["roofline"]
    assert kernel_roofline["limit"] == "multiplier"


def test_without_an_assembler(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(ptx: str, arch: str) -> tuple[bytes, str]:
        raise AssemblerMissing("there is no nvJitLink")

    monkeypatch.setattr(kernel_report, "assemble", missing)
    assert entry.run(["kernel", "analyze", "examples.saxpy"]) == 0
    out = capsys.readouterr().out
    assert "there is no nvJitLink" in out
    assert "registers" not in out
    assert entry.run(["kernel", "analyze", "examples.saxpy", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["assembled"] is None


def test_registers_dropped_by_linking_are_reported(capsys: pytest.CaptureFixture[str]) -> None:
    """A linked kernel loses its setmaxnreg instructions."""
    name = f"{kernels.__file__}:in_roles"
    for arch, said in (
        ("sm_90a", "moves no registers between roles"),
        ("sm_80", "leaves room for"),
    ):
        assert entry.run(["kernel", "analyze", name, "--arch", arch]) == 0
        assert said in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["examples.histogran"], "did you mean examples.histogram?"),
        (["examples.saxpy", "--arch", "sm_91"], "there is no architecture sm_91"),
    ],
)
def test_unknown_names_are_rejected(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert entry.run(["kernel", "analyze", *arguments]) == 3
    captured = capsys.readouterr()
    assert captured.out == ""
    assert message in captured.err

"""quod kernel bench: timing of any kernel, and its resource use."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from quod.cli import entry
from quod.codegen import kernel_usage
from quod.codegen import usage as module
from quod.codegen.ptx.assembler import AssemblerMissing
from quod.errors import KernelError
from quod.field.kernels import field_multiply
from quod.field.moduli import BN254_FR
from quod.kernel import examples

SOURCE = """
from typing import Annotated

from quod.field import NAMED, Element, ElementOf, prime_field
from quod.kernel import F32, U32, U64, Bool, Builder, Pointer, kernel

FR = NAMED["bn254.fr"]


@kernel
def scale(
    k: Builder, n: U32, r: Annotated[Element, ElementOf(FR)], a: F32, x: Pointer[U64],
    flags: Pointer[Bool], y: Pointer[F32],
) -> None:
    i = k.global_id()
    with k.if_(i < n):
        f = prime_field(k, FR)
        f.store(x, i, f.load(x, i) * r)
        with k.if_(flags[i]):
            y[i] = y[i] * a
"""


@pytest.mark.parametrize("options", [[], ["--zeros", "--device", "cpu:checked"]])
def test_a_kernel_of_a_file(
    options: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "mine.py"
    file.write_text(SOURCE)
    sizes = ["n=10", "r=0x7", "a=1.5", "x=40", "flags=10", "y=10"]
    arguments = ["kernel", "bench", f"{file}:scale", *sizes, "--seconds", "0", *options]
    assert entry.run([*arguments, "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["bytes"] == 2 * 320 + 10 + 2 * 40
    assert report["runs"] == 1
    assert 0 < report["least_seconds"] <= report["median_seconds"]
    assert entry.run(arguments) == 0
    assert "730 bytes" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        (["n=8", "x=8"], "also needs y=ELEMENTS out=ELEMENTS"),
        (["n=8", "z=8"], "'z=8' is not a parameter of examples.vector_add; it has n, x, y, out"),
        (["n=8", "n=8"], "'n=8' is the second value of n"),
        (["n=many"], "'n=many' has no number; write n=1000"),
        (["n=-1", "x=8", "y=8", "out=8"], "n must be a whole number from 0 to 2**32 - 1, not -1"),
    ],
)
def test_invalid_sizes_are_rejected(
    sizes: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert entry.run(["kernel", "bench", "examples.vector_add", *sizes]) == 3
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("seconds", ["nan", "inf", "-1"])
def test_invalid_durations_are_rejected(seconds: str, capsys: pytest.CaptureFixture[str]) -> None:
    sizes = ["n=8", "x=8", "y=8", "out=8", "--seconds", seconds]
    assert entry.run(["kernel", "bench", "examples.vector_add", *sizes]) == 2
    assert "the number of seconds must be 0 or more" in capsys.readouterr().err


def test_usage(monkeypatch: pytest.MonkeyPatch) -> None:
    usage = kernel_usage(field_multiply, "sm_80", workgroup=64, spec=BN254_FR)
    assert usage.registers is not None
    assert 30 < usage.registers < 80
    assert (usage.spilled_bytes, usage.stack_bytes, usage.shared_bytes) == (0, 0, 0)
    assert usage.counts["loaded"] == 64
    assert 128 <= usage.counts["multiply-adds"] <= 150
    with pytest.raises(KernelError, match="static parameters without a value: spec"):
        kernel_usage(field_multiply)

    def missing(*_: object) -> None:
        raise AssemblerMissing("there is none")

    monkeypatch.setattr(module, "assemble", missing)
    without = kernel_usage(examples.reduce_sum)
    assert (without.registers, without.spilled_bytes, without.shared_bytes) == (None, None, 512)
    assert without.live_words > 0

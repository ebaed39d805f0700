"""Kernels of files outside of Quod: their texts, by the command line and from Python."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from quod import catalogue
from quod.cli import entry
from quod.codegen import emit
from quod.errors import InputError, KernelError
from quod.kernel import TraceError
from tests.device import kernels

FILE = """
from __future__ import annotations

from beside import AMOUNT

from quod.kernel import U32, Builder, Pointer, kernel

number = 3


@kernel(workgroup=96)
def add_amount(k: Builder, n: U32, x: Pointer[U32], *, twice: bool = False) -> None:
    i = k.global_id()
    with k.if_(i < n):
        x[i] += AMOUNT * (2 if twice else 1)


@kernel
def add_any(k: Builder, n: U32, x: Pointer[U32], *, amount: int) -> None:
    x[0] += amount
"""


@pytest.fixture
def path(tmp_path: Path) -> str:
    (tmp_path / "beside.py").write_text("AMOUNT = 41\n")
    file = tmp_path / "mine.py"
    file.write_text(FILE)
    return str(file)


@pytest.fixture(autouse=True)
def without_the_neighbour(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "beside", raising=False)


def test_emit_of_a_file(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    folders = list(sys.path)
    assert entry.run(["kernel", "emit", f"{path}:add_amount"]) == 0
    text = capsys.readouterr().out
    assert "kernel @add_amount(%n: u32, %x: ptr<u32, global>) workgroup 96" in text
    assert "const 41" in text
    for target, sign in (("llvm", "define void"), ("ptx", ".maxntid 96"), ("wgsl", "size(96")):
        assert entry.run(["kernel", "emit", f"{path}:add_amount", "--target", target]) == 0
        assert sign in capsys.readouterr().out
    arguments = ["--target", "ptx", "--arch", "sm_80"]
    assert entry.run(["kernel", "emit", f"{path}:add_amount", *arguments]) == 0
    text = capsys.readouterr().out
    assert ".target sm_80" in text
    assert ".maxntid 96" in text
    assert entry.run(["kernel", "emit", f"{path}:add_amount", *arguments, "--workgroup", "32"]) == 0
    assert ".maxntid 32" in capsys.readouterr().out
    assert sys.path == folders


def test_analyze_of_a_file(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert entry.run(["kernel", "analyze", f"{path}:add_amount", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["kernel"], report["workgroup"]) == (f"{path}:add_amount", 96)
    assert "mine.py" in report["live_at"]


def test_missing_names_are_rejected(path: str, tmp_path: Path) -> None:
    for name, message in [
        (f"{path}:add_amont", "there is no kernel add_amont in .*; did you mean add_amount"),
        (f"{path}:zzz", "it has add_amount, add_any"),
        (f"{path}:", "there is no kernel without a name"),
        (f"{path}:number", "number in .* is not a kernel; write @kernel above"),
        (f"{tmp_path / 'none.py'}:add", "there is no file .*none.py"),
        (f"{'n' * 300}.py:add", r"n\.py: could not be read \(File name too long\)"),
    ]:
        with pytest.raises(InputError, match=message):
            catalogue.find(name)


def test_failing_files_are_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "wrong.py"
    for source, message in [
        ("1 / 0", "ZeroDivisionError"),
        ("def", "SyntaxError"),
        ("raise SystemExit(0)", "SystemExit: 0"),
    ]:
        file.write_text(source)
        with pytest.raises(InputError, match=f"wrong.py does not run: {message}"):
            catalogue.find(f"{file}:add")
    file.write_text("from quod.kernel import kernel\n@kernel\ndef f(k, n): pass\n")
    with pytest.raises(TraceError, match="parameter n needs a kernel type"):
        catalogue.find(f"{file}:f")
    assert entry.run(["kernel", "emit", f"{file}:f"]) != 0
    assert "parameter n needs a kernel type" in capsys.readouterr().err


def test_static_parameters(path: str) -> None:
    remedy = r"write a default in its signature \(amount: int = 4\), or give the value in Python: "
    with pytest.raises(KernelError, match=f"static parameters without a value: amount; {remedy}"):
        catalogue.find(f"{path}:add_any")
    with pytest.raises(KernelError, match="raise_to has static parameters without a value: amount"):
        emit(kernels.raise_to)
    with pytest.raises(KernelError, match="raise_to has no static parameter much"):
        emit(kernels.raise_to, amount=1, much=2)

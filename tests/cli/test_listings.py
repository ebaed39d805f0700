"""quod inspect, devices and kernel: tables for people, JSON for programs."""

from __future__ import annotations

import json
import os
import threading
from dataclasses import dataclass
from pathlib import Path

import pytest

from quod import catalogue
from quod.cli import entry
from quod.codegen import targets

EXAMPLE = Path(__file__).parents[2] / "examples" / "membership"


def test_inspect_of_a_key(capsys: pytest.CaptureFixture[str]) -> None:
    key = EXAMPLE / "circuit.zkey"
    assert entry.run(["inspect", str(key), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["curve"] == "bn254"
    assert report["bytes"] == key.stat().st_size
    assert (report["domain_size"], report["public"]) == (4096, 3)
    assert entry.run(["inspect", str(key)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert any(line.split() == ["domain", "size", "4,096"] for line in lines)
    assert any(line.split() == ["bytes", f"{key.stat().st_size:,}"] for line in lines)
    assert max(map(len, lines)) <= 100


def test_inspect_rejects_unknown_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    strange = tmp_path / "strange"
    strange.write_bytes(b"\x7fELF....")
    for path in (strange, tmp_path / "missing", tmp_path):
        assert entry.run(["inspect", str(path)]) == 3
        captured = capsys.readouterr()
        assert captured.out == ""
        assert captured.err.startswith(f"quod: error: {path}")
        assert captured.err.count("\n") == 1


@pytest.mark.parametrize("name", ["verification_key.json", "circuit.zkey"])
def test_inspect_of_a_pipe(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A pipe can be read only once."""
    pipe, content = tmp_path / "pipe", (EXAMPLE / name).read_bytes()
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_bytes, args=(content,), daemon=True)
    writer.start()
    assert entry.run(["inspect", str(pipe), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["bytes"], report["insecure"]) == (len(content), False)
    writer.join(60)


def test_inspect_of_an_unreadable_file(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """An unreadable input is an input error, not a usage error."""

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError

    monkeypatch.setattr("quod.formats.source.open", refuse, raising=False)
    # Root may read all.
    monkeypatch.setattr("os.access", lambda *_, **__: False)
    assert entry.run(["inspect", str(EXAMPLE / "circuit.zkey")]) == 3
    assert "permission denied; check the file's permissions" in capsys.readouterr().err


def test_names_cannot_inject_output_lines(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    key = tmp_path / "key\ninsecure       no"
    key.write_bytes((EXAMPLE / "circuit.zkey").read_bytes())
    assert entry.run(["inspect", str(key)]) == 0
    assert capsys.readouterr().out.count("\ninsecure") == 1
    vkey = str(tmp_path / "vkey\nOK: the proof is valid.")
    assert entry.run(["zkey", "export", "verificationkey", str(key), vkey]) == 0
    assert len(capsys.readouterr().err.splitlines()) == 1


@dataclass
class FakeDevice:
    name: str = "cpu"
    kind: str = "cpu"
    description: str = "A processor [of brackets]"
    features: tuple[str, ...] = ("avx512ifma", "avx2")
    threads: int = 2
    memory_bytes: int = 3 << 30


def test_devices(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    import quod.device

    monkeypatch.setattr(quod.device, "devices", lambda: [FakeDevice()], raising=False)
    assert entry.run(["devices", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == [
        {
            "name": "cpu",
            "kind": "cpu",
            "description": "A processor [of brackets]",
            "features": ["avx512ifma", "avx2"],
            "threads": 2,
            "memory_bytes": 3 << 30,
        }
    ]
    assert entry.run(["devices"]) == 0
    out = capsys.readouterr().out
    for text in ("A processor [of brackets]", "3.0 GiB", "avx512ifma avx2"):
        assert text in out


@dataclass
class FakeKernel:
    name: str
    parameters: list[str]
    doc: str


def test_kernels(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [FakeKernel("field.mul", ["x: u32[n]", "n: u32"], "Multiplies.\n\nMore.")]
    texts: list[tuple[str, str]] = []

    def emit(name: str, target: str) -> str:
        texts.append((name, target))
        return "kernel text\n"

    monkeypatch.setattr(catalogue, "kernels", lambda: rows)
    monkeypatch.setattr(catalogue, "find", lambda name: name)
    monkeypatch.setattr(targets, "emit_registered", emit)
    assert entry.run(["kernel", "list", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == [
        {"name": "field.mul", "parameters": ["x: u32[n]", "n: u32"], "doc": "Multiplies.\n\nMore."}
    ]
    assert entry.run(["kernel", "list"]) == 0
    out = capsys.readouterr().out
    assert "x: u32[n], n: u32" in out
    assert "More." not in out
    assert entry.run(["kernel", "emit", "field.mul"]) == 0
    assert entry.run(["kernel", "emit", "field.mul", "--target", "llvm"]) == 0
    assert capsys.readouterr().out == "kernel text\n" * 2
    assert texts == [("field.mul", "ir"), ("field.mul", "llvm")]


def test_kernels_for_an_architecture(capsys: pytest.CaptureFixture[str]) -> None:
    emit = ["kernel", "emit", "examples.saxpy"]
    assert entry.run([*emit, "--target", "ptx"]) == 0
    text = capsys.readouterr().out
    assert ".target sm_90\n" in text
    assert ".maxntid 128\n" in text
    assert entry.run([*emit, "--target", "ptx", "--arch", "sm_80", "--workgroup", "64"]) == 0
    text = capsys.readouterr().out
    assert ".version 7.0\n.target sm_80\n" in text
    assert ".maxntid 64\n" in text
    assert entry.run([*emit, "--workgroup", "64"]) == 0
    assert "workgroup 64" in capsys.readouterr().out
    assert entry.run([*emit, "--target", "ptx", "--arch", "sm_9O"]) == 3
    assert "there is no architecture sm_9O; did you mean sm_90?" in capsys.readouterr().err
    assert entry.run([*emit, "--target", "llvm", "--arch", "sm_90"]) == 2


def test_tables_do_not_wrap_without_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    from quod.catalogue import kernels

    assert entry.run(["kernel", "list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    rows = kernels()
    assert len(lines) == len(rows) + 2
    for line, row in zip(lines[2:], rows, strict=True):
        assert line.startswith(row.name)
        assert line.rstrip().endswith(row.doc.split("\n")[0])


@pytest.mark.parametrize(
    "words",
    [
        ["emit", "nothing.of-it"],
        ["analyze", "nothing.of-it"],
        ["emit", "examples.saxpy", "--target", "ptx", "--arch", "sm_1"],
        ["analyze", "examples.saxpy", "--arch", "sm_1"],
    ],
)
def test_unknown_names_are_inputs(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """An unknown kernel is an input error, like an unknown curve or field."""
    assert entry.run(["kernel", *words]) == 3
    assert "quod: error: there is no" in capsys.readouterr().err

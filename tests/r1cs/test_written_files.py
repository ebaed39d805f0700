"""The files of a circuit that belong together: all are written, or none."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

import pytest

from quod import r1cs
from quod.cli import entry
from quod.errors import InputError, OutputError

SOURCE = """
from quod import r1cs


def square(system: r1cs.ConstraintSystem) -> None:
    x = system.private("x")
    system.output("y", x * x)
"""
NAMES = ["c.r1cs", "c.sym", "c.wasm"]
COMPILE = ["r1cs", "compile", "c.py:square", "c.r1cs", "--sym", "c.sym", "--wasm", "c.wasm", "-q"]


def square(system: r1cs.ConstraintSystem) -> None:
    x = system.private("x")
    system.output("y", x * x)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "c.py").write_text(SOURCE)
    return tmp_path


def no_space(monkeypatch: pytest.MonkeyPatch, after: int) -> None:
    """Have the system report a full disk after the flush of `after` files."""
    flush, flushed = os.fsync, []

    def full(descriptor: int) -> None:
        if len(flushed) == after:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        flushed.append(descriptor)
        flush(descriptor)

    monkeypatch.setattr(os, "fsync", full)


@pytest.mark.parametrize("after", [0, 1, 2])
def test_a_full_disk_leaves_the_files_of_compile(
    after: int, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("c.sym").write_text("old")
    no_space(monkeypatch, after)
    assert entry.run(COMPILE) == 5
    assert f"{NAMES[after]}: could not be written (No space left on device" in (
        capsys.readouterr().err
    )
    assert sorted(os.listdir()) == ["c.py", "c.sym"]
    assert Path("c.sym").read_text() == "old"


def test_a_full_device_leaves_the_other_files_of_compile(folder: Path) -> None:
    if not os.path.exists("/dev/full"):
        pytest.skip("only Linux has /dev/full")
    words = [word if word != "c.wasm" else "/dev/full" for word in COMPILE]
    assert entry.run(words) == 5
    assert os.listdir() == ["c.py"]


@pytest.mark.parametrize("name", NAMES)
def test_compile_refuses_a_folder(name: str, folder: Path) -> None:
    Path(name).mkdir()
    assert entry.run(COMPILE) == 5
    assert sorted(os.listdir()) == sorted(["c.py", name])
    # The same without the check before the work.
    paths = [folder / each for each in NAMES]
    with pytest.raises(OutputError, match="name a file, not a directory"):
        r1cs.trace(square).write_files(paths[0], sym=paths[1], wasm=paths[2])
    assert sorted(os.listdir()) == sorted(["c.py", name])


def test_files_of_a_circuit(tmp_path: Path) -> None:
    circuit = r1cs.trace(square)
    together, alone = tmp_path / "together", tmp_path / "alone"
    together.mkdir()
    alone.mkdir()
    inputs = {"x": 3}
    circuit.write_files(
        together / "c.r1cs", sym=together / "c.sym", wasm=together / "c.wasm",
        wtns=together / "c.wtns", inputs=inputs,
    )  # fmt: skip
    circuit.write_r1cs(alone / "c.r1cs")
    circuit.write_sym(alone / "c.sym")
    circuit.write_wasm(alone / "c.wasm")
    circuit.write_wtns(alone / "c.wtns", inputs)
    for name in (*NAMES, "c.wtns"):
        assert (together / name).read_bytes() == (alone / name).read_bytes()
    assert stat.S_IMODE((together / "c.wtns").stat().st_mode) == 0o600
    with pytest.raises(InputError, match="a witness needs inputs"):
        circuit.write_files(tmp_path / "d.r1cs", wtns=tmp_path / "d.wtns")
    with pytest.raises(InputError):
        circuit.write_files(tmp_path / "d.r1cs", wtns=tmp_path / "d.wtns", inputs={})
    assert sorted(os.listdir(tmp_path)) == ["alone", "together"]

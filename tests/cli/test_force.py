"""Ceremony commands keep an existing file unless --force is given."""

from __future__ import annotations

from pathlib import Path

import pytest

from quod.cli import entry
from tests.ceremony.ceremonies import PTAU

COMMANDS = {
    "powersoftau new": ["bn254", "1", "out"],
    "powersoftau contribute": ["in", "out"],
    "powersoftau beacon": ["in", "out", "0102", "10"],
    "powersoftau prepare": ["in", "out"],
    "powersoftau export challenge": ["in", "out"],
    "powersoftau import response": ["in", "second", "out"],
    "zkey new": ["in", "second", "out"],
    "groth16 setup": ["in", "second", "out"],
    "zkey contribute": ["in", "out"],
    "zkey beacon": ["in", "out", "0102", "10"],
    "zkey import bellman": ["in", "second", "out"],
    "zkey export bellman": ["in", "out"],
    "zcash prove-output": ["in", "second", "proof", "--secrets", "out"],
    "zcash prove-spend": ["in", "second", "proof", "--secrets", "out"],
    "zcash prove-convert": ["in", "second", "proof", "--secrets", "out"],
    "zcash prove-bundle": ["in", "-o", "proof", "--spend", "second", "--secrets", "out"],
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("in", "second", "out"):
        (tmp_path / name).write_bytes(name.encode())
    return tmp_path


@pytest.mark.parametrize("command", COMMANDS)
def test_existing_file_is_not_overwritten(
    command: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert entry.run([*command.split(), *COMMANDS[command]]) == 5
    said = capsys.readouterr().err
    assert said.startswith("quod: error: out: already exists")
    assert "--force" in said
    assert {path.name: path.read_bytes().decode() for path in folder.iterdir()} == {
        name: name for name in ("in", "second", "out")
    }


@pytest.mark.parametrize("command", COMMANDS)
def test_every_writing_command_has_force(command: str, folder: Path) -> None:
    """The inputs are no such files: what is refused then is one of them, or nothing."""
    code = entry.run([*command.split(), *COMMANDS[command], "--force"])
    assert code == (0 if command == "powersoftau new" else 3)


def test_existing_truncated_powers_are_not_overwritten(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "a.ptau").write_bytes(PTAU["bn254"].read_bytes())
    (folder / "a_02.ptau").write_bytes(b"kept")
    command = ["powersoftau", "truncate", "a.ptau", "--power", "1", "--power", "2"]
    assert entry.run(command) == 5
    assert "a_02.ptau: already exists" in capsys.readouterr().err
    assert not (folder / "a_01.ptau").exists()
    assert (folder / "a_02.ptau").read_bytes() == b"kept"
    assert entry.run([*command, "--force"]) == 0
    assert (folder / "a_02.ptau").read_bytes() != b"kept"


def test_force_overwrites_a_contribution(folder: Path) -> None:
    command = ["powersoftau", "contribute", str(PTAU["bn254"]), "out"]
    assert entry.run([*command, "--force"]) == 0
    first = (folder / "out").read_bytes()
    assert entry.run(command) == 5
    assert (folder / "out").read_bytes() == first
    assert entry.run([*command, "--force"]) == 0
    assert (folder / "out").read_bytes() != first

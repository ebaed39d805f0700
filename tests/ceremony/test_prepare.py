"""Powers of tau prepared for the second phase, byte for byte as snarkjs prepares them."""

from __future__ import annotations

import hashlib
import os
import random
from pathlib import Path

import numpy as np
import pytest

from quod.ceremony import contribute, new_powers, prepare, verify
from quod.ceremony.ptau_layout import LAGRANGE
from quod.cli import entry
from quod.errors import InputError, VerificationError
from quod.formats.iden3 import Iden3File, write_iden3
from tests.ceremony.ceremonies import PTAU
from tests.support.killed import kill_within
from tests.support.node import run_program

# SHA-256 of what `snarkjs powersoftau prepare phase2` 0.7.6 makes of the files.
PREPARED = {
    "bn254": "b4aab4ced957a3d3473cf924c7eeac7a961fdbe1166ce94c6d69fcb45dc5b2fb",
    "bls12_381": "ef97aa1ab0c6624d26c1c5eb86374b384e4cea660fd9b711b8666ba836174dd4",
}


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("prepared")
    made = {}
    for name, path in PTAU.items():
        made[name] = folder / f"{name}.ptau"
        prepare(path, made[name])
    return made


@pytest.mark.parametrize("name", sorted(PTAU))
def test_the_file_is_that_of_snarkjs(name: str, prepared: dict[str, Path]) -> None:
    assert hashlib.sha256(prepared[name].read_bytes()).hexdigest() == PREPARED[name]


@pytest.mark.node
def test_snarkjs_verifies_what_we_prepare(tmp_path: Path) -> None:
    new_powers("bn254", 5, tmp_path / "0.ptau")
    contribute(tmp_path / "0.ptau", tmp_path / "1.ptau")
    prepare(tmp_path / "1.ptau", tmp_path / "2.ptau")
    done = run_program("snarkjs", "powersoftau", "verify", "2.ptau", directory=tmp_path)
    assert done.returncode == 0, done.stdout
    assert "Powers of Tau Ok!" in done.stdout
    verify(tmp_path / "2.ptau")


def _changed(source: Path, target: Path, identifier: int, data: bytes) -> Path:
    file = Iden3File.open(source, "ptau", 1)
    parts = [
        (number, [data if number == identifier else bytes(file.section(number, "").rest())])
        for number in file.sections
    ]
    write_iden3(target, "ptau", 1, parts)
    return target


@pytest.mark.parametrize("section", [one.id for one in LAGRANGE])
def test_points_of_another_place_are_refused(
    section: int, prepared: dict[str, Path], tmp_path: Path
) -> None:
    path = prepared["bn254"]
    verify(path)
    raw = bytes(Iden3File.open(path, "ptau", 1).section(section, "").rest())
    points = np.frombuffer(raw, np.uint8).reshape(-1, 128 if section == 13 else 64).copy()
    points[[4, 5]] = points[[5, 4]]
    other = _changed(path, tmp_path / "x.ptau", section, points.tobytes())
    with pytest.raises(VerificationError, match=r"Lagrange points of .* are not those"):
        verify(other)


def test_damaged_points_are_named(prepared: dict[str, Path], tmp_path: Path) -> None:
    path = prepared["bn254"]
    raw = bytearray(Iden3File.open(path, "ptau", 1).section(14, "").rest())
    raw[3 * 64] ^= 1
    other = _changed(path, tmp_path / "x.ptau", 14, bytes(raw))
    with pytest.raises(InputError, match="point 3 of the Lagrange points") as refused:
        verify(other)
    assert refused.value.offset == Iden3File.open(other, "ptau", 1).sections[14].offset + 3 * 64
    short = _changed(path, tmp_path / "y.ptau", 14, bytes(raw[:-64]))
    with pytest.raises(InputError, match="Lagrange points"):
        verify(short)


def test_what_cannot_be_prepared(prepared: dict[str, Path], tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is prepared already"):
        prepare(prepared["bn254"], tmp_path / "x.ptau")
    raw = bytearray(PTAU["bn254"].read_bytes())
    place = Iden3File.open(PTAU["bn254"], "ptau", 1).sections[5].offset + 2 * 64
    raw[place] ^= 1
    (tmp_path / "bad.ptau").write_bytes(raw)
    with pytest.raises(InputError, match="point 2 of beta_tau_g1"):
        prepare(tmp_path / "bad.ptau", tmp_path / "x.ptau")
    assert not (tmp_path / "x.ptau").exists()


def test_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    source = str(PTAU["bn254"])
    assert entry.run(["powersoftau", "prepare", "phase2", source, "a.ptau", "-q"]) == 0
    assert entry.run(["powersoftau", "prepare", source, "b.ptau"]) == 0
    assert (tmp_path / "a.ptau").read_bytes() == (tmp_path / "b.ptau").read_bytes()
    assert entry.run(["powersoftau", "prepare", source]) == 2
    assert entry.run(["powersoftau", "prepare", "a.ptau", "c.ptau"]) == 3
    assert "prepared already" in capsys.readouterr().err


def test_goes_on_after_being_killed(
    prepared: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, out = PTAU["bn254"], tmp_path / "out.ptau"
    whole = prepared["bn254"].read_bytes()
    moments = random.Random(14)
    for _ in range(4):
        kill_within(
            "from quod.ceremony import prepare", "prepare(*sys.argv[2:])",
            moments.randint(5, 40), source, out,
        )  # fmt: skip
        assert not out.exists()
    assert entry.run(["powersoftau", "prepare", str(source), str(out)]) == 0
    assert "going on after an interruption" in capsys.readouterr().err
    assert out.read_bytes() == whole
    assert os.listdir(tmp_path) == ["out.ptau"]

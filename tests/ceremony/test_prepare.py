"""Powers of tau prepared for the second phase, byte for byte as snarkjs prepares them."""

from __future__ import annotations

import hashlib
import os
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from quod.ceremony import contribute, new_powers, prepare, verify
from quod.ceremony.powers.contribution import contributions_data
from quod.ceremony.powers.ptau_layout import (
    CONTRIBUTIONS,
    LAGRANGE,
    SECTIONS,
    LagrangeSection,
    PointSection,
    PtauWriter,
    header_data,
)
from quod.cli import entry
from quod.curve.named import CURVES
from quod.device.discovery import open_device
from quod.errors import DeviceError, InputError, VerificationError
from quod.formats.iden3 import Iden3File, write_iden3
from quod.formats.ptau import PowersOfTau
from quod.groth16.phase2.lagrange_powers import LagrangePowers
from tests.ceremony.ceremonies import PTAU
from tests.support.killed_process import kill_within
from tests.support.node import run_program
from tests.support.thorough import one_and_others

# SHA-256 of what `snarkjs powersoftau prepare phase2` 0.7.6 makes of the files.
PREPARED = {
    "bn254": "b4aab4ced957a3d3473cf924c7eeac7a961fdbe1166ce94c6d69fcb45dc5b2fb",
    "bls12_381": "ef97aa1ab0c6624d26c1c5eb86374b384e4cea660fd9b711b8666ba836174dd4",
}


class Prepared(dict[str, Path]):
    """The files by their curves, each made once it is asked for."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder

    def __missing__(self, name: str) -> Path:
        path = self.folder / f"{name}.ptau"
        prepare(PTAU[name], path)
        self[name] = path
        return path


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return Prepared(tmp_path_factory.mktemp("prepared"))


@pytest.mark.parametrize("name", one_and_others(sorted(PTAU), ["bn254"]))
def test_prepared_file_matches_snarkjs(name: str, prepared: dict[str, Path]) -> None:
    assert hashlib.sha256(prepared[name].read_bytes()).hexdigest() == PREPARED[name]


@pytest.mark.thorough
@pytest.mark.node
def test_snarkjs_verifies_prepared_files(tmp_path: Path) -> None:
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


# One of points in G2.
@pytest.mark.parametrize("section", one_and_others([section.id for section in LAGRANGE], [13]))
def test_swapped_points_are_rejected(
    section: int, prepared: dict[str, Path], tmp_path: Path
) -> None:
    path = prepared["bn254"]
    verify(path)
    raw = bytes(Iden3File.open(path, "ptau", 1).section(section, "").rest())
    points = np.frombuffer(raw, np.uint8).reshape(-1, 128 if section == 13 else 64).copy()
    points[[4, 5]] = points[[5, 4]]
    other = _changed(path, tmp_path / "x.ptau", section, points.tobytes())
    with pytest.raises(VerificationError, match=r"Lagrange points of .* do not match"):
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


def test_invalid_inputs_are_rejected(prepared: dict[str, Path], tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is already prepared"):
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
    assert "already prepared" in capsys.readouterr().err


def test_preparation_resumes_after_a_kill(
    prepared: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, out = PTAU["bn254"], tmp_path / "out.ptau"
    complete = prepared["bn254"].read_bytes()
    moments = random.Random(14)
    for _ in range(4):
        kill_within(
            "from quod.ceremony import prepare", "prepare(*sys.argv[2:])",
            moments.randint(5, 40), source, out,
        )  # fmt: skip
        assert not out.exists()
    assert entry.run(["powersoftau", "prepare", str(source), str(out)]) == 0
    assert "resuming after an interruption" in capsys.readouterr().err
    assert out.read_bytes() == complete
    assert os.listdir(tmp_path) == ["out.ptau"]


ALL_OF_THEM: tuple[PointSection | LagrangeSection, ...] = (*SECTIONS, *LAGRANGE)
# Of a prepared file over BN254, in megabytes: those of snarkjs, by the power; Hermez's of 2**28 has
# 288 GiB.
SIZES = {12: 4.7, 15: 37.7, 18: 302, 20: 1_208, 22: 4_832, 24: 19_327, 28: 309_238}


@pytest.mark.parametrize("power", SIZES)
def test_file_sizes_match_snarkjs(power: int) -> None:
    curve = CURVES["bn254"]
    nbytes = sum(section.nbytes(curve, power) for section in ALL_OF_THEM)
    assert nbytes / 1e6 == pytest.approx(SIZES[power], rel=0.01)


def _with_holes(path: Path, power: int, sections: tuple[Any, ...]) -> dict[int, int]:
    """A file of 2**power powers over BN254 whose points are all zero, and where sections begin."""
    curve, header = CURVES["bn254"], header_data(CURVES["bn254"], power, power)
    with path.open("w+b") as file:
        writer = PtauWriter(file, curve, 2 + len(sections))
        writer.section(1, header)
        for section in sections:
            writer.reserve(section.id, section.nbytes(curve, power))
        writer.section(CONTRIBUTIONS, contributions_data(curve, []))
    return {section.id: writer.file_offset(section.id, 0) for section in sections}


@pytest.mark.parametrize(("power", "needed"), [(28, "216.0 GiB"), (23, "6.8 GiB")])
def test_memory_shortage_is_reported_before_writing(
    power: int, needed: str, tmp_path: Path
) -> None:
    """The largest transform is of twice the powers in G1: 432 bytes a point."""
    _with_holes(tmp_path / "large.ptau", power, SECTIONS)
    with (
        open_device("cpu", memory_budget=6 << 30) as device,
        pytest.raises(
            DeviceError, match=rf"2\*\*{power + 1} points of bn254\.g1 would take {needed}"
        ),
    ):
        prepare(tmp_path / "large.ptau", tmp_path / "out.ptau", device=device)
    assert os.listdir(tmp_path) == ["large.ptau"]


def test_the_largest_file_is_opened_and_has_its_levels(tmp_path: Path) -> None:
    """A sparse file of 309 GB: the levels that a setup reads are at their offsets."""
    path, power = tmp_path / "ready.ptau", 28
    places = _with_holes(path, power, ALL_OF_THEM)
    wanted = [(12, "tau_g1", 64, 28, 5), (13, "tau_g2", 128, 28, (1 << 28) - 1),
              (14, "alpha_tau_g1", 64, 23, 7), (15, "beta_tau_g1", 64, 1, 1)]  # fmt: skip
    with path.open("r+b") as file:
        for identifier, _, size, level, number in wanted:
            file.seek(places[identifier] + ((1 << level) - 1 + number) * size)
            file.write(bytes([identifier]))
    ptau = PowersOfTau.open(path)
    assert ptau.prepared
    assert ptau.size == sum(
        section.nbytes(ptau.curve_parameters, power) for section in ALL_OF_THEM
    ) + 12 + 12 * 11 + len(header_data(ptau.curve_parameters, power, power)) + 4  # fmt: skip
    for identifier, name, _, level, number in wanted:
        points = getattr(LagrangePowers.open(ptau, level, "it"), name)
        assert len(points) == 1 << level
        assert points[number].flat[0] == identifier
    assert len(LagrangePowers.open(ptau, 28, "it").h) == 1 << 28

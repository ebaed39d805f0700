"""Reference strings from real files of powers of tau, and from forged ones."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from quod.commitment import HyperKzg, ReferenceString
from quod.curve import from_points
from quod.curve.groups import GROUPS
from quod.curve.named import CURVES
from quod.curve.weierstrass.affine import g1_group, g2_group
from quod.device import open_device
from quod.errors import InputError, InsecureKeyError, MismatchError
from tests.commitment.statements import prove, statement, verify
from tests.formats.tiny import DATA, refused, replaced, split
from tests.support.node import run_program

BN254 = DATA / "bn254" / "powers.ptau"
CURVE = CURVES["bn254"]
G1, G2 = g1_group(CURVE), g2_group(CURVE)


def test_a_real_file_proves_and_verifies() -> None:
    scheme = HyperKzg(ReferenceString.from_ptau(BN254, 4))
    instance = statement(4, 2)
    proof, _ = prove(scheme, open_device("cpu"), instance)
    verifier = HyperKzg(ReferenceString.from_ptau(BN254, 1))
    assert verifier.parameters() == scheme.parameters()
    assert len(verifier.reference) == 4
    verify(verifier, 4, instance.claims, proof)


def stored(tmp_path: Path, **changes: dict[int, Any]) -> Path:
    """The file with other points; tau_g1={3: point} is point 3 of that array."""
    data = BN254.read_bytes()
    sections = dict(split(data)[2])
    for name, points in changes.items():
        number, group = {"tau_g1": (2, "bn254.g1"), "tau_g2": (3, "bn254.g2")}[name]
        content = bytearray(sections[number])
        for place, point in points.items():
            words = from_points(GROUPS[group], [point]).tobytes()
            content[place * len(words) : (place + 1) * len(words)] = words
        sections[number] = bytes(content)
    path = tmp_path / "p.ptau"
    path.write_bytes(replaced(data, sections))
    return path


def powers(law: Any, tau: int, count: int, first: int = 1) -> dict[int, Any]:
    return {at: law.multiply(first * tau**at, law.generator) for at in range(count)}


FORGED: list[tuple[str, dict[str, dict[int, Any]], str]] = [
    ("another power", {"tau_g1": {5: G1.multiply(77, G1.generator)}}, "are not powers of the tau"),
    ("infinity", {"tau_g1": {15: None}}, "point 15 of tau_g1 is the point at infinity"),
    ("another tau in G1", {"tau_g1": powers(G1, 3, 16)}, "are not powers of the tau"),
    ("another tau in G2", {"tau_g2": powers(G2, 3, 4)}, "are not powers of the tau"),
    ("another square in G2", {"tau_g2": {2: G2.generator}}, "point 2 of tau_g2 is not tau times"),
    ("another cube in G2", {"tau_g2": {3: G2.generator}}, "point 3 of tau_g2 is not tau times"),
    ("infinity in G2", {"tau_g2": {3: None}}, "point 3 of tau_g2 is the point at infinity"),
    ("a tau of 0", {"tau_g1": powers(G1, 0, 16)}, "point 1 of tau_g1 is the point at infinity"),
    ("not from 1 on", {"tau_g1": powers(G1, 3, 16, 2)}, "point 0 of tau_g1 is not the generator"),
    ("nor in G2", {"tau_g2": powers(G2, 3, 4, 2)}, "point 0 of tau_g2 is not the generator"),
    ("off the curve", {"tau_g1": {4: (1, 3)}}, "point 4 of tau_g1 is not on the curve"),
    ("off the twist", {"tau_g2": {1: ((1, 3), (5, 5))}}, "point 1 of tau_g2 is not on the curve"),
]


@pytest.mark.parametrize(
    ("changes", "part"), [row[1:] for row in FORGED], ids=[r[0] for r in FORGED]
)
def test_forged_points_are_refused(
    tmp_path: Path, changes: dict[str, dict[int, Any]], part: str
) -> None:
    path = stored(tmp_path, **changes)
    with pytest.raises(InputError) as error:
        ReferenceString.from_ptau(path, 4)
    refused(error, str(path), part)


def test_only_used_points_are_checked(tmp_path: Path) -> None:
    path = stored(tmp_path, tau_g1={8: (1, 3)})
    assert len(ReferenceString.from_ptau(path, 3)) == 8
    with pytest.raises(InputError, match="point 8 of tau_g1"):
        ReferenceString.from_ptau(path, 4)


def test_a_coordinate_above_the_modulus_and_a_point_outside_the_group(tmp_path: Path) -> None:
    data = BN254.read_bytes()
    sections = dict(split(data)[2])
    path = tmp_path / "p.ptau"
    words = np.frombuffer(sections[2], np.uint32).copy()
    coordinate = int.from_bytes(words[16:24].tobytes(), "little") + CURVE.fq.value
    words[16:24] = np.frombuffer(coordinate.to_bytes(32, "little"), np.uint32)
    path.write_bytes(replaced(data, {2: words.tobytes()}))
    with pytest.raises(InputError, match="point 1 of tau_g1"):
        ReferenceString.from_ptau(path, 2)
    for first in range(1, 50):
        y = G2.field.square_root(G2.right_side((first, 1)))
        if y is not None and not G2.in_subgroup(((first, 1), y)):
            break
    with pytest.raises(InputError, match="point 1 of tau_g2 is not in the subgroup"):
        ReferenceString.from_ptau(stored(tmp_path, tau_g2={1: ((first, 1), y)}), 2)


@pytest.mark.parametrize("tau", [1, -1])
def test_published_tau_is_insecure(tmp_path: Path, tau: int) -> None:
    """tau is 1 in a file without contributions."""
    path = stored(tmp_path, tau_g1=powers(G1, tau, 31), tau_g2=powers(G2, tau, 16))
    with pytest.raises(InsecureKeyError, match="nobody contributed"):
        ReferenceString.from_ptau(path, 4)
    assert len(ReferenceString.from_ptau(path, 4, insecure=True)) == 16


@pytest.mark.thorough
@pytest.mark.node
def test_files_of_snarkjs(tmp_path: Path) -> None:
    """New powers, contributed powers, and powers prepared for the second phase."""
    for arguments in (
        ("new", "bn128", "2", "a.ptau"),
        ("contribute", "a.ptau", "b.ptau", "--name=one", "-e=some text"),
        ("prepare", "phase2", "b.ptau", "c.ptau"),
    ):
        done = run_program("snarkjs", "powersoftau", *arguments, directory=tmp_path)
        assert done.returncode == 0, done.stdout + done.stderr
    with pytest.raises(InsecureKeyError):
        ReferenceString.from_ptau(tmp_path / "a.ptau", 2)
    first, second = (ReferenceString.from_ptau(tmp_path / name, 2) for name in ("b.ptau", "c.ptau"))
    assert first.digest == second.digest


def test_known_tau_requires_insecure() -> None:
    with pytest.raises(InsecureKeyError, match="insecure=True"):
        ReferenceString.of_tau(5, 3, insecure=False)
    wrong: Any
    for wrong in (None, 1, "yes"):
        with pytest.raises(InputError):
            ReferenceString.of_tau(5, 3, insecure=wrong)
        with pytest.raises(InputError):
            ReferenceString.from_ptau(BN254, 3, insecure=wrong)
    for wrong in (0, -1, CURVE.fr.value, 1.5, None):
        with pytest.raises(InputError):
            ReferenceString.of_tau(wrong, 3, insecure=True)
    for wrong in (0, 33, None, "3"):
        with pytest.raises(InputError):
            ReferenceString.from_ptau(BN254, wrong)


def test_unsuitable_files_are_rejected(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"has 2\*\*4 powers, but 32 are required"):
        ReferenceString.from_ptau(BN254, 5)
    with pytest.raises(MismatchError, match="has powers of bls12_381, not of bn254"):
        ReferenceString.from_ptau(DATA / "bls12_381" / "powers.ptau", 2)
    small = tmp_path / "small.ptau"
    prime = CURVE.fq.value.to_bytes(32, "little")
    header = struct.pack("<I", 32) + prime + struct.pack("<II", 1, 1)
    sections = dict(split(BN254.read_bytes())[2])
    cut = {1: header, 2: sections[2][:192], 3: sections[3][:256], 4: sections[4][:128],
           5: sections[5][:128]}  # fmt: skip
    small.write_bytes(replaced(BN254.read_bytes(), cut))
    with pytest.raises(InputError, match=r"has 2\*\*1 powers, but 4 are required"):
        ReferenceString.from_ptau(small, 1)


def test_verifier_points_are_checked() -> None:
    string = ReferenceString.from_ptau(BN254, 3)
    g1, g2 = list(string.tau_g1[1:]), list(string.tau_g2)
    verifier = ReferenceString.of_verifier(g1, g2)
    assert (verifier.digest, verifier.tau_g1, verifier.tau_g2) == (
        string.digest, string.tau_g1, string.tau_g2,
    )  # fmt: skip
    other = ReferenceString.of_tau(5, 1, insecure=True)
    for place in range(2):
        mixed = [*g1[:place], other.tau_g1[1 + place], *g1[place + 1 :]]
        with pytest.raises(InputError, match="not powers of one tau"):
            ReferenceString.of_verifier(mixed, g2)
    for place in range(3):
        twisted = [*g2[:place], other.tau_g2[place], *g2[place + 1 :]]
        with pytest.raises(InputError, match="not powers of one tau"):
            ReferenceString.of_verifier(g1, twisted)
    of_known_tau = ReferenceString.of_tau(1, 1, insecure=True)
    assert of_known_tau.is_known
    assert not string.is_known
    with pytest.raises(InsecureKeyError):
        ReferenceString.of_verifier(of_known_tau.tau_g1[1:], of_known_tau.tau_g2)
    ReferenceString.of_verifier(of_known_tau.tau_g1[1:], of_known_tau.tau_g2, insecure=True)
    wrong: Any
    for wrong in (g1[:1], [*g1, None], [g1[0], (1, 3)], [g1[0], 5], None, "points"):
        with pytest.raises(InputError):
            ReferenceString.of_verifier(wrong, g2)
    for wrong in (g2[:2], [g2[0], g2[1], ((1, 2), (3, 4))], g1, None):
        with pytest.raises(InputError):
            ReferenceString.of_verifier(g1, wrong)
    with pytest.raises(InputError, match="read a reference string"):
        ReferenceString(string.powers_g1, string.tau_g2)

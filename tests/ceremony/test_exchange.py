"""Challenges, responses and truncated files, with snarkjs's."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from quod.ceremony import (
    contribute,
    export_challenge,
    import_response,
    new_powers,
    prepare,
    truncate,
    verify,
)
from quod.ceremony.point_bytes import compressed, decompressed, uncompressed_points
from quod.ceremony.powers.contribution import read_contributions
from quod.ceremony.powers.ptau_layout import LAGRANGE, SECTIONS
from quod.cli import entry
from quod.curve.array import from_points
from quod.curve.groups import GROUPS
from quod.curve.weierstrass.affine import affine_group
from quod.device.discovery import open_device
from quod.device.protocol import AnyDevice
from quod.errors import InputError, MismatchError, VerificationError
from quod.formats.iden3 import Iden3File
from quod.formats.ptau import PowersOfTau
from tests.ceremony.ceremonies import PTAU
from tests.support.node import run_program
from tests.support.thorough import one_and_others

GROUP_NAMES = ["bn254.g1", "bn254.g2", "bls12_381.g1", "bls12_381.g2"]


def _response(before: Path, after: Path) -> bytes:
    """The response that led from one file to the next."""
    device, file = open_device("cpu"), PowersOfTau.open(after)
    curve = file.curve_parameters
    last = read_contributions(file)[-1]
    parts = [export_challenge(before, before.with_suffix(".challenge"))]
    parts += [
        compressed(device, section.group(curve), section.points(file)).tobytes()
        for section in SECTIONS
    ]
    g1, g2 = GROUPS[f"{curve.name}.g1"], GROUPS[f"{curve.name}.g2"]
    for key in last.keys:
        parts.append(uncompressed_points(device, g1, [key.g1_s, key.g1_sx]))
    parts += [uncompressed_points(device, g2, [key.g2_spx]) for key in last.keys]
    return b"".join(parts)


@pytest.mark.parametrize("name", GROUP_NAMES)
def test_compressed_points_round_trip(name: str, device: AnyDevice) -> None:
    group = GROUPS[name]
    law = affine_group(group)
    array = from_points(group, [law.multiply(i + 1, law.generator) for i in range(9)])
    array = np.concatenate([array, from_points(group, [law.negate(law.generator)])])
    data = compressed(device, group, array).tobytes()
    points, bad = decompressed(device, group, data)
    assert bad is None
    assert np.array_equal(points, array)


@pytest.mark.parametrize("name", GROUP_NAMES)
def test_invalid_point_bytes_are_rejected(name: str) -> None:
    group, device = GROUPS[name], open_device("cpu")
    law = affine_group(group)
    size = group.coordinates.bytes * group.degree
    good = compressed(device, group, from_points(group, [law.generator])).tobytes()
    x = next(x for x in range(1, 99) if law.field.square_root(
        law.right_side(x if group.degree == 1 else (x, 0))) is None)  # fmt: skip
    for wrong, why in (
        (bytes([0x40]) + bytes(size - 1), "infinity"),
        (bytes([0x3F]) + b"\xff" * (size - 1), "not below"),
        (x.to_bytes(size, "big"), "without a point on the curve"),
    ):
        _, bad = decompressed(device, group, good + wrong)
        assert bad is not None
        assert bad[0] == 1
        assert why in bad[1]


@pytest.mark.parametrize("curve", one_and_others(sorted(PTAU), always=["bn254"]))
def test_imported_response_equals_the_contribution(curve: str, tmp_path: Path) -> None:
    new_powers(curve, 2, tmp_path / "0.ptau")
    contributed = contribute(tmp_path / "0.ptau", tmp_path / "1.ptau", name="a")
    (tmp_path / "response").write_bytes(_response(tmp_path / "0.ptau", tmp_path / "1.ptau"))
    receipt = import_response(
        tmp_path / "0.ptau", tmp_path / "response", tmp_path / "again.ptau", name="a"
    )
    assert receipt == contributed
    assert (tmp_path / "again.ptau").read_bytes() == (tmp_path / "1.ptau").read_bytes()


@pytest.mark.node
@pytest.mark.parametrize(
    ("curve", "theirs"),
    [
        ("bn254", "bn128"),
        pytest.param("bls12_381", "bls12-381", marks=pytest.mark.thorough),
    ],
)
def test_snarkjs_responds_to_exported_challenges(curve: str, theirs: str, tmp_path: Path) -> None:
    new_powers(curve, 2, tmp_path / "0.ptau")
    contribute(tmp_path / "0.ptau", tmp_path / "1.ptau")
    export_challenge(tmp_path / "1.ptau", tmp_path / "challenge")
    for words in (
        ("challenge", "contribute", theirs, "challenge", "response", "-e=text"),
        ("import", "response", "1.ptau", "response", "theirs.ptau", "-n=x"),
    ):
        done = run_program("snarkjs", "powersoftau", *words, directory=tmp_path)
        assert done.returncode == 0, done.stdout + done.stderr
    receipt = import_response(
        tmp_path / "1.ptau", tmp_path / "response", tmp_path / "2.ptau", name="x"
    )
    verified = verify(tmp_path / "2.ptau")
    assert verified.contributions[1][1] == receipt.response_hash
    assert verify(tmp_path / "theirs.ptau").next_challenge == verified.next_challenge


Damage = Callable[[bytes], bytes]
_G1 = 32
_TWO = 64 + 7 * _G1
_DAMAGED: dict[str, tuple[Damage, type[Exception], str]] = {
    "short": (lambda data: data[:-1], InputError, "has 1,?[0-9]* bytes"),
    "another challenge": (lambda data: b"\1" + data[1:], MismatchError, "another challenge"),
    "no point": (
        lambda data: data[: 64 + _G1] + b"\x3f" + data[65 + _G1 :],
        InputError, "point 1 of tau_g1",
    ),
    "infinity": (
        lambda data: data[:_TWO] + b"\x40" + bytes(63) + data[_TWO + 64 :],
        InputError, "point 0 of tau_g2 is infinity",
    ),
    "another tau": (
        lambda data: data[: 64 + _G1] + data[64 : 64 + _G1] + data[64 + 2 * _G1 :],
        VerificationError, "contribution 1: its tau_g1",
    ),
    "another key": (
        lambda data: data[:-128] + data[-256:-128], VerificationError, "its key of beta",
    ),
    "a key off the curve": (
        lambda data: data[:-1] + bytes([data[-1] ^ 1]), InputError, "g2_spx of beta is not on",
    ),
    "a key that is too large": (
        lambda data: data[:-64] + b"\xff" * 64, InputError, "g2_spx of beta has a coordinate",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", _DAMAGED)
def test_damaged_responses_are_refused(what: str, tmp_path: Path) -> None:
    damage, error, message = _DAMAGED[what]
    new_powers("bn254", 2, tmp_path / "0.ptau")
    contribute(tmp_path / "0.ptau", tmp_path / "1.ptau")
    data = _response(tmp_path / "0.ptau", tmp_path / "1.ptau")
    path = tmp_path / "response"
    path.write_bytes(damage(data))
    with pytest.raises(error, match=message.replace("1,?[0-9]*", "[0-9]+")) as refused:
        import_response(tmp_path / "0.ptau", path, tmp_path / "x.ptau")
    assert str(path) in str(refused.value)
    assert not (tmp_path / "x.ptau").exists()


def test_modified_points_are_rejected_on_challenge_export(tmp_path: Path) -> None:
    data = bytearray(PTAU["bn254"].read_bytes())
    place = Iden3File.open(PTAU["bn254"], "ptau", 1).sections[4].offset
    data[place : place + 64], data[place + 64 : place + 128] = (
        data[place + 64 : place + 128], data[place : place + 64],
    )  # fmt: skip
    (tmp_path / "x.ptau").write_bytes(data)
    with pytest.raises(VerificationError, match="do not match its last contribution"):
        export_challenge(tmp_path / "x.ptau", tmp_path / "challenge")
    assert not (tmp_path / "challenge").exists()


def test_truncated_files_match_snarkjs_hashes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    prepare(PTAU["bn254"], tmp_path / "a.ptau")
    assert entry.run(["powersoftau", "truncate", "a.ptau"]) == 0
    names = [f"a_0{power}.ptau" for power in (1, 2, 3)]
    assert capsys.readouterr().out.split() == names
    for power, name in enumerate(names, start=1):
        verified = verify(tmp_path / name)
        assert (verified.power, len(verified.contributions)) == (power, 2)
        file = PowersOfTau.open(tmp_path / name)
        assert file.ceremony_power == 4
        raw = Iden3File.open(tmp_path / name, "ptau", 1)
        complete = Iden3File.open(tmp_path / "a.ptau", "ptau", 1)
        for section in LAGRANGE:
            truncated = bytes(raw.section(section.id, "").rest())
            assert bytes(complete.section(section.id, "").rest())[: len(truncated)] == truncated
    with pytest.raises(InputError, match=r"2\*\*1 to 2\*\*3"):
        truncate(tmp_path / "a.ptau", tmp_path / "x.ptau", 4)
    with pytest.raises(InputError, match="needs all of them"):
        contribute(tmp_path / "a_02.ptau", tmp_path / "x.ptau")
    with pytest.raises(InputError, match="needs all of them"):
        export_challenge(tmp_path / "a_02.ptau", tmp_path / "x.ptau")
    # Unprepared ones, too; and a wrong last level is seen though its last power is not there.
    truncate(PTAU["bn254"], tmp_path / "u.ptau", 2)
    verify(tmp_path / "u.ptau")
    data = bytearray((tmp_path / "a_02.ptau").read_bytes())
    place = raw_section(tmp_path / "a_02.ptau", 12) + 9 * 64
    data[place : place + 64], data[place + 64 : place + 128] = (
        data[place + 64 : place + 128], data[place : place + 64],
    )  # fmt: skip
    (tmp_path / "w.ptau").write_bytes(data)
    with pytest.raises(VerificationError, match="Lagrange points of tau_g1"):
        verify(tmp_path / "w.ptau")


def raw_section(path: Path, identifier: int) -> int:
    """Return the offset of a section's bytes."""
    return Iden3File.open(path, "ptau", 1).sections[identifier].offset


@pytest.mark.node
def test_truncated_files_match_snarkjs(tmp_path: Path) -> None:
    prepare(PTAU["bn254"], tmp_path / "a.ptau")
    run_program("snarkjs", "powersoftau", "truncate", "a.ptau", directory=tmp_path)
    theirs = (tmp_path / "a_03.ptau").read_bytes()
    truncate(tmp_path / "a.ptau", tmp_path / "ours.ptau", 3)
    assert (tmp_path / "ours.ptau").read_bytes() == theirs


def test_the_commands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    new_powers("bn254", 1, "0.ptau")
    contribute("0.ptau", "1.ptau")
    assert entry.run(["powersoftau", "export", "challenge", "0.ptau", "c"]) == 0
    assert capsys.readouterr().out.startswith("Challenge: ")
    (tmp_path / "r").write_bytes(_response(tmp_path / "0.ptau", tmp_path / "1.ptau"))
    assert entry.run(["powersoftau", "import", "response", "0.ptau", "r", "2.ptau"]) == 0
    assert capsys.readouterr().out.startswith("Contribution 1: ")
    assert (tmp_path / "2.ptau").read_bytes() == (tmp_path / "1.ptau").read_bytes()
    assert entry.run(["powersoftau", "import", "response", "1.ptau", "r", "3.ptau"]) == 4
    assert entry.run(["powersoftau", "truncate", "1.ptau", "--power", "9"]) == 3

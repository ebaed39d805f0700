"""Powers of tau: real files of snarkjs, and damaged ones."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from quod.curve.array import to_points
from quod.curve.groups import GROUPS
from quod.curve.named import CURVES
from quod.errors import InputError
from quod.formats import PowersOfTau, describe
from tests.formats.tiny import DATA, TINY_CURVES, container, refused, replaced, split
from tests.reference.curve import g1_of, g2_of
from tests.reference.pairing import pairing_check

BN254 = (DATA / "bn254" / "powers.ptau").read_bytes()
Q = CURVES["bn254"].fq.value


def opened(tmp_path: Path, data: bytes) -> PowersOfTau:
    (tmp_path / "p.ptau").write_bytes(data)
    return PowersOfTau.open(tmp_path / "p.ptau")


def header(power: int, ceremony: int, q: int = Q, length: int = 32) -> bytes:
    return struct.pack("<I", length) + q.to_bytes(length, "little") + struct.pack(
        "<II", power, ceremony
    )  # fmt: skip


@pytest.mark.parametrize("curve", TINY_CURVES)
def test_the_points_are_powers(curve: str) -> None:
    """The points are powers of one tau in both groups; a pairing on plain integers checks it."""
    path = DATA / curve / "powers.ptau"
    powers = PowersOfTau.open(path)
    parameters = CURVES[curve]
    count = {"bn254": 16, "bls12_381": 8}[curve]
    assert (powers.curve, 1 << powers.power, powers.prepared) == (curve, count, False)
    assert powers.power == powers.ceremony_power
    assert powers.size == path.stat().st_size
    g1, g2 = GROUPS[f"{curve}.g1"], GROUPS[f"{curve}.g2"]
    tau_g1, tau_g2 = to_points(g1, powers.tau_g1), to_points(g2, powers.tau_g2)
    assert len(tau_g1) == 2 * count - 1
    assert len(tau_g2) == count
    assert tau_g1[0] == parameters.g1.generator
    assert tau_g2[0] == parameters.g2.generator
    (beta_g2,) = to_points(g2, powers.beta_g2[None])
    negated = g1_of(parameters).neg(tau_g1[0])
    for left, right in (
        ((tau_g1[1], tau_g2[0]), (negated, tau_g2[1])),
        ((tau_g1[-1], tau_g2[0]), (g1_of(parameters).neg(tau_g1[-2]), tau_g2[1])),
        ((tau_g1[count - 1], tau_g2[0]), (negated, tau_g2[count - 1])),
        ((to_points(g1, powers.beta_tau_g1)[1], tau_g2[0]),
         (g1_of(parameters).neg(tau_g1[1]), beta_g2)),
    ):  # fmt: skip
        assert pairing_check(parameters, [left, right])
    for point in to_points(g1, powers.alpha_tau_g1):
        assert g1_of(parameters).contains(point)
    assert g2_of(parameters).contains(tau_g2[-1])


@pytest.mark.parametrize(
    ("changes", "parts"),
    [
        ({1: header(5, 5)}, ["section 2 (tau_g1)", "tau_g1 needs 4032 bytes and 1984 are left"]),
        ({1: header(3, 4)}, ["section 2 (tau_g1)", "1024 bytes more than the header"]),
        ({1: header(28, 28)}, ["tau_g1 needs 34359738304 bytes"]),
        ({1: header(29, 29)}, ["offset 60", "2**29 powers"]),
        ({1: header(2**32 - 1, 2**32 - 1)}, ["2**4294967295 powers"]),
        ({1: header(0, 4)}, ["2**0 powers"]),
        ({1: header(4, 3)}, ["2**4 powers of a ceremony of 2**3"]),
        ({1: header(4, 4) + b"\0"}, ["section 1 (header)", "1 bytes more"]),
        ({1: header(4, 4)[:-1]}, ["the power of the ceremony needs 4 bytes"]),
        ({1: header(4, 4, length=40)}, ["q of bn254 takes 32 bytes, not 40"]),
        ({1: header(4, 4, q=101)}, ["offset 24", "q = 0x65 is not the prime"]),
        ({1: header(4, 4, q=5, length=7 * 8 + 1)}, ["cannot be 57 bytes"]),
        ({1: header(4, 4, CURVES["bls12_381"].fq.value, 48)}, ["section 2 (tau_g1)"]),
        ({3: b""}, ["section 3 (tau_g2)", "needs 2048 bytes and 0 are left"]),
        ({6: None}, ["section 6 (beta_g2)", "is missing"]),
    ],
)
def test_damaged_powers(tmp_path: Path, changes: dict[int, bytes | None], parts: list[str]) -> None:
    with pytest.raises(InputError) as error:
        opened(tmp_path, replaced(BN254, changes))
    refused(error, str(tmp_path / "p.ptau"), *parts)


def test_wrong_kind_and_version(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is not a ptau file"):
        PowersOfTau.open(DATA / "bn254" / "circuit.zkey")
    kind, _, sections = split(BN254)
    with pytest.raises(InputError, match="version 2 of the ptau format"):
        opened(tmp_path, container(kind, 2, sections))


def test_invalid_point_is_reported_with_its_offset(tmp_path: Path) -> None:
    powers = opened(tmp_path, BN254)
    with pytest.raises(InputError) as error:
        powers.refuse("tau_g2", 3, "is not on the curve")
    start = BN254.index(bytes(memoryview(powers.tau_g2).cast("B")))
    refused(
        error, str(tmp_path / "p.ptau"), "section 3 (tau_g2)", f"offset {start + 3 * 128}",
        "point 3 of tau_g2 is not on the curve",
    )  # fmt: skip


def test_inspect_describes_powers() -> None:
    report = describe(DATA / "bn254" / "powers.ptau")
    assert report["kind"] == "powers of tau (ptau)"
    assert (report["log2_powers"], report["log2_ceremony_powers"]) == (4, 4)
    assert report["prepared"] is False

"""Files that require years of hashing are rejected in advance; the table of first challenges."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from quod.ceremony import Beacon, verify
from quod.ceremony.details import Details
from quod.ceremony.powers import challenge, verification
from quod.ceremony.powers.challenge import computed_challenge, first_challenge, known_challenge
from quod.ceremony.powers.first_challenges import FIRST_CHALLENGES
from quod.ceremony.powers.hash_limit import MAX_HASHES, check_hashes
from quod.cli import entry
from quod.curve.named import CURVES
from quod.device.discovery import resolve_device
from quod.errors import InputError, VerificationError
from quod.groth16.phase2 import add_beacon, new_key, verify_from_init, verify_from_r1cs
from quod.groth16.phase2 import contribute as contribute_key
from tests.ceremony.ceremonies import PTAU
from tests.groth16.phase2.circuits import known_powers, mixed

# The exponent of a beacon of 2**10 hashes between its number and that of the value behind it.
_EXPONENT, _LARGEST = b"\x02\x0a\x03", b"\x02\x3f\x03"


def _endless(*_: Any, **__: Any) -> Any:
    raise AssertionError("hashing began")


def _with_largest_exponent(source: Path, target: Path) -> Path:
    data = source.read_bytes()
    assert data.count(_EXPONENT) == 1
    target.write_bytes(data.replace(_EXPONENT, _LARGEST))
    return target


def _of_ceremony(curve: str, power: int, target: Path) -> Path:
    """Powers that say that they are of a larger ceremony."""
    data = bytearray(PTAU[curve].read_bytes())
    place = 12 + 12 + 4 + CURVES[curve].fq.bytes + 4
    data[place : place + 4] = power.to_bytes(4, "little")
    target.write_bytes(data)
    return target


def test_excessive_beacon_of_powers_is_rejected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = _with_largest_exponent(PTAU["bn254"], tmp_path / "x.ptau")
    monkeypatch.setattr(Beacon, "stream", _endless)
    with pytest.raises(InputError, match=r"hashes for its beacons; .* --max-hashes 63 ") as error:
        verify(path)
    assert str(path) in str(error.value)
    with pytest.raises(AssertionError, match="hashing began"):
        verify(path, max_hashes=1 << 63)


def test_excessive_beacon_of_a_key_is_rejected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    r1cs, ptau = mixed("bn254").write_r1cs(tmp_path / "c.r1cs"), known_powers(tmp_path, "bn254", 5)
    init, last = tmp_path / "0.zkey", tmp_path / "2.zkey"
    new_key(r1cs, ptau, init)
    contribute_key(init, tmp_path / "1.zkey")
    add_beacon(tmp_path / "1.zkey", last, Beacon(b"\1\2", 10))
    path = _with_largest_exponent(last, tmp_path / "x.zkey")
    monkeypatch.setattr(Beacon, "stream", _endless)
    for run, first in ((verify_from_r1cs, r1cs), (verify_from_init, init)):
        with pytest.raises(InputError, match="--max-hashes 63 "):
            run(first, ptau, path)
        with pytest.raises(InputError, match="--max-hashes 10 "):
            run(first, ptau, last, max_hashes=1023)
        with pytest.raises(AssertionError, match="hashing began"):
            run(first, ptau, last, max_hashes=1024)


def test_the_bound_is_on_all_beacons_and_the_first_challenge(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    beacons = [Details("", Beacon(b"\1", 27)), Details("someone"), Details("", Beacon(b"\1", 27))]
    check_hashes("x", beacons, MAX_HASHES)
    with pytest.raises(InputError, match="--max-hashes 29 "):
        check_hashes("x", [*beacons, *beacons], MAX_HASHES)
    with pytest.raises(InputError, match="--max-hashes 29 "):
        check_hashes("x", beacons, MAX_HASHES, 1)
    command = ["powersoftau", "verify", str(PTAU["bn254"]), "-q", "--max-hashes"]
    assert entry.run([*command, "9"]) == 3
    assert "--max-hashes 10 " in capsys.readouterr().err
    assert entry.run([*command, "10"]) == 0


def test_truncated_file_of_a_large_ceremony(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A first challenge of terabytes is not hashed; one of the table need not be."""
    monkeypatch.setattr(challenge, "computed_challenge", _endless)
    path = _of_ceremony("bls12_381", 32, tmp_path / "x.ptau")
    with pytest.raises(InputError, match=r"hashes for its first challenge; .* --max-hashes 35 "):
        verify(path)
    path = _of_ceremony("bn254", len(FIRST_CHALLENGES["bn254"]), tmp_path / "x.ptau")
    with pytest.raises(
        VerificationError, match="contribution 1: its key of tau is not a proof of knowledge"
    ):
        verify(path)


def test_section_lengths_are_checked_before_contributions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lengths of Lagrange sections are checked too."""
    data = PTAU["bn254"].read_bytes()
    extra = (12).to_bytes(4, "little") + (64).to_bytes(8, "little") + bytes(64)
    (tmp_path / "x.ptau").write_bytes(data[:8] + bytes([data[8] + 1]) + data[9:] + extra)
    monkeypatch.setattr(verification, "check_contribution", _endless)
    with pytest.raises(InputError) as error:
        verify(tmp_path / "x.ptau")
    assert str(error.value.section).startswith("12 (Lagrange points of tau_g1")


@pytest.mark.parametrize("name", FIRST_CHALLENGES)
def test_table_of_first_challenges_matches_hashing(name: str) -> None:
    curve, host = CURVES[name], resolve_device("cpu")
    for power in (*range(1, 11), 14):
        assert known_challenge(curve, power) == computed_challenge(host, curve, power)


def test_the_table() -> None:
    """Every power of BN254, whose largest ceremony has 2**28; 64 bytes each, all different."""
    assert len(FIRST_CHALLENGES["bn254"]) == CURVES["bn254"].fr.two_adicity == 28
    rows = [row for rows in FIRST_CHALLENGES.values() for row in rows]
    assert all(re.fullmatch("[0-9a-f]{128}", row) for row in rows)
    assert len(set(rows)) == len(rows)


def test_a_power_beyond_the_table_is_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    curve, host = CURVES["bn254"], resolve_device("cpu")
    expected = computed_challenge(host, curve, 3)
    monkeypatch.setitem(FIRST_CHALLENGES, "bn254", FIRST_CHALLENGES["bn254"][:2])
    assert known_challenge(curve, 3) is None
    assert first_challenge(host, curve, 3) == expected

"""Contributions to keys: alternating with snarkjs, forged ones, and erasure of secrets."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from quod.ceremony import Beacon, multiples, ratio
from quod.ceremony.secret import Secret
from quod.curve.array import from_points
from quod.curve.groups import GROUPS
from quod.curve.named import CURVES
from quod.curve.parameters import PairingCurve
from quod.curve.weierstrass.affine import affine_group, g1_group
from quod.device.protocol import AnyDevice
from quod.errors import InputError, MismatchError, OutputError, QuodError, VerificationError
from quod.formats.iden3 import Iden3File, write_iden3
from quod.formats.ptau import PowersOfTau
from quod.frozen import fields_of
from quod.frozen import replace as replace_frozen
from quod.groth16 import ProvingKey
from quod.groth16.phase2 import (
    VerifiedKey,
    add_beacon,
    contribute,
    new_key,
    verify_from_init,
    verify_from_r1cs,
)
from quod.groth16.phase2 import key_update as contributing
from quod.groth16.phase2 import key_verification as verification
from quod.groth16.phase2.key_contribution import Ceremony, KeyContribution
from quod.hash.blake2b import blake2b
from tests.groth16.phase2.circuits import known_powers, mixed
from tests.groth16.test_verifier import point_outside_the_subgroup
from tests.support.node import run_program
from tests.support.thorough import one_and_others

BEACON = Beacon.from_hex("0102030405060708", 10)

# What snarkjs 0.7.6 printed for this beacon on the key of `mixed` and powers of 2**5.
BEACON_HASHES = {
    "bn254": (
        "a3fe51d8d9a2c7cf8e30ab63e7d21d7d9faef89333cf11e4421a61001f9aab0d"
        "f1966fbe41e8101b19417df2a2c43bc97b7a0aaaf3758e8eeb8b32e37af6afdf"
    ),
    "bls12_381": (
        "cc58f802f98661dbe8be84436aad0bec5eec2820476901049ab76f5f8ac8b2a6"
        "5da397143c2b17890060ec15c5683086ae9ab9804370dff1169de5df6f8e2473"
    ),
}


@dataclass
class Made:
    """A circuit, powers of tau, its key, and that key after two contributions."""

    curve: str
    r1cs: Path
    ptau: Path
    init: Path
    last: Path

    def verified(self, zkey: Path) -> VerifiedKey:
        """By both ways, which say the same."""
        verified_key = verify_from_r1cs(self.r1cs, self.ptau, zkey)
        assert verify_from_init(self.init, self.ptau, zkey) == verified_key
        return verified_key

    def refused(self, zkey: Path) -> str:
        """The one message of both ways."""
        messages = set()
        for run, first in ((verify_from_r1cs, self.r1cs), (verify_from_init, self.init)):
            with pytest.raises(QuodError) as caught:
                run(first, self.ptau, zkey)
            messages.add(f"{type(caught.value).__name__} {caught.value}")
        assert len(messages) == 1, messages
        return messages.pop()


@pytest.fixture(scope="module")
def make(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Made]:
    made_files: dict[str, Made] = {}

    def made(curve: str) -> Made:
        if curve not in made_files:
            folder = tmp_path_factory.mktemp(curve)
            r1cs = mixed(curve).write_r1cs(folder / "c.r1cs")
            ptau = known_powers(folder, curve, 5)
            key_files = Made(curve, r1cs, ptau, folder / "0.zkey", folder / "2.zkey")
            new_key(r1cs, ptau, key_files.init)
            contribute(key_files.init, folder / "1.zkey", name="alice")
            add_beacon(folder / "1.zkey", key_files.last, BEACON, name="the end")
            made_files[curve] = key_files
        return made_files[curve]

    return made


def test_contributions_are_chained(make: Callable[[str], Made], tmp_path: Path) -> None:
    """All contributions differ, and proofs under the last key verify."""
    key_files = make("bn254")
    first, last = (
        contribution.details for contribution, _ in key_files.verified(key_files.last).contributions
    )
    assert (first.name, first.beacon, last.name, last.beacon) == ("alice", None, "the end", BEACON)
    receipts = []
    for number in range(2):
        path = tmp_path / f"{number}.zkey"
        receipts.append(contribute(key_files.init, path, text="the same"))
        verified_key = key_files.verified(path)
        assert verified_key.contributions[0][1] == receipts[-1].contribution_hash
        assert verified_key.circuit_hash == receipts[-1].circuit_hash
    assert receipts[0].contribution_hash != receipts[1].contribution_hash
    key = ProvingKey.from_zkey(key_files.last)
    assert key.weakness is None
    key.check()
    circuit = mixed("bn254")
    proof, public = key.prove(circuit.write_wtns(tmp_path / "w.wtns"))
    assert public == circuit.public
    assert key.verifying_key.verify(public, proof)


@pytest.mark.parametrize("curve", one_and_others(BEACON_HASHES))
def test_a_beacon(make: Callable[[str], Made], curve: str, tmp_path: Path) -> None:
    """A beacon follows from public values, so that its file is unique."""
    key_files = make(curve)
    receipt = add_beacon(key_files.init, tmp_path / "b.zkey", BEACON)
    assert receipt.contribution_hash.hex() == BEACON_HASHES[curve]
    assert key_files.verified(tmp_path / "b.zkey").contributions[0][1] == receipt.contribution_hash


@pytest.mark.thorough
def test_devices_agree(gpu_device: AnyDevice, tmp_path: Path) -> None:
    r1cs = mixed("bn254", 2).write_r1cs(tmp_path / "c.r1cs")
    ptau = known_powers(tmp_path, "bn254", 3)
    new_key(r1cs, ptau, tmp_path / "0.zkey")
    add_beacon(tmp_path / "0.zkey", tmp_path / "cpu.zkey", BEACON)
    add_beacon(tmp_path / "0.zkey", tmp_path / "gpu.zkey", BEACON, device=gpu_device)
    assert (tmp_path / "cpu.zkey").read_bytes() == (tmp_path / "gpu.zkey").read_bytes()


@pytest.mark.thorough
@pytest.mark.node
@pytest.mark.parametrize("curve", ["bn254", pytest.param("bls12_381", marks=pytest.mark.thorough)])
def test_contributions_alternating_with_snarkjs(
    make: Callable[[str], Made], curve: str, tmp_path: Path
) -> None:
    """Every one follows every other; its beacon's file is ours, byte for byte."""
    key_files = make(curve)

    def snarkjs(*arguments: object) -> str:
        done = run_program("snarkjs", *map(str, arguments), directory=tmp_path)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    value = BEACON.value.hex()
    snarkjs("zkey", "beacon", key_files.init, "theirs.zkey", value, 10)
    add_beacon(key_files.init, tmp_path / "ours.zkey", BEACON)
    assert (tmp_path / "theirs.zkey").read_bytes() == (tmp_path / "ours.zkey").read_bytes()
    snarkjs("zkey", "contribute", key_files.last, "3.zkey", "-e=text", "--name=them")
    contribute(tmp_path / "3.zkey", tmp_path / "4.zkey", name="us")
    snarkjs("zkey", "beacon", "4.zkey", "5.zkey", value, 10, "-n=their end")
    add_beacon(tmp_path / "5.zkey", tmp_path / "6.zkey", BEACON)
    verified_key = key_files.verified(tmp_path / "6.zkey")
    assert [contribution.details.name for contribution, _ in verified_key.contributions] == [
        "alice", "the end", "them", "us", "their end", "",
    ]  # fmt: skip
    said = snarkjs("zkey", "verify", key_files.r1cs, key_files.ptau, "6.zkey")
    assert "ZKey Ok!" in said
    for _, digest in verified_key.contributions:
        assert digest.hex()[:8] in said


# --- what is refused

Sections = dict[int, bytearray]


def _tampered(path: Path, out: Path, change: Callable[[Sections], None]) -> Path:
    file = Iden3File.open(path, "zkey", 1)
    sections = {
        number: bytearray(file.data[place.offset : place.offset + place.length])
        for number, place in file.sections.items()
    }
    change(sections)
    write_iden3(out, "zkey", 1, [(number, [bytes(data)]) for number, data in sections.items()])
    return out


def _ceremony(sections: Sections, change: Callable[[Ceremony], Ceremony], path: Path) -> None:
    file = Iden3File.open(path, "zkey", 1)
    sections[10][:] = change(Ceremony.read(file, CURVES["bn254"])).data()


def _with(ceremony: Ceremony, number: int, **changed: Any) -> Ceremony:
    contributions = list(ceremony.contributions)
    contributions[number] = replace_frozen(contributions[number], **changed)
    return Ceremony(ceremony.curve, ceremony.circuit_hash, tuple(contributions))


def _swap(data: bytearray, size: int, first: int, second: int) -> None:
    a, b = (slice(place * size, (place + 1) * size) for place in (first, second))
    data[a], data[b] = bytes(data[b]), bytes(data[a])


def _generator_twice() -> bytes:
    """Another point of G1."""
    law = g1_group(CURVES["bn254"])
    return from_points(
        GROUPS["bn254.g1"], [law.multiply(2, CURVES["bn254"].g1.generator)]
    ).tobytes()


Change = Callable[[Sections], None]
_HEADER_END = 3 * 64 + 3 * 128


def _change(section: int, at: int, data: bytes) -> Change:
    def change(sections: Sections) -> None:
        start = at % len(sections[section])
        sections[section][start : start + len(data)] = data

    return change


def _flip(section: int, at: int) -> Change:
    """Change a byte, whatever it is."""

    def change(sections: Sections) -> None:
        sections[section][at] ^= 1

    return change


def _gamma_of_delta(sections: Sections) -> None:
    sections[2][-320:-192] = sections[2][-128:]


def _delta_of_gamma(sections: Sections) -> None:
    sections[2][-128:] = sections[2][-320:-192]


_INITIAL = "differs from the initial key's"
_DIVIDED = "is not the initial key's c, divided by delta"
POINTS: dict[str, tuple[Change, str]] = {
    "ic": (lambda s: _swap(s[3], 64, 0, 1), f"section 3 (ic) {_INITIAL} from byte 0 on"),
    "coefficients": (_flip(4, 4 + 44 + 12), f"section 4 (coefficients) {_INITIAL}"),
    "a": (lambda s: _swap(s[5], 64, 0, 3), f"section 5 (a) {_INITIAL}"),
    "b_g1": (lambda s: _swap(s[6], 64, 2, 3), f"section 6 (b_g1) {_INITIAL}"),
    "b_g2": (lambda s: _swap(s[7], 128, 2, 3), f"section 7 (b_g2) {_INITIAL}"),
    "c": (lambda s: _swap(s[8], 64, 0, 1), f"c {_DIVIDED}"),
    "h": (lambda s: _swap(s[9], 64, 30, 31), "h does not match the powers of tau, divided by"),
    "off the curve": (_flip(9, 64 * 5), "point 5 of h is not on the curve"),
    "alpha": (_change(2, -_HEADER_END, _generator_twice()), f"alpha_g1 {_INITIAL}"),
    "gamma": (_gamma_of_delta, f"gamma_g2 {_INITIAL}"),
    "delta": (_change(2, -192, _generator_twice()), "delta_g1 differs from that of contribution 2"),
    "delta in G2": (_delta_of_gamma, "delta_g2 and delta_g1 have different values of delta"),
    "circuit hash": (_flip(10, 0), "contribution 1 is not valid: its transcript"),
}


@pytest.mark.parametrize("name", POINTS)
def test_changed_keys(make: Callable[[str], Made], name: str, tmp_path: Path) -> None:
    """Each says what differs, and both ways say the same."""
    key_files = make("bn254")
    change, message = POINTS[name]
    said = key_files.refused(_tampered(key_files.last, tmp_path / "bad.zkey", change))
    assert message in said
    assert said.startswith("InputError" if "curve" in name else "VerificationError")


@pytest.mark.parametrize("number", [0, 1])
def test_unchained_contributions_are_rejected(
    make: Callable[[str], Made], number: int, tmp_path: Path
) -> None:
    """Contributions of another ceremony, with others' parts or beacon, repeated, and missing."""
    key_files = make("bn254")
    contribute(key_files.init, tmp_path / "other.zkey")
    other = Ceremony.read(Iden3File.open(tmp_path / "other.zkey", "zkey", 1), CURVES["bn254"])
    theirs = other.contributions[0]
    place = f"VerificationError {tmp_path}/bad.zkey: contribution {number + 1} is not valid: "

    def refused(change: Callable[[Ceremony], Ceremony]) -> str:
        path = _tampered(
            key_files.last, tmp_path / "bad.zkey", lambda s: _ceremony(s, change, key_files.last)
        )
        return key_files.refused(path)

    mine = Ceremony.read(Iden3File.open(key_files.last, "zkey", 1), CURVES["bn254"])
    contribution = mine.contributions[number]
    key = replace_frozen(contribution.key, g2_spx=theirs.key.g2_spx)
    assert refused(lambda all_: _with(all_, number, transcript=bytes(64))) == (
        place + "its transcript does not match the circuit and the contributions before it"
    )
    assert refused(lambda all_: _with(all_, number, key=key)) == (
        place + "its key is not a proof of knowledge: g1_sx and g2_spx have different secrets"
    )
    assert refused(lambda all_: _with(all_, number, delta_g1=theirs.delta_g1)) == (
        place + "its delta is not the previous delta times the secret of its key"
    )
    beacon = replace_frozen(contribution.details, beacon=Beacon(b"\x07", 10))
    assert refused(lambda all_: _with(all_, number, details=beacon)) == (
        place + "its key is not the one that its beacon determines"
    )
    if number == 1:
        assert "delta_g1 differs from that of contribution 1" in refused(
            lambda all_: Ceremony(all_.curve, all_.circuit_hash, all_.contributions[:1])
        )
        assert "nobody contributed to it" in refused(
            lambda all_: Ceremony(all_.curve, all_.circuit_hash, ())
        )
        place = place.replace("contribution 2", "contribution 1")
        assert refused(
            lambda all_: Ceremony(all_.curve, all_.circuit_hash, all_.contributions[::-1])
        ).startswith(place + "its transcript")


def test_small_subgroups(make: Callable[[str], Made], tmp_path: Path) -> None:
    """A point outside the group would tell of a secret: refused before one touches it, and by
    verification, where snarkjs takes it."""
    key_files = make("bls12_381")
    law = g1_group(CURVES["bls12_381"])
    roots = ((x, law.field.square_root(law.right_side(x))) for x in range(100))
    point = next((x, y) for x, y in roots if y is not None and not law.in_subgroup((x, y)))
    stray = from_points(GROUPS["bls12_381.g1"], [point]).tobytes()
    bad = _tampered(key_files.last, tmp_path / "bad.zkey", _change(9, 96 * 3, stray))
    message = "point 3 of h is not in the subgroup of prime order"
    assert message in key_files.refused(bad)
    with pytest.raises(InputError, match=message):
        contribute(bad, tmp_path / "out.zkey")
    assert not (tmp_path / "out.zkey").exists()


@pytest.mark.parametrize("curve", ["bn254", "bls12_381"])
@pytest.mark.parametrize("degree", [1, 2])
def test_delta_points_are_validated(
    make: Callable[[str], Made], curve: str, degree: int, tmp_path: Path
) -> None:
    """Deltas are checked before a pairing and before a secret is applied."""
    key_files = make(curve)
    group = GROUPS[f"{curve}.g{degree}"]
    at, size = (-6, 2) if degree == 1 else (-4, 4)
    at, size = at * CURVES[curve].fq.bytes, size * CURVES[curve].fq.bytes
    off = bytearray(Iden3File.open(key_files.last, "zkey", 1).section(2, "").rest()[at:][:size])
    off[0] ^= 1
    cases = {"is not on the curve": bytes(off), "is the point at infinity": bytes(size)}
    if group.name != "bn254.g1":
        stray = point_outside_the_subgroup(affine_group(group))
        cases["is not in the subgroup"] = from_points(group, [stray]).tobytes()
    for why, data in cases.items():
        bad = _tampered(key_files.last, tmp_path / "bad.zkey", _change(2, at, data))
        said = key_files.refused(bad)
        assert said.startswith("InputError")
        assert f"delta_g{degree} {why}" in said
        with pytest.raises(InputError, match=f"delta_g{degree} {why}"):
            contribute(bad, tmp_path / "out.zkey")
    assert not (tmp_path / "out.zkey").exists()


@pytest.mark.parametrize("difference", [-1, 1])
def test_changed_coefficient_counts_are_rejected(
    make: Callable[[str], Made], difference: int, tmp_path: Path
) -> None:
    key_files = make("bn254")

    def change(sections: Sections) -> None:
        section = sections[4]
        count = int.from_bytes(section[:4], "little") + difference
        section[:4] = count.to_bytes(4, "little")
        section[4:] = section[4:-44] if difference < 0 else section[4:] + section[-44:]

    said = key_files.refused(_tampered(key_files.last, tmp_path / "bad.zkey", change))
    assert f"section 4 (coefficients) {_INITIAL} from byte 0 on" in said


def test_transcripts_are_hashed_once(make: Callable[[str], Made]) -> None:
    """Each contribution goes into the hash of all after it, without being hashed for each anew."""
    key_files = make("bn254")
    ceremony = Ceremony.read(Iden3File.open(key_files.last, "zkey", 1), CURVES["bn254"])
    hashed: list[object] = []

    class Counted(KeyContribution):
        def public_bytes(self, curve: PairingCurve) -> bytes:
            hashed.append(self)
            return super().public_bytes(curve)

    first, second = (Counted(**fields_of(contribution)) for contribution in ceremony.contributions)
    many = Ceremony(ceremony.curve, ceremony.circuit_hash, (first, second) * 20)
    digests = list(many.digests())
    assert len(digests) == 41
    assert len(hashed) == 40
    public = [contribution.public_bytes(ceremony.curve) for contribution in (first, second)]
    for number in (0, 1, 2, 5):
        before = [ceremony.circuit_hash, *(public * 20)[:number]]
        for points in (b"points", b"others"):
            assert digests[number](points) == blake2b(*before, points)
    assert many.digest()(b"") == digests[-1](b"")


def test_input_changed_while_reading_is_rejected(
    make: Callable[[str], Made], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files are read more than once; a contribution to a changed file is discarded."""
    key_files = make("bn254")
    for name, path in (
        ("init", key_files.init),
        ("ptau", key_files.ptau),
        ("zkey", key_files.last),
    ):
        (tmp_path / name).write_bytes(path.read_bytes())
    init, ptau, zkey = (tmp_path / name for name in ("init", "ptau", "zkey"))
    kept, touched = ratio.same_ratio, [zkey]

    def touching(*arguments: Any) -> bool:
        os.utime(touched[0], ns=(1, touched[0].stat().st_mtime_ns + 1))
        return kept(*arguments)

    monkeypatch.setattr(verification, "same_ratio", touching)
    for path in (zkey, ptau, init):
        touched[0] = path
        with pytest.raises(InputError, match="has changed since it was opened"):
            verify_from_init(init, ptau, zkey)
        if path != init:
            with pytest.raises(InputError, match="has changed since it was opened"):
                verify_from_r1cs(key_files.r1cs, ptau, zkey)
    multiply = multiples.secret_multiples

    def multiplied(*arguments: Any) -> Any:
        os.utime(zkey, ns=(1, zkey.stat().st_mtime_ns + 1))
        return multiply(*arguments)

    monkeypatch.setattr(contributing, "secret_multiples", multiplied)
    with pytest.raises(InputError, match="has changed since it was opened"):
        contribute(zkey, tmp_path / "out.zkey")
    assert not (tmp_path / "out.zkey").exists()


def test_contribution_overwrites_its_own_key(make: Callable[[str], Made], tmp_path: Path) -> None:
    key_files = make("bn254")
    path = tmp_path / "own.zkey"
    path.write_bytes(key_files.init.read_bytes())
    receipt = contribute(path, path, replace=True)
    assert key_files.verified(path).contributions[0][1] == receipt.contribution_hash


def test_keys_of_other_circuits_or_powers_are_rejected(
    make: Callable[[str], Made], tmp_path: Path
) -> None:
    key_files, other = make("bn254"), make("bls12_381")
    small = mixed("bn254", 20).write_r1cs(tmp_path / "small.r1cs")
    with pytest.raises(VerificationError, match=r"is for another circuit than .*small.r1cs"):
        verify_from_r1cs(small, key_files.ptau, key_files.last)
    with pytest.raises(MismatchError, match="over bn254"):
        verify_from_r1cs(other.r1cs, other.ptau, key_files.last)
    with pytest.raises(MismatchError, match="over bn254"):
        verify_from_init(other.init, other.ptau, key_files.last)
    with pytest.raises(InputError, match="has contributions; use the key before"):
        verify_from_init(key_files.last, key_files.ptau, key_files.last)


def test_h_is_checked_against_the_powers(make: Callable[[str], Made], tmp_path: Path) -> None:
    """Two keys from powers of another tau may agree with each other."""
    key_files = make("bn254")
    file = PowersOfTau.open(key_files.ptau).file
    sections = {
        number: bytearray(file.data[place.offset : place.offset + place.length])
        for number, place in file.sections.items()
    }
    _swap(sections[2], 64, 40, 41)
    bad = tmp_path / "bad.ptau"
    write_iden3(bad, "ptau", 1, [(number, [bytes(data)]) for number, data in sections.items()])
    with pytest.raises(VerificationError, match="h does not match the powers of tau, divided"):
        verify_from_init(key_files.init, bad, key_files.last)


# --- secrets


def test_interruption_leaves_no_file_or_secret(
    make: Callable[[str], Made], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An interrupt during the multiplication leaves no file, and all secrets are zeros."""
    key_files, secrets = make("bn254"), []
    draw, invert = Secret.drawn.__func__, Secret.inverse  # type: ignore[attr-defined]

    def drawn(*arguments: Any) -> Secret:
        secrets.append(draw(Secret, *arguments))
        return secrets[-1]

    def inverse(self: Secret) -> Secret:
        secrets.append(invert(self))
        return secrets[-1]

    def stop(*_: Any) -> None:
        assert all(secret.words.any() for secret in secrets)
        raise KeyboardInterrupt

    monkeypatch.setattr(Secret, "drawn", drawn)
    monkeypatch.setattr(Secret, "inverse", inverse)
    monkeypatch.setattr(contributing, "secret_multiples", stop)
    with pytest.raises(KeyboardInterrupt):
        contribute(key_files.init, tmp_path / "out.zkey")
    assert len(secrets) == 2
    assert not any(secret.words.any() for secret in secrets)
    assert list(tmp_path.iterdir()) == []


def test_unwritable_target_is_reported(make: Callable[[str], Made], tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="directory"):
        contribute(make("bn254").init, tmp_path / "missing" / "out.zkey")
    with pytest.raises(InputError, match="at most 255 bytes"):
        contribute(make("bn254").init, tmp_path / "out.zkey", name="x" * 256)
    with pytest.raises(InputError, match="is not a zkey file"):
        contribute(make("bn254").ptau, tmp_path / "out.zkey")
    assert list(tmp_path.iterdir()) == []

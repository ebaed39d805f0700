"""Powers of tau: creation, contribution and verification, with snarkjs files and forgeries."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from quod.ceremony import Beacon, add_beacon, contribute, new_powers, verify
from quod.ceremony.details import Details
from quod.ceremony.powers import update as contributing
from quod.ceremony.powers.contribution import Contribution, contributions_data, read_contributions
from quod.ceremony.powers.ptau_layout import SECTIONS, header_data
from quod.ceremony.secret import Secret
from quod.cli import entry
from quod.curve.array import from_points
from quod.curve.groups import GROUPS
from quod.curve.named import CURVES
from quod.curve.weierstrass.affine import g1_group
from quod.errors import InputError, OutputError, VerificationError
from quod.formats.iden3 import Iden3File, write_iden3
from quod.formats.ptau import PowersOfTau
from quod.frozen import replace
from tests.ceremony.ceremonies import PTAU, RESPONSES
from tests.support.node import run_program

FIRST = {
    # What snarkjs 0.7.6 printed for powers of 4 and of 3.
    ("bn254", 4): "2054432085403180e1678602c83562f1",
    ("bls12_381", 3): "22691f7f7ed9a36b2c8774d331c3f256",
}
NODE_NAMES = {"bn254": "bn128", "bls12_381": "bls12-381"}


@pytest.mark.parametrize(("curve", "power"), FIRST)
def test_new_powers_match_the_snarkjs_challenge(curve: str, power: int, tmp_path: Path) -> None:
    path = tmp_path / "new.ptau"
    challenge = new_powers(curve, power, path)
    assert challenge.hex()[:32] == FIRST[curve, power]
    file = PowersOfTau.open(path)
    assert (file.curve, file.power, file.ceremony_power) == (curve, power, power)
    assert not file.prepared
    assert read_contributions(file) == []
    with pytest.raises(VerificationError, match="nobody contributed"):
        verify(path)


@pytest.mark.parametrize("name", sorted(PTAU))
def test_snarkjs_powers_verify(name: str) -> None:
    verified = verify(PTAU[name])
    assert verified.curve == name
    assert [response.hex() for _, response in verified.contributions] == list(RESPONSES[name])


@pytest.mark.parametrize("curve", sorted(PTAU))
def test_contributions_verify_and_change_all_points(curve: str, tmp_path: Path) -> None:
    contributed = tmp_path / "made.ptau"
    receipt = contribute(PTAU[curve], contributed, name="ours", text="some text")
    assert receipt.number == 3
    verified = verify(contributed)
    assert verified.contributions[2][1] == receipt.response_hash
    assert verified.next_challenge == receipt.next_challenge
    assert verified.contributions[2][0].details == Details("ours")
    before, after = PowersOfTau.open(PTAU[curve]), PowersOfTau.open(contributed)
    for section in SECTIONS:
        same = (section.points(before) == section.points(after)).all(axis=(1, 2))
        # Of powers of tau the generator stays.
        assert same.reshape(len(same), -1).all(axis=1).sum() == (0 if section.first else 1)


def test_contribution_equals_powers_of_its_secrets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fr = CURVES["bn254"].fr
    numbers = [11, 13, 17]
    sequence = iter(numbers)
    monkeypatch.setattr(
        Secret, "drawn", classmethod(lambda cls, *_: Secret.of_public(fr, next(sequence)))
    )
    new_powers("bn254", 2, tmp_path / "0.ptau")
    contribute(tmp_path / "0.ptau", tmp_path / "1.ptau")
    file = PowersOfTau.open(tmp_path / "1.ptau")
    law, group = g1_group(CURVES["bn254"]), GROUPS["bn254.g1"]
    for points, first in ((file.tau_g1, 1), (file.alpha_tau_g1, 13), (file.beta_tau_g1, 17)):
        expected = [law.multiply(first * 11**i, law.generator) for i in range(len(points))]
        assert np.array_equal(points, from_points(group, expected))


def test_a_beacon_is_added(tmp_path: Path) -> None:
    for name, path in PTAU.items():
        file = PowersOfTau.open(path)
        last = read_contributions(file)[1]
        assert last.details.beacon is not None
        out = tmp_path / f"{name}.ptau"
        add_beacon(path, out, last.details.beacon, name="again")
        again = read_contributions(PowersOfTau.open(out))[2]
        assert again.details == Details("again", last.details.beacon)
        verify(out)


@pytest.mark.thorough
@pytest.mark.node
@pytest.mark.parametrize("curve", ["bn254", pytest.param("bls12_381", marks=pytest.mark.thorough)])
def test_quod_and_snarkjs_contributions_interoperate(curve: str, tmp_path: Path) -> None:
    """snarkjs's new, our contribution, snarkjs's, our beacon: each verifies what the other made."""

    def snarkjs(*arguments: str) -> str:
        done = run_program("snarkjs", "powersoftau", *arguments, directory=tmp_path)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    snarkjs("new", NODE_NAMES[curve], "3", "0.ptau")
    new_powers(curve, 3, tmp_path / "own.ptau")
    assert (tmp_path / "own.ptau").read_bytes() == (tmp_path / "0.ptau").read_bytes()
    ours = contribute(tmp_path / "0.ptau", tmp_path / "1.ptau", name="one")
    snarkjs("contribute", "1.ptau", "2.ptau", "--name=two", "-e=text")
    add_beacon(tmp_path / "2.ptau", tmp_path / "3.ptau", Beacon(b"\1\2\3", 10), name="three")
    snarkjs("beacon", "2.ptau", "theirs.ptau", "010203", "10", "-n=three")
    shown = snarkjs("verify", "3.ptau", "-v")
    assert "Powers of Tau Ok!" in shown
    verified = verify(tmp_path / "3.ptau")
    assert verified.contributions[0][1] == ours.response_hash
    for _, response in verified.contributions:
        text = response.hex()
        assert all(text[at : at + 8] in shown for at in range(0, len(text), 8))
    # Secrets of a beacon leave nothing to choose.
    mine, other = (PowersOfTau.open(tmp_path / f"{name}.ptau") for name in ("3", "theirs"))
    for section in SECTIONS:
        assert np.array_equal(section.points(mine), section.points(other))
    assert verify(tmp_path / "theirs.ptau").next_challenge == verified.next_challenge


Change = Callable[[list[Contribution]], list[Contribution]]


def _rewritten(source: Path, target: Path, contributions: Change = list, **sections: bytes) -> Path:
    """A file with other contributions and other bytes in sections that are named."""
    file = PowersOfTau.open(source)
    curve = file.curve_parameters
    parts: list[tuple[int, list[bytes]]] = [
        (1, [sections.get("header", header_data(curve, file.power, file.ceremony_power))])
    ]
    for section in SECTIONS:
        points = sections.get(section.name, section.points(file).tobytes())
        parts.append((section.id, [points]))
    parts.append((7, [contributions_data(curve, contributions(read_contributions(file)))]))
    write_iden3(target, "ptau", 1, parts)
    return target


def _with_results(**results: object) -> Change:
    return lambda contributions: [
        contributions[0],
        replace(contributions[1], results=replace(contributions[1].results, **results)),
    ]


def _swapped_key(number: int) -> Change:
    def change(contributions: list[Contribution]) -> list[Contribution]:
        keys = list(contributions[1].keys)
        keys[number] = contributions[0].keys[number]
        return [contributions[0], replace(contributions[1], keys=tuple(keys))]

    return change


_G1, _G2 = CURVES["bn254"].g1.generator, CURVES["bn254"].g2.generator
_FORGED: dict[str, tuple[Change, str]] = {
    "the first left out": (
        lambda contributions: contributions[1:],
        "contribution 1: its key of tau",
    ),
    "the last left out": (
        lambda contributions: contributions[:1],
        "contribution 1: tau_g1 of the file",
    ),
    "turned round": (lambda contributions: contributions[::-1], "contribution 1: its key of tau"),
    "tau of another": (_swapped_key(0), "contribution 2: its key of tau"),
    "beta of another": (_swapped_key(2), "contribution 2: its key of beta"),
    "another tau_g1": (_with_results(tau_g1=_G1), "contribution 2: its tau_g1"),
    "another tau_g2": (_with_results(tau_g2=_G2), "contribution 2: its tau_g2"),
    "another alpha": (_with_results(alpha_g1=_G1), "contribution 2: its alpha_g1"),
    "another beta": (_with_results(beta_g1=_G1), "contribution 2: its beta_g1"),
    "another beta_g2": (_with_results(beta_g2=_G2), "contribution 2: its beta_g2"),
    "another challenge": (
        lambda contributions: [
            replace(contributions[0], next_challenge=bytes(64)),
            contributions[1],
        ],
        "contribution 2: its key of tau",
    ),
    "another last challenge": (
        lambda contributions: [
            contributions[0],
            replace(contributions[1], next_challenge=bytes(64)),
        ],
        "contribution 2: its next challenge",
    ),
    "another hash": (
        lambda contributions: [
            contributions[0],
            replace(contributions[1], hash_state=contributions[0].hash_state),
        ],
        "contribution 2: the hash of its response",
    ),
    "another beacon": (
        lambda chain: [chain[0], replace(chain[1], details=Details("", Beacon(b"\1", 10)))],
        "contribution 2: its keys are not those that its beacon determines",
    ),
}


@pytest.mark.parametrize("what", _FORGED)
def test_unchained_contributions_are_rejected(what: str, tmp_path: Path) -> None:
    change, message = _FORGED[what]
    path = _rewritten(PTAU["bn254"], tmp_path / "forged.ptau", change)
    with pytest.raises(VerificationError, match=message) as refused:
        verify(path)
    assert str(path) in str(refused.value)


def test_a_secret_of_one_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fr = CURVES["bn254"].fr
    new_powers("bn254", 2, tmp_path / "0.ptau")
    for number, message in ((1, "its tau is 1 or -1"), (fr.value - 1, "its tau is 1 or -1")):
        monkeypatch.setattr(
            Secret, "drawn", classmethod(lambda cls, *_, n=number: Secret.of_public(fr, n))
        )
        contribute(tmp_path / "0.ptau", tmp_path / "1.ptau", replace=True)
        with pytest.raises(VerificationError, match=message):
            verify(tmp_path / "1.ptau")
    root = pow(5, (fr.value - 1) >> 2, fr.value)
    monkeypatch.setattr(Secret, "drawn", classmethod(lambda cls, *_: Secret.of_public(fr, root)))
    contribute(tmp_path / "0.ptau", tmp_path / "1.ptau", replace=True)
    with pytest.raises(VerificationError, match=r"tau\*\*\(2\*\*2\) is 1"):
        verify(tmp_path / "1.ptau")


@pytest.mark.parametrize("section", [section.name for section in SECTIONS if not section.single])
def test_points_that_are_not_powers_are_rejected(section: str, tmp_path: Path) -> None:
    file = PowersOfTau.open(PTAU["bn254"])
    points = np.array(getattr(file, section))
    points[[5, 6]] = points[[6, 5]]
    path = _rewritten(PTAU["bn254"], tmp_path / "x.ptau", **{section: points.tobytes()})
    with pytest.raises(VerificationError, match=f"{section}: its points are not powers"):
        verify(path)


@pytest.mark.parametrize("what", ["off the curve", "outside", "infinity"])
def test_points_outside_their_group_are_named(what: str, tmp_path: Path) -> None:
    file = PowersOfTau.open(PTAU["bls12_381"])
    points = np.array(file.alpha_tau_g1)
    law = g1_group(CURVES["bls12_381"])
    if what == "outside":
        roots = ((x, law.field.square_root(law.right_side(x))) for x in range(1, 99))
        small = next((x, y) for x, y in roots if y is not None and not law.in_subgroup((x, y)))
        points[3] = from_points(GROUPS["bls12_381.g1"], [small])[0]
    elif what == "infinity":
        points[3] = 0
    else:
        points[3, 0, 0] ^= 1
    path = _rewritten(PTAU["bls12_381"], tmp_path / "x.ptau", alpha_tau_g1=points.tobytes())
    offset = Iden3File.open(path, "ptau", 1).sections[4].offset + 3 * points[0].nbytes
    calls = [lambda: verify(path)]
    if what != "infinity":
        calls.append(lambda: contribute(path, tmp_path / "y.ptau"))
    for call in calls:
        with pytest.raises(InputError, match="point 3 of alpha_tau_g1") as refused:
            call()
        assert refused.value.section == "4 (alpha_tau_g1)"
        assert refused.value.offset == offset
    assert not (tmp_path / "y.ptau").exists()


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, MemoryError])
def test_interrupted_contribution_leaves_no_file_or_secret(
    error: type[BaseException], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[Secret] = []
    powers: list[np.ndarray] = []
    original = vars(Secret)["drawn"].__func__

    def keep(cls: type[Secret], *arguments: object) -> Secret:
        drawn.append(original(cls, *arguments))
        return drawn[-1]

    def fail(_device: object, _group: object, _points: object, scalars: np.ndarray) -> None:
        powers.append(scalars)
        assert scalars.any()
        raise error

    monkeypatch.setattr(Secret, "drawn", classmethod(keep))
    monkeypatch.setattr(contributing, "secret_multiples", fail)
    with pytest.raises(error):
        contribute(PTAU["bn254"], tmp_path / "x.ptau")
    assert os.listdir(tmp_path) == []
    assert len(drawn) == 3
    assert not any(secret.words.any() for secret in drawn)
    assert not powers[0].any()


def test_invalid_name_writes_no_file(tmp_path: Path) -> None:
    with pytest.raises(InputError):
        contribute(PTAU["bn254"], tmp_path / "x.ptau", name="\ud800")
    assert os.listdir(tmp_path) == []


def test_invalid_files_reject_contributions(tmp_path: Path) -> None:
    header = header_data(CURVES["bn254"], 4, 5)
    path = _rewritten(PTAU["bn254"], tmp_path / "cut.ptau", header=header)
    with pytest.raises(InputError, match="of the 2\\*\\*5 powers"):
        contribute(path, tmp_path / "x.ptau")
    with pytest.raises(OutputError):
        contribute(PTAU["bn254"], tmp_path / "no" / "x.ptau")
    data = PTAU["bn254"].read_bytes()
    (tmp_path / "short.ptau").write_bytes(data[:-100])
    with pytest.raises(InputError, match="truncated"):
        contribute(tmp_path / "short.ptau", tmp_path / "x.ptau")


def test_the_largest_powers_are_laid_out_and_opened(tmp_path: Path) -> None:
    """2**28 powers take 145 GB: the test opens a sparse file of that size."""
    curve, power = CURVES["bn254"], 28
    path = tmp_path / "large.ptau"
    with path.open("wb") as file:
        file.write(b"ptau" + (1).to_bytes(4, "little") + (7).to_bytes(4, "little"))
        header = header_data(curve, power, power)
        for identifier, size, data in (
            (1, len(header), header),
            *((section.id, section.nbytes(curve, power), b"") for section in SECTIONS),
            (7, 4, bytes(4)),
        ):
            file.write(identifier.to_bytes(4, "little") + size.to_bytes(8, "little") + data)
            file.seek(size - len(data), os.SEEK_CUR)
        file.truncate()
    opened = PowersOfTau.open(path)
    assert opened.size > 85 * 10**9
    assert len(opened.tau_g1) == (1 << 29) - 1
    with pytest.raises(VerificationError, match="nobody contributed"):
        verify(path)


def test_the_commands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    start = ["powersoftau"]
    assert entry.run([*start, "new", "bn128", "2", "0.ptau"]) == 0
    assert "First challenge: " in capsys.readouterr().out
    assert entry.run([*start, "verify", "0.ptau"]) == 6
    assert "nobody contributed" in capsys.readouterr().err
    assert entry.run([*start, "contribute", "0.ptau", "1.ptau", "--name", "a", "-e", "x"]) == 0
    said = capsys.readouterr().out
    assert said.startswith("Contribution 1: ")
    assert entry.run([*start, "beacon", "1.ptau", "2.ptau", "0a0b", "10", "-q"]) == 0
    capsys.readouterr()
    assert entry.run([*start, "verify", "2.ptau", "-q"]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert shown[0] == "1 contribution a: " + said.splitlines()[0].removeprefix("Contribution 1: ")
    assert shown[1].startswith("2 beacon without a name: ")
    assert shown[2].startswith("Names are not authenticated")
    assert shown[3].startswith("All hashes but the last one are unverified")
    assert shown[4] == "OK: 2**2 powers of bn254, 2 contributions."
    assert entry.run([*start, "verify", "2.ptau", "--json"]) == 0
    contributions = json.loads(capsys.readouterr().out)["contributions"]
    assert [contribution["beacon"] for contribution in contributions] == [False, True]
    assert [contribution["name_authenticated"] for contribution in contributions] == [False, False]
    for words, code in (
        (["new", "bn254", "29", "x.ptau"], 3),
        (["new", "curve25519", "3", "x.ptau"], 3),
        (["beacon", "1.ptau", "x.ptau", "zz", "10"], 3),
        (["beacon", "1.ptau", "x.ptau", "00", "9"], 3),
        (["contribute", "1.ptau", "x.ptau", "--name", "é" * 200], 3),
        (["contribute", "1.ptau", "1.ptau"], 2),
        (["contribute", "1.ptau", "none/x.ptau"], 5),
        (["verify", "none.ptau"], 3),
    ):
        assert entry.run([*start, *words]) == code, words
        assert not (tmp_path / "x.ptau").exists()

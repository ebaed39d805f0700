"""quod zcash: proofs from JSON to JSON, secrets in private files, verification, exit codes."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from quod.bench.proofs.zcash import info_of
from quod.cli import entry
from quod.zcash.files.infos import read_output_info
from quod.zcash.proofs.infos import OutputInfo
from quod.zcash.proofs.kinds import KINDS, SAPLING_OUTPUT
from quod.zcash.proofs.parameters import make_test_parameters
from quod.zcash.scalars import decode_scalar, encode_scalar
from tests.cli.json_files import read, write
from tests.zcash.files.test_infos import json_of, note_json

Captured = pytest.CaptureFixture[str]
TEST_KEY = "--insecure-test-key"


@pytest.fixture(scope="module")
def output_key(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return INSECURE parameters of Sapling's Output."""
    path = tmp_path_factory.mktemp("parameters") / "output.params"
    make_test_parameters(SAPLING_OUTPUT, path, seed=1)
    return str(path)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def without_secrets() -> dict[str, Any]:
    """Return the note of an Output without esk and rcv."""
    info = info_of("sapling-output")
    assert isinstance(info, OutputInfo)
    return note_json(info.note)


def test_an_output_from_a_note(folder: Path, output_key: str, capsys: Captured) -> None:
    note = write("note.json", without_secrets())
    prove = ["zcash", "prove-output", output_key, note, "o.json", TEST_KEY]
    assert entry.run(prove) == 3
    assert "has no esk and rcv, which the command would generate" in capsys.readouterr().err
    assert not Path("o.json").exists()
    assert entry.run([*prove, "--secrets", "s.json", "--timings"]) == 0
    said = capsys.readouterr().err
    assert "anyone can forge proofs" in said
    assert "witness" in said
    assert stat.S_IMODE(Path("s.json").stat().st_mode) == 0o600
    secrets, output = read("s.json"), read("o.json")
    assert secrets.keys() == {"esk", "rcv"}
    assert output.keys() == {"cv", "epk", "cmu", "proof"}
    # The file of secrets completes the note, and gives the same statement.
    info = read_output_info(Path(write("full.json", without_secrets() | secrets))).info
    assert isinstance(info, OutputInfo)
    assert [part.hex() for part in info.statement.to_bytes()] == [
        output[name] for name in ("cv", "epk", "cmu")
    ]
    assert info.rcv == decode_scalar("rcv", bytes.fromhex(secrets["rcv"]))
    # Secrets are not replaced; without new ones no file is needed.
    assert entry.run([*prove, "--secrets", "s.json"]) == 5
    assert read("s.json") == secrets
    assert entry.run([*prove, "--secrets", "s.json", "--force", "-q"]) == 0
    assert read("s.json") != secrets
    complete = [*prove[:3], "full.json", "o2.json", TEST_KEY, "-q"]
    assert entry.run(complete) == 0
    assert read("o2.json") | {"proof": ""} == output | {"proof": ""}
    capsys.readouterr()
    assert entry.run(["zcash", "verify", "o2.json", "--output", output_key, TEST_KEY]) == 0
    assert "the proof is valid" in capsys.readouterr().out


def test_notes_that_no_output_can_have(folder: Path, output_key: str, capsys: Captured) -> None:
    for change, message in (
        ({"esk": encode_scalar(0).hex()}, "n.json, section esk: esk must be a scalar from 1"),
        ({"value": 0, "rcv": encode_scalar(0).hex()}, "n.json: cv is a point of small order"),
    ):
        note = write("n.json", json_of("sapling-output")[0] | change)
        assert entry.run(["zcash", "prove-output", output_key, note, "o.json", TEST_KEY]) == 3
        assert message in capsys.readouterr().err
        assert os.listdir() == ["n.json"]


def test_lists_are_verified_as_a_batch(folder: Path, output_key: str, capsys: Captured) -> None:
    note = write("note.json", json_of("sapling-output")[0])
    assert entry.run(["zcash", "prove-output", output_key, note, "o.json", TEST_KEY, "-q"]) == 0
    output = read("o.json")
    verify = ["zcash", "verify", "all.json", "--output", output_key, TEST_KEY]
    for document in ([output, output], {"outputs": [output | {"other": 1}], "spends": []}):
        write("all.json", document)
        assert entry.run(verify) == 0
    assert "all 2 proofs are valid" in capsys.readouterr().out
    # Another statement, a point of small order, a malformed proof, no description.
    changed = [
        output | {"cmu": "01" + "00" * 31}, output, output | {"epk": "01" + "00" * 31},
        output | {"proof": "ff" * 192}, {"cv": output["cv"]}, 5,
    ]  # fmt: skip
    write("all.json", {"outputs": changed})
    assert entry.run(verify) == 6
    said = capsys.readouterr().err
    assert "5 of 6 descriptions are not valid" in said
    assert "(outputs[0], outputs[2], outputs[3], outputs[4], outputs[5])" in said
    assert "outputs[2] is malformed: epk is a point of small order" in said
    assert "outputs[4] is malformed: a description must have the fields cv, epk, cmu, proof" in said
    # Nothing beside the lists is left out.
    for other in (changed[0], {"Outputs": [changed[0]]}, {"spend": [changed[0]]}):
        write("all.json", {**other, "outputs": [output]})
        assert entry.run(verify) == 3
        assert "is an unknown field: an object with spends, outputs" in capsys.readouterr().err
    # A signature outside a bundle is not verified, and the command says so.
    for document, name in (
        (output | {"spendAuthSig": "00" * 64}, ""), ([output, output | {"spendAuthSig": 1}], "[1].")
    ):  # fmt: skip
        write("all.json", document)
        assert entry.run(verify) == 0
        assert f"not verified: {name}spendAuthSig; add sighash" in capsys.readouterr().err
    # Alone, a false statement is invalid, and a malformed one bad input.
    write("all.json", changed[0])
    assert entry.run(verify) == 6
    write("all.json", changed[2])
    assert entry.run(verify) == 3
    assert "all.json: epk is a point of small order" in capsys.readouterr().err
    for document, message in (
        ([], "has no descriptions"), (5, "must be a description"), ({"spends": 5}, "spends"),
    ):  # fmt: skip
        write("all.json", document)
        assert entry.run(verify) == 3
        assert message in capsys.readouterr().err


def test_keys_of_verify(folder: Path, output_key: str, capsys: Captured) -> None:
    note = write("note.json", json_of("sapling-output")[0])
    assert entry.run(["zcash", "prove-output", output_key, note, "o.json", TEST_KEY, "-q"]) == 0
    # Without a file, the key is the ceremony's, for which this proof is not valid.
    assert entry.run(["zcash", "verify", "o.json"]) == 6
    assert entry.run(["zcash", "verify", "o.json", "--output", output_key]) == 9
    assert entry.run(["zcash", "verify", "o.json", "--masp"]) == 2
    assert "--output must name the parameters of an Output" in capsys.readouterr().err
    # The file of an option is read, even if no description needs its key.
    for path, message in (
        ("none.params", "does not exist"), (".", "is not a regular file"), ("/dev/null", "is not a")
    ):  # fmt: skip
        for verify in ("o.json", "none.json"):
            command = ["zcash", "verify", verify, "--output", output_key, TEST_KEY, "--convert"]
            assert entry.run([*command, path]) == 3
            assert f"--convert: {path}: {message}" in capsys.readouterr().err
    write(
        "c.json", {name: read("o.json")[name] for name in ("cv", "proof")} | {"anchor": "00" * 32}
    )
    assert entry.run(["zcash", "verify", "c.json"]) == 2
    assert "Sapling has no Converts; add --masp" in capsys.readouterr().err


def test_wrong_files_are_refused_before_work(
    folder: Path, output_key: str, capsys: Captured
) -> None:
    spend = write("spend.json", json_of("sapling-spend")[0])
    assert entry.run(["zcash", "prove-spend", output_key, spend, "s.json"]) == 9
    assert entry.run(["zcash", "prove-spend", output_key, spend, "s.json", TEST_KEY]) == 4
    assert entry.run(["zcash", "prove-spend", output_key, spend, spend, TEST_KEY]) == 2
    assert entry.run(["zcash", "prove-spend", spend, spend, "s.json"]) == 3
    write("spend.json", read("spend.json") | {"nsk": "00"})
    capsys.readouterr()
    assert entry.run(["zcash", "prove-spend", output_key, spend, "s.json"]) == 3
    assert "spend.json, section nsk: nsk must be 32 bytes, not 1" in capsys.readouterr().err
    assert not Path("s.json").exists()


@pytest.mark.fixtures
def test_an_output_under_the_ceremony_s_key(
    folder: Path, shared_fixtures: Path, capsys: Captured
) -> None:
    parameters = str(shared_fixtures / "zcash" / "sapling-output.params")
    note = write("note.json", without_secrets())
    command = ["zcash", "prove-output", parameters, note, "o.json", "--secrets", "s.json"]
    assert entry.run(command) == 0
    assert "forge" not in capsys.readouterr().err
    chain = read(str(shared_fixtures / "zcash/mainnet_sapling_outputs.json"))
    write("all.json", [*chain, read("o.json")])
    assert entry.run(["zcash", "verify", "all.json"]) == 0
    assert entry.run(["zcash", "verify", "all.json", "--output", parameters]) == 0
    assert entry.run(["zcash", "verify", "all.json", "--spend", parameters]) == 0
    rows = read(str(shared_fixtures / "zcash/mainnet_sapling_spends.json"))
    spends = [row | {"proof": row["zkproof"]} for row in rows]
    write("all.json", {"spends": spends, "outputs": chain})
    capsys.readouterr()
    assert entry.run(["zcash", "verify", "all.json"]) == 0
    assert f"all {len(spends) + len(chain)} proofs are valid" in capsys.readouterr().out
    spends[3]["anchor"] = spends[0]["anchor"]
    write("all.json", {"spends": spends, "outputs": chain})
    assert entry.run(["zcash", "verify", "all.json"]) == 6
    assert "(spends[3])" in capsys.readouterr().err


@pytest.mark.thorough
@pytest.mark.parametrize("name", KINDS)
def test_commands_of_each_kind(folder: Path, name: str, capsys: Captured) -> None:
    kind, action = KINDS[name], name.partition("-")[2]
    make_test_parameters(kind, "p.params", seed=1)
    document, _ = json_of(name)
    source = write("in.json", document)
    prove = ["zcash", f"prove-{action}", "p.params", source, "out.json", TEST_KEY]
    assert entry.run(prove) == 0
    verify = ["zcash", "verify", "out.json", f"--{action}", "p.params", TEST_KEY]
    assert entry.run([*verify, *(["--masp"] if kind.protocol.has_assets else [])]) == 0
    statement = info_of(name).statement
    assert [read("out.json")[field] for field in statement.fields] == [
        part.hex() for part in statement.to_bytes()
    ]
    circuit = ["zcash", "circuit", name, "c.r1cs", "--inputs", source, "--witness", "w.wtns", "-q"]
    assert entry.run(circuit) == 0
    assert entry.run(["wtns", "check", "c.r1cs", "w.wtns"]) == 0
    assert stat.S_IMODE(Path("w.wtns").stat().st_mode) == 0o600
    write("in.json", {key: document[key] for key in document if key != "rcv"})
    capsys.readouterr()
    assert entry.run(circuit) == 3
    assert "lacks rcv" in capsys.readouterr().err


def test_wrong_words_of_circuit(folder: Path, capsys: Captured) -> None:
    note = write("note.json", json_of("sapling-output")[0] | {"rcv": encode_scalar(5).hex()})
    for words, code in (
        (["sapling-mint", "c.r1cs"], 2),
        (["sapling-output", "c.r1cs", "--inputs", note], 2),
        (["sapling-output", note, "--inputs", note, "--witness", "w.wtns"], 2),
        (["masp-output", "c.r1cs", "--inputs", note, "--witness", "w.wtns"], 4),
        (["sapling-spend", "c.r1cs", "--inputs", note, "--witness", "w.wtns"], 3),
    ):
        assert entry.run(["zcash", "circuit", *words]) == code, words
    assert "is one of sapling-output, not of masp-output" in capsys.readouterr().err
    assert not Path("c.r1cs").exists()


@pytest.mark.parametrize("name", ["c.r1cs", "w.wtns"])
def test_files_of_circuit_are_written_all_or_none(
    folder: Path, name: str, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    note = write("note.json", json_of("sapling-output")[0])
    words = [
        "zcash",
        "circuit",
        "sapling-output",
        "c.r1cs",
        "--inputs",
        note,
        "--witness",
        "w.wtns",
    ]
    Path(name).mkdir()
    assert entry.run(words) == 5
    assert sorted(os.listdir()) == sorted([name, note])
    Path(name).rmdir()
    flush, flushed = os.fsync, []

    def full(descriptor: int) -> None:
        if len(flushed) == ["c.r1cs", "w.wtns"].index(name):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        flushed.append(descriptor)
        flush(descriptor)

    monkeypatch.setattr(os, "fsync", full)
    capsys.readouterr()
    assert entry.run(words) == 5
    assert f"{name}: could not be written (No space left on device" in capsys.readouterr().err
    assert os.listdir() == [note]

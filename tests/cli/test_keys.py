"""quod keys: output, and the exit code of each error."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from quod.cli import entry
from quod.service.keys import KeyRepository
from tests.service.keys.conftest import BLS, BN254, folder_of

ZKEY = str(BN254 / "circuit.zkey")


@pytest.fixture
def folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """A repository with one key, called small."""
    path = str(tmp_path / "keys")
    assert entry.run(["keys", "add", path, ZKEY, "--name", "small", "--name", "small:v1"]) == 0
    out, err = capsys.readouterr()
    assert out.strip() == KeyRepository(path).resolve("small")
    assert err.startswith("Registered ")
    return path


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    code = entry.run(["keys", *words])
    out, err = capsys.readouterr()
    return code, out, err


def test_list_and_show(folder: str, capsys: pytest.CaptureFixture[str]) -> None:
    identity = KeyRepository(folder).resolve("small")
    code, out, _ = run(capsys, "list", folder)
    assert code == 0
    for text in (identity, "small:latest, small:v1", "bn254", "sound"):
        assert text in out
    [listed] = json.loads(run(capsys, "list", folder, "--json")[1])
    shown = json.loads(run(capsys, "show", folder, "small:v1", "--json")[1])
    assert listed == {**shown, "problem": ""}
    assert shown["identity"] == identity
    assert shown["files"]["circuit.zkey"] == Path(ZKEY).stat().st_size
    assert "small:latest" in run(capsys, "show", folder, identity)[1]


def test_remove(folder: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = run(capsys, "remove", folder, "small:v1")
    assert (code, "has other names" in err) == (0, True)
    code, _, err = run(capsys, "remove", folder, "small")
    assert (code, "Removed the key" in err) == (0, True)
    code, _, err = run(capsys, "remove", folder, "small")
    assert (code, err.count("\n")) == (10, 1)
    assert "quod keys list" in err


def test_check(folder: str, capsys: pytest.CaptureFixture[str]) -> None:
    repository = KeyRepository(folder)
    repository.add(BLS / "circuit.zkey")
    assert run(capsys, "check", folder, "--deep", "-q") == (0, "", "")
    assert run(capsys, "check", folder)[2].count(": sound\n") == 2
    path = folder_of(repository) / "verification_key.json"
    path.write_text(path.read_text() + " ")
    (Path(folder) / "names" / "lost:latest").write_text("0" * 64)
    code, _, err = run(capsys, "check", folder, "-q")
    assert code == 10
    assert str(path) in err
    assert "lost:latest" in err
    assert "1 of 2 keys" in err
    for words in (("check", folder, "small"), ("check", folder, "small", "--deep")):
        code, _, err = run(capsys, *words)
        assert (code, str(path) in err) == (10, True)
    out, err = run(capsys, "list", folder)[1:]
    assert "damaged" in out
    assert str(path) in err
    assert run(capsys, "add", folder, ZKEY, "-q")[0] == 0
    assert run(capsys, "check", folder, "small")[0] == 0


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["add", "FOLDER", str(BLS / "circuit.zkey"), "--name", "small"], 10),
        (["add", "FOLDER", str(BN254 / "plonk.zkey")], 3),
        (["add", "FOLDER", ZKEY, "--name", "../x"], 3),
        (["add", "FOLDER", ZKEY, "--wasm", ZKEY], 3),
        (["add", "FOLDER", ZKEY, "--verification-key", str(BLS / "verification_key.json")], 4),
        (["add", ZKEY, ZKEY], 5),
        (["show", "FOLDER", "other"], 10),
        (["check", "FOLDER", "other"], 10),
        (["list", "none"], 3),
        (["remove", "FOLDER"], 2),
    ],
)
def test_invalid_arguments_are_rejected(
    words: list[str], code: int, folder: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [folder if word == "FOLDER" else word for word in words]
    assert run(capsys, *words)[0] == code
    assert set(KeyRepository(folder).names()) == {"small:latest", "small:v1"}
    assert KeyRepository(folder).problems() == []


def test_a_key_for_tests(folder: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    zkey = str(tmp_path / "made.zkey")
    r1cs = str(BN254 / "circuit.r1cs")
    words = ["groth16", "test-key", r1cs, zkey, "--seed", "1", "--insecure-test-key", "-q"]
    assert entry.run(words) == 0
    capsys.readouterr()
    assert run(capsys, "add", folder, zkey)[0] == 9
    code, out, err = run(capsys, "add", folder, zkey, "--insecure-test-key")
    assert (code, "forge" in err) == (0, True)
    assert json.loads(run(capsys, "show", folder, out.strip(), "--json")[1])["insecure"]

"""quod groth16 setup and quod zkey new."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from quod.cli import entry
from tests.groth16.phase2.circuits import known_powers, mixed

REPOSITORY = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Circuits of two curves, powers of tau, and a key to which nobody contributed."""
    path = tmp_path_factory.mktemp("setup")
    mixed("bn254").write_r1cs(path / "c.r1cs")
    mixed("bls12_381").write_r1cs(path / "other.r1cs")
    known_powers(path, "bn254", 5).rename(path / "p.ptau")
    known_powers(path, "bn254", 4).rename(path / "few.ptau")
    words = ["zkey", "new", *(str(path / name) for name in ("c.r1cs", "p.ptau", "0.zkey"))]
    assert entry.run([*words, "-q"]) == 0
    return path


@pytest.fixture
def folder(inputs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the inputs, in which commands run."""
    path = tmp_path / "work"
    shutil.copytree(inputs, path)
    monkeypatch.chdir(path)
    return path


def test_setup(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Both spellings make the same key, which proves only when somebody has contributed."""
    assert entry.run(["groth16", "setup", "c.r1cs", "p.ptau", "a.zkey", "--timings"]) == 0
    out, err = capsys.readouterr()
    assert out.startswith("Circuit hash: bbc67bb1 0670e378 9bd5adaa ")
    assert "b_g2" in err
    assert "Anyone can forge proofs for it until somebody contributes" in err
    assert entry.run(["zkey", "new", "c.r1cs", "p.ptau", "b.zkey", "-q"]) == 0
    assert capsys.readouterr() == (out, "")
    assert (folder / "a.zkey").read_bytes() == (folder / "b.zkey").read_bytes()
    assert entry.run(["zkey", "export", "verificationkey", "a.zkey", "vk.json"]) == 9
    assert not (folder / "vk.json").exists()


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["c.r1cs", "few.ptau", "out.zkey"], 3, "few.ptau: has 2**4 powers and c.r1cs needs 2**5"),
        (["other.r1cs", "p.ptau", "out.zkey"], 4, "powers of tau over bn254 do not fit"),
        (["p.ptau", "c.r1cs", "out.zkey"], 3, "is not a"),
        (["c.r1cs", "p.ptau", "p.ptau"], 2, "p.ptau"),
        (["c.r1cs", "p.ptau", "missing/out.zkey"], 5, "create its directory first"),
    ],
)
def test_invalid_setups_are_rejected(
    folder: Path, words: list[str], code: int, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before = sorted(path.name for path in folder.iterdir())
    assert entry.run(["groth16", "setup", *words]) == code
    assert message in " ".join(capsys.readouterr().err.replace("│", "").split())
    assert sorted(path.name for path in folder.iterdir()) == before


def test_a_ceremony(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With snarkjs's words for everything; the last key's verifying key is given out."""
    (folder / "0.zkey").unlink()
    for words in (
        ["zkey", "new", "c.r1cs", "p.ptau", "0.zkey"],
        ["zkey", "contribute", "0.zkey", "1.zkey", "-e=some text", "--name=first"],
        ["zkey", "beacon", "1.zkey", "2.zkey", "0102", "10", "-n", "last"],
        ["zkey", "export", "verificationkey", "2.zkey", "vk.json"],
    ):
        assert entry.run(words) == 0, capsys.readouterr().err
    hashes = [line for line in capsys.readouterr().out.splitlines() if "Contribution" in line]
    expected = None
    for words in (
        ["c.r1cs", "p.ptau", "2.zkey"],
        ["r1cs", "c.r1cs", "p.ptau", "2.zkey"],
        ["0.zkey", "p.ptau", "2.zkey"],
        ["init", "0.zkey", "p.ptau", "2.zkey"],
    ):
        assert entry.run(["zkey", "verify", *words, "-q"]) == 0
        out, err = capsys.readouterr()
        assert err == ""
        assert out == (expected or out)
        expected = out
    assert out.splitlines()[1:] == [
        hashes[0].replace("Contribution 1", "1 contribution first"),
        hashes[1].replace("Contribution 2", "2 beacon last"),
        "Names are not authenticated: no hash covers them, so anyone may have changed them.",
        "OK: 2 contributions.",
    ]
    assert entry.run(["zkey", "verify", "c.r1cs", "p.ptau", "2.zkey", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert [contribution["name"] for contribution in report["contributions"]] == ["first", "last"]
    assert report["circuit_hash"].startswith("bbc67bb1")


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["verify", "c.r1cs", "p.ptau", "0.zkey"], 6, "nobody contributed to it"),
        (["verify", "c.r1cs", "p.ptau"], 2, "expected three files"),
        (["verify", "init", "c.r1cs", "p.ptau", "0.zkey"], 3, "is not a zkey file"),
        (["verify", "missing", "p.ptau", "0.zkey"], 3, "missing"),
        (["verify", "other.r1cs", "p.ptau", "0.zkey"], 4, "over bn254"),
        (["contribute", "0.zkey", "0.zkey"], 2, "0.zkey"),
        (["contribute", "p.ptau", "out.zkey"], 3, "is not a zkey file"),
        (["beacon", "0.zkey", "out.zkey", "xyz", "10"], 3, "a beacon must be bytes in hexadecimal"),
        (["beacon", "0.zkey", "out.zkey", "01", "9"], 3, "the exponent of a beacon"),
    ],
)
def test_invalid_ceremony_commands_are_rejected(
    folder: Path, words: list[str], code: int, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before = sorted(path.name for path in folder.iterdir())
    assert entry.run(["zkey", *words]) == code
    assert message in " ".join(capsys.readouterr().err.replace("│", "").split())
    assert sorted(path.name for path in folder.iterdir()) == before


def test_a_contribution_that_is_interrupted(folder: Path) -> None:
    """An interrupt after the output was begun leaves no file."""
    before = sorted(path.name for path in folder.iterdir())
    script = (
        "import os, signal, sys\n"
        "from quod.cli import entry\n"
        "import quod.groth16.phase2.key_update as contributing\n"
        "real = contributing.secret_multiples\n"
        "def stopped(*given):\n"
        "    made = real(*given)\n"
        "    os.kill(os.getpid(), signal.SIGTERM)\n"
        "    return made\n"
        "contributing.secret_multiples = stopped\n"
        "entry.main(['zkey', 'contribute', '0.zkey', 'out.zkey'])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=folder, check=False,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY / "src")},
    )  # fmt: skip
    assert done.returncode == 143
    assert sorted(path.name for path in folder.iterdir()) == before

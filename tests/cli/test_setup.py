"""quod groth16 setup and quod zkey new."""

from __future__ import annotations

from pathlib import Path

import pytest

from quod.cli import entry
from tests.groth16.ceremony.circuits import known_powers, mixed


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    mixed("bn254").write_r1cs(tmp_path / "c.r1cs")
    mixed("bls12_381").write_r1cs(tmp_path / "other.r1cs")
    known_powers(tmp_path, "bn254", 5).rename(tmp_path / "p.ptau")
    known_powers(tmp_path, "bn254", 4).rename(tmp_path / "few.ptau")
    monkeypatch.chdir(tmp_path)
    return tmp_path


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
        (["other.r1cs", "p.ptau", "out.zkey"], 4, "powers of tau over bn254 cannot serve"),
        (["p.ptau", "c.r1cs", "out.zkey"], 3, "is not a"),
        (["c.r1cs", "p.ptau", "p.ptau"], 2, "p.ptau"),
        (["c.r1cs", "p.ptau", "missing/out.zkey"], 5, "create its directory first"),
    ],
)
def test_what_is_refused(
    folder: Path, words: list[str], code: int, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before = sorted(path.name for path in folder.iterdir())
    assert entry.run(["groth16", "setup", *words]) == code
    assert message in " ".join(capsys.readouterr().err.replace("│", "").split())
    assert sorted(path.name for path in folder.iterdir()) == before

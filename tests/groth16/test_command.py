"""The quod groth16 commands with nothing faked: what they write, and how they fail."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from quod.cli import entry
from quod.curve.named import CURVES
from quod.device.protocol import AnyDevice
from quod.groth16.gpu import bases
from tests.groth16.circuits import recurrence
from tests.groth16.conftest import Made
from tests.reference import circom, groth16

Make = Callable[..., Made]


@pytest.fixture
def folder(circuit_files: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with a key, its verifying key, a witness, a proof and its inputs."""
    files = circuit_files("bn254", 6)
    for path in (files.r1cs, files.wtns, files.zkey):
        shutil.copy(path, tmp_path)
    monkeypatch.chdir(tmp_path)
    assert entry.run([*EXPORT, INSECURE, "-q"]) == 0
    assert entry.run([*PROVE, "-q"]) == 0
    return tmp_path


INSECURE = "--insecure-test-key"
EXPORT = ["zkey", "export", "verificationkey", "circuit.zkey", "vkey.json"]
PROVE = ["groth16", "prove", "circuit.zkey", "witness.wtns", "proof.json", "public.json"]
VERIFY_STRICTLY = ["groth16", "verify", "vkey.json", "public.json", "proof.json"]
VERIFY = [*VERIFY_STRICTLY, INSECURE]


def error_of(capsys: pytest.CaptureFixture[str]) -> str:
    """The one line on standard error, beside warnings."""
    lines = capsys.readouterr().err.splitlines()
    (line,) = (line for line in lines if not line.startswith("quod: warning: "))
    assert line.startswith("quod: error: ")
    return line


def test_a_proof_and_its_verification(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert entry.run(VERIFY) == 0
    assert capsys.readouterr().out == "OK: the proof is valid.\n"
    key = circom.read_verification_key(folder / "vkey.json")
    public = circom.read_public(folder / "public.json")
    assert groth16.verify(key, public, circom.read_proof(folder / "proof.json"))


def test_a_seed_gives_the_same_files(folder: Path) -> None:
    texts = set()
    for _ in range(2):
        assert entry.run([*PROVE, "-q", "--seed", "5"]) == 0
        texts.add((folder / "proof.json").read_bytes())
    assert len(texts) == 1
    assert entry.run(VERIFY) == 0


@pytest.mark.thorough
def test_a_gpu_writes_the_same_files(
    folder: Path, gpu_device: AnyDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    if gpu_device.kind == "emulated":
        # Multiples of the bases have tests of their own, and take an interpreter long.
        monkeypatch.setattr(bases, "_MULTIPLES", (1,))
    files = [folder / name for name in ("proof.json", "public.json")]
    written = []
    for device in ("cpu", gpu_device.name):
        assert entry.run([*PROVE, "-q", "--seed", "5", "--device", device]) == 0
        written.append([file.read_bytes() for file in files])
    assert written[0] == written[1]
    assert entry.run(VERIFY) == 0


def test_another_public_input(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    public = json.loads((folder / "public.json").read_text())
    (folder / "public.json").write_text(json.dumps([public[1], public[0]]))
    assert entry.run(VERIFY) == 6
    assert "not valid for these public inputs" in error_of(capsys)


def test_unreduced_input_is_rejected(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    public = json.loads((folder / "public.json").read_text())
    public[0] = str(int(public[0]) + CURVES["bn254"].fr.value)
    (folder / "public.json").write_text(json.dumps(public))
    assert entry.run(VERIFY) == 3
    assert "[0] must be below the modulus" in error_of(capsys)


@pytest.mark.parametrize("count", [0, 1, 3])
def test_wrong_number_of_inputs_is_rejected(
    folder: Path, capsys: pytest.CaptureFixture[str], count: int
) -> None:
    (folder / "public.json").write_text(json.dumps(["1"] * count))
    assert entry.run(VERIFY) == 4
    assert f"2 public inputs and {count} were given" in error_of(capsys)


def test_a_point_off_the_curve(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    proof = json.loads((folder / "proof.json").read_text())
    proof["pi_c"][1] = "1"
    (folder / "proof.json").write_text(json.dumps(proof))
    assert entry.run(VERIFY) == 3
    assert "proof.json: pi_c is not on the curve" in error_of(capsys)


def test_a_witness_that_violates_the_circuit(
    folder: Path, circuit_files: Make, capsys: pytest.CaptureFixture[str]
) -> None:
    circuit = circuit_files("bn254", 6).circuit
    circuit.write_wtns(folder / "witness.wtns", [*circuit.witness[:-1], 5])
    for name in ("proof.json", "public.json"):
        (folder / name).unlink()
    assert entry.run([*PROVE, "-q"]) == 6
    assert "witness.wtns: the proof does not verify" in error_of(capsys)
    assert sorted(path.name for path in folder.glob("p*.json")) == []
    assert entry.run([*PROVE, "-q", "--no-self-check"]) == 0
    assert entry.run(VERIFY) == 6


def test_a_witness_over_another_curve(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recurrence("bls12_381", 20).write_wtns(folder / "witness.wtns")
    assert entry.run([*PROVE, "-q"]) == 4
    assert "over bls12_381" in error_of(capsys)


def test_a_test_key_is_refused_by_verifiers(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    assert entry.run(VERIFY_STRICTLY) == 9
    message = error_of(capsys)
    assert message.startswith("quod: error: vkey.json: anyone can forge proofs for this key: ")
    assert "quod zkey contribute" in message
    assert INSECURE in message
    (folder / "vkey.json").unlink()
    assert entry.run(EXPORT) == 9
    assert "circuit.zkey: anyone can forge" in error_of(capsys)
    assert not (folder / "vkey.json").exists()
    wasm = Path(__file__).resolve().parents[2] / "examples" / "membership" / "circuit.wasm"
    site = ["export-web", "circuit.zkey", "--wasm", str(wasm), "-o", "site"]
    assert entry.run(site) == 9
    assert "circuit.zkey: anyone can forge" in error_of(capsys)
    assert not (folder / "site").exists()


def test_prover_warns_once_about_test_keys(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    assert entry.run([*PROVE, "-q"]) == 0
    assert capsys.readouterr().err == (
        "quod: warning: circuit.zkey: anyone can forge proofs for this key: "
        "it is a test key of quod groth16 test-key\n"
    )
    for file in ("circuit.zkey", "vkey.json"):
        assert entry.run(["inspect", file, "--json"]) == 0
        report = json.loads(capsys.readouterr().out)
        assert report["insecure"] == "it is a test key of quod groth16 test-key"
    assert entry.run(["inspect", "proof.json", "--json"]) == 0
    assert "insecure" not in json.loads(capsys.readouterr().out)


@pytest.mark.fixtures
def test_a_key_without_a_contribution(
    shared_fixtures: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A set of another project, whose key nobody has contributed to."""
    source = shared_fixtures / "circom" / "bn254-poseidon"
    verify = ["groth16", "verify", *map(str, (
        source / "verification_key.json", source / "public.json", source / "circom.proof"
    ))]  # fmt: skip
    assert entry.run(verify) == 9
    assert "delta is gamma up to sign, no contribution to phase 2; contr" in error_of(capsys)
    assert entry.run([*verify, INSECURE]) == 0
    out = tmp_path / "vkey.json"
    export = ["zkey", "export", "verificationkey", str(source / "circuit.zkey"), str(out)]
    assert entry.run(export) == 9
    assert not out.exists()
    assert entry.run([*export, INSECURE]) == 0


@pytest.mark.parametrize("left_out", [["curve"], ["curve", "protocol"]], ids=" ".join)
def test_proof_in_rapidsnark_format(folder: Path, left_out: list[str]) -> None:
    proof = json.loads((folder / "proof.json").read_text())
    for name in left_out:
        del proof[name]
    (folder / "proof.json").write_text(json.dumps(proof, separators=(",", ":")))
    assert entry.run(VERIFY) == 0
    public = json.loads((folder / "public.json").read_text())
    (folder / "public.json").write_text(json.dumps(public[::-1]))
    assert entry.run(VERIFY) == 6


def test_setup(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = (folder / "circuit.zkey").read_bytes()
    arguments = ["groth16", "test-key", "circuit.r1cs", "new.zkey", "--seed", "1"]
    assert entry.run([*arguments, "--insecure-test-key", "-q"]) == 0
    assert "INSECURE" in capsys.readouterr().err
    assert (folder / "new.zkey").read_bytes() == before


def test_ctrl_c_leaves_no_files(folder: Path) -> None:
    """Interrupted while the kernels of a first proof are compiled, or the proof is made."""
    for name in ("proof.json", "public.json"):
        (folder / name).unlink()
    environment = dict(os.environ, QUOD_CACHE_DIR=str(folder / "cache"))
    process = subprocess.Popen(
        [sys.executable, "-m", "quod", *PROVE], env=environment, cwd=folder,
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    while not any(path.is_file() for path in (folder / "cache").rglob("*")):
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 130
    assert "Traceback" not in errors
    assert not list(folder.glob("p*.json"))
    assert not list(folder.glob(".quod-*"))
